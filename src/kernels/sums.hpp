// Sums over rows as fast as memory gives the values.
#pragma once

#include <cstdint>

#include "processors.hpp"

namespace fbed {

// Sums have several running parts, which do not wait for each other: one alone takes longer than reading the values does.
constexpr int64_t kParts = 16;

// The parts and the last few terms.
template <class F>
[[gnu::always_inline]] inline double joined(const double* part, int64_t i, int64_t m, F&& f) {
    double sum = 0;
    for (int64_t k = 0; k < kParts; ++k) sum += part[k];
    for (; i < m; ++i) sum += f(i);
    return sum;
}

// Sum of f(i) over 0..m. Always inlined: the loop is compiled for the processor that the caller is compiled for.
template <class F>
[[gnu::always_inline]] inline double sum_in_parts(int64_t m, F&& f) {
    double part[kParts] = {};
    int64_t i = 0;
    for (; i + kParts <= m; i += kParts)
#pragma omp simd
        for (int64_t k = 0; k < kParts; ++k) part[k] += f(i + k);
    return joined(part, i, m, f);
}

FBED_HOT inline double dot(const double* x, const double* v, int64_t n) {
    return sum_in_parts(n, [=](int64_t i) { return x[i] * v[i]; });
}

// The same of four columns at once, to the last bit: memory answers several streams sooner than one after the other.
FBED_HOT inline void four_dots(const double* a, const double* b, const double* c, const double* d, const double* v, int64_t n, double* out) {
    double part[4][kParts] = {};
    int64_t i = 0;
    for (; i + kParts <= n; i += kParts)
#pragma omp simd
        for (int64_t k = 0; k < kParts; ++k) {
            const double value = v[i + k];
            part[0][k] += a[i + k] * value;
            part[1][k] += b[i + k] * value;
            part[2][k] += c[i + k] * value;
            part[3][k] += d[i + k] * value;
        }
    const double* columns[4] = {a, b, c, d};
    for (int64_t j = 0; j < 4; ++j) out[j] = joined(part[j], i, n, [&](int64_t rest) { return columns[j][rest] * v[rest]; });
}

}  // namespace fbed
