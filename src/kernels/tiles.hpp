// Products of tall matrices and Cholesky factors, by tiles that stay in registers; matrices are given row after row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "linear.hpp"
#include "pause.hpp"

namespace fbed {

constexpr int64_t kTile = 16;  // numbers beside each other in a tile; arrays have as many to spare at their end

inline int64_t tiled(int64_t k) { return (k + kTile - 1) / kTile * kTile; }

#if defined(__GNUC__)
typedef double Lanes __attribute__((vector_size(64), aligned(8), may_alias));
struct Long {  // a template would lose what else is said of the type
    typedef Lanes Vector;
};
struct Short {
    typedef double Vector __attribute__((vector_size(32), aligned(8), may_alias));
};
#else
struct Lanes {
    double v[8];
    Lanes& operator+=(const Lanes& o) {
        for (int i = 0; i < 8; ++i) v[i] += o.v[i];
        return *this;
    }
};
inline Lanes operator*(double t, const Lanes& o) {
    Lanes out;
    for (int i = 0; i < 8; ++i) out.v[i] = t * o.v[i];
    return out;
}
struct Long {
    using Vector = Lanes;
};
using Short = Long;
#endif

// C[b][a] += sign · sum over rows of B[row][b] A[row][a], for kB values of b and kA vectors of a
template <class Kind, int kB, int kA>
FBED_INLINE void add_tile(const double* A, int64_t lda, const double* B, int64_t ldb, int64_t rows, double sign, double* C,
                          int64_t ldc) {
    using V = typename Kind::Vector;
    V sum[kB][kA];
    for (int b = 0; b < kB; ++b)
        for (int l = 0; l < kA; ++l) sum[b][l] = V{};
    for (int64_t r = 0; r < rows; ++r) {
        const V* a = reinterpret_cast<const V*>(A + r * lda);
        const double* from = B + r * ldb;
#pragma GCC unroll 8
        for (int b = 0; b < kB; ++b)
            for (int l = 0; l < kA; ++l) sum[b][l] += from[b] * a[l];
    }
    for (int b = 0; b < kB; ++b) {
        V* to = reinterpret_cast<V*>(C + b * ldc);
        for (int l = 0; l < kA; ++l) to[l] += sign * sum[b][l];
    }
}

template <class Kind, int kA>
FBED_INLINE void add_some(int64_t few, const double* A, int64_t lda, const double* B, int64_t ldb, int64_t rows, double sign,
                          double* C, int64_t ldc) {
    switch (few) {
        case 1: return add_tile<Kind, 1, kA>(A, lda, B, ldb, rows, sign, C, ldc);
        case 2: return add_tile<Kind, 2, kA>(A, lda, B, ldb, rows, sign, C, ldc);
        case 3: return add_tile<Kind, 3, kA>(A, lda, B, ldb, rows, sign, C, ldc);
        case 4: return add_tile<Kind, 4, kA>(A, lda, B, ldb, rows, sign, C, ldc);
        case 5: return add_tile<Kind, 5, kA>(A, lda, B, ldb, rows, sign, C, ldc);
        case 6: return add_tile<Kind, 6, kA>(A, lda, B, ldb, rows, sign, C, ldc);
        case 7: return add_tile<Kind, 7, kA>(A, lda, B, ldb, rows, sign, C, ldc);
        default: return add_tile<Kind, 8, kA>(A, lda, B, ldb, rows, sign, C, ldc);
    }
}

// Processors with 32 long registers hold 8 × 16 sums in half of them; those with 16 of half the length, 4 × 8 in half of them.
FBED_WIDE inline void add_tiles_wide(int64_t few, int64_t wide, const double* A, int64_t lda, const double* B, int64_t ldb,
                                     int64_t rows, double sign, double* C, int64_t ldc) {
    if (wide > kLanes) return add_some<Long, 2>(few, A, lda, B, ldb, rows, sign, C, ldc);
    add_some<Long, 1>(few, A, lda, B, ldb, rows, sign, C, ldc);
}

FBED_NARROW inline void add_tiles_narrow(int64_t few, int64_t wide, const double* A, int64_t lda, const double* B, int64_t ldb,
                                         int64_t rows, double sign, double* C, int64_t ldc) {
    constexpr int kVectors = kLanes * sizeof(double) / sizeof(Short::Vector);
    for (int64_t a = 0; a < std::min(wide, kTile); a += kLanes)
        for (int64_t b = 0; b < few; b += 4)
            add_some<Short, kVectors>(std::min<int64_t>(4, few - b), A + a, lda, B + b, ldb, rows, sign, C + b * ldc + a, ldc);
}

// For up to 8 values of b and the first 16 of those of a: whole vectors of 8 of these are read and added to.
inline void add_tiles(int64_t few, int64_t wide, const double* A, int64_t lda, const double* B, int64_t ldb, int64_t rows,
                      double sign, double* C, int64_t ldc) {
    if (kLongRegisters) return add_tiles_wide(few, wide, A, lda, B, ldb, rows, sign, C, ldc);
    add_tiles_narrow(few, wide, A, lda, B, ldb, rows, sign, C, ldc);
}

// C += BᵀA for a part of the rows: A has `wide` columns, B `few`; C[few][tiled(wide)]
inline void add_products(const double* A, int64_t wide, const double* B, int64_t few, int64_t rows, double* C) {
    const int64_t ldc = tiled(wide);
    for (int64_t b = 0; b < few; b += 8)
        for (int64_t a = 0; a < wide; a += kTile)
            add_tiles(std::min<int64_t>(8, few - b), wide - a, A + a, wide, B + b, few, rows, 1.0, C + b * ldc + a, ldc);
}

// out[b][i] += sum over columns j of B[j][b] A[j][i] for some rows i of matrices that lie column after column; nothing beside them is
// read. The columns of A and of `out` are `lda` and `ldout` apart.
inline void add_combinations(const double* A, int64_t lda, const double* B, int64_t few, int64_t columns, int64_t rows, double* out,
                             int64_t ldout) {
    constexpr int64_t kHalf = kTile / 2;
    const int64_t whole = rows / kHalf * kHalf;
    for (int64_t b = 0; b < few; b += 8)
        for (int64_t i = 0; i < whole; i += kTile)
            add_tiles(std::min<int64_t>(8, few - b), whole - i, A + i, lda, B + b, few, columns, 1.0, out + b * ldout + i, ldout);
    for (int64_t b = 0; b < few && whole < rows; ++b)
        for (int64_t j = 0; j < columns; ++j)
            for (int64_t i = whole; i < rows; ++i) out[b * ldout + i] += B[j * few + b] * A[j * lda + i];
}

// A symmetric matrix of which the upper triangle counts, with room for tiles at the end of each row.
struct Symmetric {
    int64_t size = 0, stride = 0;
    std::vector<double> values;

    void resize(int64_t k) {
        size = k, stride = tiled(k) + kTile;
        values.assign(stride * k + kTile, 0.0);
    }
    double* row(int64_t i) { return values.data() + i * stride; }
    const double* row(int64_t i) const { return values.data() + i * stride; }

    double largest() const {  // on the diagonal
        double most = 0;
        for (int64_t i = 0; i < size; ++i) most = std::max(most, row(i)[i]);
        return most;
    }

    // out -= A·v
    FBED_HOT void subtract_product(const double* v, double* out) const {
        for (int64_t i = 0; i < size; ++i) {
            const double *a = row(i), vi = v[i];
            double s = a[i] * vi;
#pragma omp simd reduction(+ : s)
            for (int64_t l = i + 1; l < size; ++l) s += a[l] * v[l];
            out[i] -= s;
#pragma omp simd
            for (int64_t l = i + 1; l < size; ++l) out[l] -= a[l] * vi;
        }
    }
};

// Rows first..last of the factor below, and what they take from the rows after them; `diagonal` is that of A.
FBED_HOT inline void factorise_rows(Symmetric& A, int64_t known, const double* diagonal, int64_t first, int64_t last) {
    const int64_t k = A.size, stride = A.stride;
    const auto open = [&](int64_t i) { return i < known ? known : i; };  // first column that is not final
    for (int64_t j = first; j < last; ++j) {
        double *row = A.row(j), root = row[j];
        if (j >= known) {
            const double least = diagonal[j] > 0 ? kLifted * diagonal[j] : 1.0;  // 1: do not move along it
            const bool eaten = !(row[j] > least);
            root = std::sqrt(eaten ? least : row[j]);
            row[j] = root;
            if (eaten) std::fill(row + j + 1, row + k, 0.0);  // beside such a pivot the rest is rounding, which would grow
        }
        const double unit = 1.0 / root;
        for (int64_t l = std::max(j + 1, open(j)); l < k; ++l) row[l] *= unit;
        for (int64_t i = j + 1; i < last; ++i) {
            double *to = A.row(i), t = row[i];
#pragma omp simd
            for (int64_t l = open(i); l < k; ++l) to[l] -= t * row[l];
        }
    }
    for (int64_t i = last; i < k;) {
        const int64_t end = std::min(i < known ? std::min(i + 8, known) : i + 8, k);
        for (int64_t l = open(i); l < k; l += kTile)
            add_tiles(end - i, k - l, A.row(first) + l, stride, A.row(first) + i, stride, last - first, -1.0, A.row(i) + l, stride);
        i = end;
    }
}

// Upper Cholesky factor in place, UᵀU = A. The first `known` rows hold the factor of their own block already, and what
// they have to the right of it still to be divided. Pivots that rounding has eaten are lifted as in `cholesky`.
inline void factorise(Symmetric& A, int64_t known) {
    constexpr int64_t kPanel = 16;
    thread_local std::vector<double> diagonal;
    diagonal.resize(A.size);
    for (int64_t i = 0; i < A.size; ++i) diagonal[i] = A.row(i)[i];
    for (int64_t first = 0; first < A.size; first += kPanel) {
        look_up();
        factorise_rows(A, known, diagonal.data(), first, std::min(A.size, first + kPanel));
    }
}

// b := (UᵀU)⁻¹b, a few rows at a time: all of U is read twice, and little else.
FBED_HOT inline void solve_factorised(const Symmetric& U, double* b) {
    constexpr int64_t kRows = 4;
    const int64_t k = U.size, whole = k / kRows * kRows;
    for (int64_t j = 0; j < k; j += kRows) {
        const int64_t end = std::min(k, j + kRows);
        for (int64_t i = j; i < end; ++i) {
            const double *row = U.row(i), t = b[i] / row[i];
            b[i] = t;
            for (int64_t l = i + 1; l < end; ++l) b[l] -= row[l] * t;
        }
        if (j == whole) break;
        const double *r0 = U.row(j), *r1 = U.row(j + 1), *r2 = U.row(j + 2), *r3 = U.row(j + 3);
        const double t0 = b[j], t1 = b[j + 1], t2 = b[j + 2], t3 = b[j + 3];
#pragma omp simd
        for (int64_t l = end; l < k; ++l) b[l] -= (r0[l] * t0 + r1[l] * t1) + (r2[l] * t2 + r3[l] * t3);
    }
    for (int64_t j = whole < k ? whole : whole - kRows; j >= 0; j -= kRows) {
        const int64_t end = std::min(k, j + kRows);
        double sums[kRows] = {0.0, 0.0, 0.0, 0.0};
        if (end == j + kRows) {
            const double *r0 = U.row(j), *r1 = U.row(j + 1), *r2 = U.row(j + 2), *r3 = U.row(j + 3);
            double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
            for (int64_t l = end; l < k; ++l) s0 += r0[l] * b[l], s1 += r1[l] * b[l], s2 += r2[l] * b[l], s3 += r3[l] * b[l];
            sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
        }
        for (int64_t i = end; i-- > j;) {
            const double* row = U.row(i);
            double s = b[i] - sums[i - j];
            for (int64_t l = i + 1; l < end; ++l) s -= row[l] * b[l];
            b[i] = s / row[i];
        }
    }
}

}  // namespace fbed
