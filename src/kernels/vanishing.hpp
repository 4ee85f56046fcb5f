// Results too small for a normal number become 0 while one of these lives. Near separation most products of two probabilities are such
// numbers, beside which they count for nothing, and processors that do not compute with them at full speed take four times as long for
// a fit. Values that are read are left as they are.
#pragma once

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace fbed {

class VanishingIsZero {
#if defined(__SSE2__) || defined(_M_X64)
    static constexpr unsigned kFlush = 0x8000;
    const unsigned before = _mm_getcsr();

public:
    VanishingIsZero() { _mm_setcsr(before | kFlush); }
    ~VanishingIsZero() { _mm_setcsr((_mm_getcsr() & ~kFlush) | (before & kFlush)); }
#else
public:
    VanishingIsZero() {}
#endif
    VanishingIsZero(const VanishingIsZero&) = delete;
    VanishingIsZero& operator=(const VanishingIsZero&) = delete;
};

}  // namespace fbed
