// Loops that are compiled for several generations of processors; the best one is chosen when the library is loaded.
//
// Nothing may be thrown out of such a function, so none of them looks up (`pause.hpp`): GCC takes its calls for calls that
// cannot throw, whatever it does, and an exception would end the process.
#pragma once

#if defined(__GNUC__) && defined(__x86_64__) && defined(__linux__)
#define FBED_HOT __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define FBED_WIDE __attribute__((target("arch=x86-64-v4")))
#define FBED_NARROW __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define FBED_HOT
#define FBED_WIDE
#define FBED_NARROW
#endif

namespace fbed {

// Whether functions that are FBED_WIDE may be called: there are 32 registers of 64 bytes.
inline const bool kLongRegisters = [] {
#if defined(__GNUC__) && defined(__x86_64__) && defined(__linux__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}();

}  // namespace fbed
