// Sums over rows and small triangular systems, for matrices that are given column after column.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "processors.hpp"

namespace fbed {

// Short loops run over whole vectors, the last filled up with zeros: sums of few terms would cost more than they add.
constexpr int64_t kLanes = 8;

inline int64_t whole(int64_t k) { return (k + kLanes - 1) / kLanes * kLanes; }

// Room for numbers, not filled, that begins where whole vectors do: those that lie across two lines of the cache cost twice.
struct FreeRoom {
    void operator()(double* room) const { ::operator delete[](room, std::align_val_t(kLanes * sizeof(double))); }
};
using Room = std::unique_ptr<double[], FreeRoom>;

inline Room new_room(int64_t size) {
    return Room(static_cast<double*>(::operator new[](static_cast<size_t>(size) * sizeof(double), std::align_val_t(kLanes * sizeof(double)))));
}

#if defined(__GNUC__)
#define FBED_INLINE __attribute__((always_inline)) inline
#else
#define FBED_INLINE inline
#endif

// out += t·g for rows that are filled up to whole vectors
FBED_INLINE void add_row(double* out, double t, const double* g, int64_t size) {
    for (int64_t start = 0; start < size; start += kLanes)
#pragma omp simd
        for (int64_t q = 0; q < kLanes; ++q) out[start + q] += t * g[start + q];
}

FBED_INLINE double row_product(const double* g, const double* e, int64_t size) {
    double part[kLanes] = {}, sum = 0;
    for (int64_t start = 0; start < size; start += kLanes)
#pragma omp simd
        for (int64_t q = 0; q < kLanes; ++q) part[q] += g[start + q] * e[start + q];
    for (int64_t q = 0; q < kLanes; ++q) sum += part[q];
    return sum;
}

FBED_HOT inline double dot(const double* a, const double* b, size_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

// Sums over rows, four columns at a time, so that what they share is read a quarter as often.
FBED_HOT inline void products(const double* T, int64_t n, int64_t r, const double* v, double* out) {
    int64_t k = 0;
    for (; k + 4 <= r; k += 4) {
        const double *t0 = T + k * n, *t1 = t0 + n, *t2 = t1 + n, *t3 = t2 + n;
        double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t i = 0; i < n; ++i) {
            s0 += v[i] * t0[i];
            s1 += v[i] * t1[i];
            s2 += v[i] * t2[i];
            s3 += v[i] * t3[i];
        }
        out[k] = s0, out[k + 1] = s1, out[k + 2] = s2, out[k + 3] = s3;
    }
    for (; k < r; ++k) {
        const double* t = T + k * n;
        double s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t i = 0; i < n; ++i) s += v[i] * t[i];
        out[k] = s;
    }
}

// out += sum of c_k times column k
FBED_HOT inline void add_columns(const double* T, int64_t n, int64_t r, const double* c, double* out) {
    int64_t k = 0;
    for (; k + 4 <= r; k += 4) {
        const double *t0 = T + k * n, *t1 = t0 + n, *t2 = t1 + n, *t3 = t2 + n;
        const double c0 = c[k], c1 = c[k + 1], c2 = c[k + 2], c3 = c[k + 3];
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] += (c0 * t0[i] + c1 * t1[i]) + (c2 * t2[i] + c3 * t3[i]);
    }
    for (; k < r; ++k) {
        const double *t = T + k * n, ck = c[k];
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] += ck * t[i];
    }
}

// Cholesky factor of the leading k × k block in place (row-major, lower); returns the smallest pivot relative to its
// diagonal entry, 1 for orthogonal columns and 0 for dependent ones. A pivot that rounding has eaten is lifted to kLifted
// of its diagonal entry: the factor then belongs to a slightly larger matrix. Relative to each entry, because columns
// with heavy tails have curvatures of very different sizes, and all of them count.
constexpr double kLifted = 1e-14;

// out -= t0·g0 + t1·g1 + t2·g2 + t3·g3, one after the other, for rows that are filled up to whole vectors and come `stride` apart.
FBED_INLINE void subtract_rows(double* out, const double* t, const double* g, int64_t stride, int64_t size) {
    const double *g1 = g + stride, *g2 = g1 + stride, *g3 = g2 + stride;
    for (int64_t start = 0; start < size; start += kLanes)
#pragma omp simd
        for (int64_t q = start; q < start + kLanes; ++q)
            out[q] = (((out[q] - t[0] * g[q]) - t[1] * g1[q]) - t[2] * g2[q]) - t[3] * g3[q];
}

// Rows of a factor that are taken off those after them together, so that these are read a quarter as often.
constexpr int64_t kPanel = 4;

// Row j of a transposed factor is known: off the others of its panel with it, and off all others with the panel's last row.
FBED_INLINE void take_off(double* U, int64_t k, int64_t stride, int64_t j) {
    const int64_t first = j / kPanel * kPanel, last = std::min(first + kPanel, k);
    const double *row = U + j * stride, *panel = U + first * stride;
    for (int64_t i = j + 1; i < last; ++i) {
        const int64_t start = i / kLanes * kLanes;
        add_row(U + i * stride + start, -row[i], row + start, stride - start);
    }
    for (int64_t i = last; j + 1 == last && i < k; ++i) {
        const int64_t start = i / kLanes * kLanes;
        const double t[kPanel] = {panel[i], panel[stride + i], panel[2 * stride + i], panel[3 * stride + i]};
        if (t[0] == 0.0 && t[1] == 0.0 && t[2] == 0.0 && t[3] == 0.0) continue;
        subtract_rows(U + i * stride + start, t, panel + start, stride, stride - start);
    }
}

FBED_HOT inline double cholesky(double* A, int64_t k) {
    // the transposed factor, row after row
    const int64_t stride = whole(k);
    thread_local std::vector<double> scratch;
    scratch.assign(stride * k, 0.0);
    double* U = scratch.data();
    for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j <= i; ++j) U[j * stride + i] = A[i * k + j];
    double weakest = 1.0;
    for (int64_t j = 0; j < k; ++j) {
        double* row = U + j * stride;
        const double diagonal = A[j * k + j], least = diagonal > 0 ? kLifted * diagonal : 1.0;  // 1: do not move along it
        const double pivot = row[j];
        weakest = std::min(weakest, pivot > least ? pivot / diagonal : 0.0);
        const double root = std::sqrt(pivot > least ? pivot : least), unit = 1.0 / root;
        for (int64_t l = j; l < k; ++l) row[l] *= unit;
        row[j] = root;
        take_off(U, k, stride, j);
    }
    for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j <= i; ++j) A[i * k + j] = U[j * stride + i];
    return weakest;
}

// Pivots above this leave a solution that is right to 1e-10, since a Gram matrix is right to 1e-15 or so.
constexpr double kSound = 1e-4;

FBED_HOT inline void cholesky_solve(const double* L, int64_t k, double* b) {
    for (int64_t i = 0; i < k; ++i) {
        double s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t l = 0; l < i; ++l) s += L[i * k + l] * b[l];
        b[i] = (b[i] - s) / L[i * k + i];
    }
    for (int64_t i = k; i-- > 0;) {
        const double *row = L + i * k, t = b[i] /= row[i];
#pragma omp simd
        for (int64_t l = 0; l < i; ++l) b[l] -= row[l] * t;
    }
}

// sum over rows of c_i [g_i; x_i][g_i; x_i]' into H ((r+1)², of which the lower triangle counts), where x may be absent. By
// parts of the rows of which all columns stay in the cache, and by tiles of 4 × 4 entries that stay in registers; at the
// edge, the last column stands in for those that are not there.
FBED_HOT inline void gram(const double* T, int64_t n, int64_t r, const double* x, const double* c, double* H) {
    constexpr int64_t kPart = 512;
    double u0[kPart], u1[kPart], u2[kPart], u3[kPart];
    const int64_t k = x ? r + 1 : r;
    std::fill(H, H + k * k, 0.0);
    for (int64_t start = 0; start < n; start += kPart) {
        const int64_t m = std::min(kPart, n - start);
        const auto column = [&](int64_t p) { return (p >= r && x ? x : T + std::min(p, r - 1) * n) + start; };
        for (int64_t p = 0; p < k; p += 4) {
            const double *from = c + start, *c0 = column(p), *c1 = column(p + 1), *c2 = column(p + 2), *c3 = column(p + 3);
#pragma omp simd
            for (int64_t i = 0; i < m; ++i) {
                u0[i] = from[i] * c0[i];
                u1[i] = from[i] * c1[i];
                u2[i] = from[i] * c2[i];
                u3[i] = from[i] * c3[i];
            }
            for (int64_t q = 0; q <= p; q += 4) {
                const double *t0 = column(q), *t1 = column(q + 1), *t2 = column(q + 2), *t3 = column(q + 3);
                double a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
                double d0 = 0, d1 = 0, d2 = 0, d3 = 0, e0 = 0, e1 = 0, e2 = 0, e3 = 0;
#pragma omp simd reduction(+ : a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3, e0, e1, e2, e3)
                for (int64_t i = 0; i < m; ++i) {
                    a0 += u0[i] * t0[i], a1 += u0[i] * t1[i], a2 += u0[i] * t2[i], a3 += u0[i] * t3[i];
                    b0 += u1[i] * t0[i], b1 += u1[i] * t1[i], b2 += u1[i] * t2[i], b3 += u1[i] * t3[i];
                    d0 += u2[i] * t0[i], d1 += u2[i] * t1[i], d2 += u2[i] * t2[i], d3 += u2[i] * t3[i];
                    e0 += u3[i] * t0[i], e1 += u3[i] * t1[i], e2 += u3[i] * t2[i], e3 += u3[i] * t3[i];
                }
                const double tile[4][4] = {{a0, a1, a2, a3}, {b0, b1, b2, b3}, {d0, d1, d2, d3}, {e0, e1, e2, e3}};
                for (int64_t i = p; i < std::min(p + 4, k); ++i)
                    for (int64_t j = q; j <= std::min(q + 3, i); ++j) H[i * k + j] += tile[i - p][j - q];
            }
        }
    }
}

}  // namespace fbed
