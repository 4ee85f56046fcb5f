// A basis of the model that is orthonormal in the curvature of the rows that still count.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "processors.hpp"
#include "linear.hpp"

namespace fbed {

// Directions in which the rows move less than this, relative, move saturated rows only.
constexpr double kWeak = 1e-11;

// What is left of a column's norm² on the rows that count is rounding if it is less than this part.
constexpr double kNoise = 1e-28;

// Pivots above this give an orthonormal basis to 1e-10.
constexpr double kPlain = 1e-5;

// Pivots below this are rounding, if what is left of their columns is looked at and found to be.
constexpr double kVanished = 1e-12;

// rows·M is orthonormal, where M has a row for each of r columns; the directions in `free` move none of the rows.
struct Whitened {
    int64_t r = 0, kept = 0;
    std::vector<double> M, free;  // r × kept and r × (r - kept), row-major
    std::vector<int64_t> alive;   // where M is a triangle but for columns that move no row: the others
};

namespace whitening {

inline double product(const double* a, const double* b, size_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

FBED_INLINE void subtract(double* a, double c, const double* b, size_t n) {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) a[i] -= c * b[i];
}

// Inverse of a lower triangle (k × k, row-major).
FBED_HOT inline void invert(const double* L, int64_t k, std::vector<double>& out) {
    out.assign(k * k, 0.0);
    for (int64_t j = 0; j < k; ++j) {
        double* row = &out[j * k];
        for (int64_t l = 0; l < j; ++l) subtract(row, L[j * k + l], &out[l * k], l + 1);
        for (int64_t l = 0; l < j; ++l) row[l] /= L[j * k + j];
        row[j] = 1.0 / L[j * k + j];
    }
}

// a -= c·b; returns what is left of |a|².
FBED_HOT inline double subtract_and_measure(double* a, double c, const double* b, size_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; ++i) {
        a[i] -= c * b[i];
        sum += a[i] * a[i];
    }
    return sum;
}

// Orthonormalise the columns in place, the longest that is left first; those that vanish come last, as they are.
// R (rank × r, row-major) has the coordinates of the columns in their new order.
inline int64_t pivoted(std::vector<double>& columns, int64_t m, int64_t r, std::vector<int64_t>& order, std::vector<double>& R,
                       double weak) {
    order.resize(r);
    std::iota(order.begin(), order.end(), 0);
    R.assign(r * r, 0.0);
    std::vector<double> norm(r), along(r);
    for (int64_t j = 0; j < r; ++j) norm[j] = subtract_and_measure(columns.data() + j * m, 0.0, columns.data() + j * m, m);
    double longest = 0;
    for (int64_t k = 0; k < r; ++k) {
        const int64_t best = std::max_element(norm.begin() + k, norm.end()) - norm.begin();
        longest = std::max(longest, std::sqrt(norm[best]));
        if (!(std::sqrt(norm[best]) > weak * longest)) return k;
        double* unit = columns.data() + k * m;
        if (best != k) {
            std::swap_ranges(unit, unit + m, columns.data() + best * m);
            std::swap(order[k], order[best]);
            std::swap(norm[k], norm[best]);
            for (int64_t q = 0; q < k; ++q) std::swap(R[q * r + k], R[q * r + best]);
        }
        products(columns.data(), m, k, unit, along.data());  // what rounding left of the earlier ones
        for (int64_t q = 0; q < k; ++q) {
            R[q * r + k] += along[q];
            along[q] = -along[q];
        }
        add_columns(columns.data(), m, k, along.data(), unit);
        const double length = std::sqrt(subtract_and_measure(unit, 0.0, unit, m));
        R[k * r + k] = length;
        for (int64_t i = 0; i < m; ++i) unit[i] /= length;
        products(columns.data() + (k + 1) * m, m, r - k - 1, unit, along.data());
        for (int64_t j = k + 1; j < r; ++j) {
            R[k * r + j] = along[j - k - 1];
            norm[j] = subtract_and_measure(columns.data() + j * m, R[k * r + j], unit, m);
        }
    }
    return r;
}

// Solve U x = b for the leading k × k upper triangle of R (row-major, `width` columns), in place.
inline void back_substitute(const std::vector<double>& R, int64_t k, int64_t width, double* b) {
    for (int64_t i = k; i-- > 0;) {
        double s = b[i];
        for (int64_t l = i + 1; l < k; ++l) s -= R[i * width + l] * b[l];
        b[i] = s / R[i * width + i];
    }
}

// The columns in the order of their pivots, and their coordinates R on the orthonormal ones.
struct Pivots {
    int64_t r = 0, kept = 0;
    std::vector<int64_t> order;
    std::vector<double> R;
};

// Coordinates r × kept of an orthonormal basis on the columns: P·U⁻¹, and once more with what comes out of that.
inline std::vector<double> basis_on(const Pivots& p, const std::vector<double>& columns, int64_t m) {
    const int64_t r = p.r, kept = p.kept;
    std::vector<double> first(r * kept, 0.0), b(r), again(m * kept, 0.0), A(kept * kept), inverse, out(r * kept, 0.0);
    for (int64_t j = 0; j < kept; ++j) {
        std::fill(b.begin(), b.end(), 0.0);
        b[j] = 1.0;
        back_substitute(p.R, kept, r, b.data());
        for (int64_t i = 0; i < kept; ++i) first[p.order[i] * kept + j] = b[i];
    }
    for (int64_t j = 0; j < kept; ++j) {
        for (int64_t k = 0; k < r; ++k) b[k] = first[k * kept + j];
        add_columns(columns.data(), m, r, b.data(), again.data() + j * m);
        products(again.data(), m, j + 1, again.data() + j * m, A.data() + j * kept);
    }
    cholesky(A.data(), kept);
    invert(A.data(), kept, inverse);
    for (int64_t i = 0; i < r; ++i)
        for (int64_t j = 0; j < kept; ++j)
            for (int64_t l = 0; l <= j; ++l) out[i * kept + j] += first[i * kept + l] * inverse[j * kept + l];
    return out;
}

// Brings a direction to unit length and takes out what it has along `count` orthonormal ones, row after row.
inline void orthonormalise(const double* others, int64_t count, double* direction, int64_t r) {
    for (int pass = 0; pass < 3; ++pass) {
        const double length = std::sqrt(product(direction, direction, r));
        for (int64_t i = 0; i < r; ++i) direction[i] /= length;
        for (int64_t q = 0; pass < 2 && q < count; ++q) subtract(direction, product(direction, others + q * r, r), others + q * r, r);
    }
}

// Directions that move none of the rows, orthonormal, r × (r - kept): each last column less its coordinates on the first
// ones, in the units of the columns.
inline std::vector<double> free_directions(const Pivots& p, const std::vector<double>& unit) {
    const int64_t r = p.r, kept = p.kept, none = r - kept;
    std::vector<double> free(none * r, 0.0), b(r), out(r * none);
    for (int64_t j = 0; j < none; ++j) {
        double* direction = free.data() + j * r;
        for (int64_t i = 0; i < kept; ++i) b[i] = p.R[i * r + kept + j];
        back_substitute(p.R, kept, r, b.data());
        for (int64_t i = 0; i < kept; ++i) direction[p.order[i]] = -b[i] * unit[p.order[i]];
        direction[p.order[kept + j]] = unit[p.order[kept + j]];
        orthonormalise(free.data(), j, direction, r);
        for (int64_t i = 0; i < r; ++i) out[i * none + j] = direction[i];
    }
    return out;
}

// Rows that count, times the root of their curvature, in columns that are brought to one length; 0 where that is rounding.
inline std::vector<double> scaled_columns(const double* T, int64_t n, const double* c, const std::vector<double>& unit,
                                          const std::vector<double>& counts, int64_t& m) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < n; ++i)
        if (c[i] > 0) rows.push_back(i);
    m = static_cast<int64_t>(rows.size());
    std::vector<double> out(m * unit.size()), root(m);
    for (int64_t i = 0; i < m; ++i) root[i] = std::sqrt(c[rows[i]]);
    for (size_t k = 0; k < unit.size(); ++k) {
        const double size = counts[k] * unit[k], *column = T + k * n;
        for (int64_t i = 0; i < m; ++i) out[k * m + i] = size * root[i] * column[rows[i]];
    }
    return out;
}

}  // namespace whitening

// T has the n × r matrix Z column after column, c is the curvature of its rows. Columns are brought to the same length
// first: one with a saturated outlier has little left on the other rows, but what it has there counts. Where they nearly
// depend on each other, the product of a factor with its inverse is orthonormal to a few digits only, and pivots and a
// second round give the others. Directions that move rows by less than `weak` move none. `wholes` are the norms² of the columns where these have rows that are not given.
inline Whitened whiten(const double* T, int64_t n, int64_t r, const double* c, const double* wholes = nullptr, double weak = kWeak) {
    using namespace whitening;
    Whitened out;
    out.r = r;
    std::vector<double> H(r * r), unit(r), counts(r), inverse;
    gram(T, n, r, nullptr, c, H.data());
    const double most = n ? *std::max_element(c, c + n) : 0.0;
    for (int64_t j = 0; j < r; ++j) {
        double whole;
        wholes ? (void)(whole = wholes[j]) : products(T + j * n, n, 1, T + j * n, &whole);
        if (!(H[j * r + j] > kNoise * whole * most)) H[j * r + j] = 0.0;
        unit[j] = H[j * r + j] > 0 ? 1.0 / std::sqrt(H[j * r + j]) : 1.0;
        counts[j] = H[j * r + j] > 0 ? 1.0 : 0.0;
    }
    for (int64_t j = 0; j < r; ++j)
        for (int64_t i = 0; i <= j; ++i) H[j * r + i] *= unit[i] * unit[j];
    if (r == 0 || cholesky(H.data(), r) > kPlain) {
        invert(H.data(), r, inverse);
        out.kept = r;
        out.M.assign(r * r, 0.0);
        for (int64_t i = 0; i < r; ++i)
            for (int64_t j = i; j < r; ++j) out.M[i * r + j] = unit[i] * inverse[j * r + i];
        return out;
    }
    int64_t m;
    const std::vector<double> columns = scaled_columns(T, n, c, unit, counts, m);
    std::vector<double> orthonormal(columns);
    Pivots p;
    p.r = r;
    p.kept = out.kept = pivoted(orthonormal, m, r, p.order, p.R, weak);
    out.M = basis_on(p, columns, m);
    for (int64_t i = 0; i < r; ++i)
        for (int64_t j = 0; j < out.kept; ++j) out.M[i * out.kept + j] *= unit[i];
    out.free = free_directions(p, unit);
    return out;
}

// Orthonormal Q (r × r, row-major) for which Q'R without the columns first..last is a triangle again: its first columns span
// the columns that are left. R is an upper triangle, row-major; one rotation after another moves what has slipped below the
// diagonal back onto it.
inline std::vector<double> basis_without(const double* R, int64_t r, int64_t first, int64_t last) {
    const int64_t kept = r - (last - first);
    std::vector<double> A(r * kept), Q(r * r, 0.0);
    for (int64_t i = 0; i < r; ++i) {
        std::copy(R + i * r, R + i * r + first, A.begin() + i * kept);
        std::copy(R + i * r + last, R + (i + 1) * r, A.begin() + i * kept + first);
        Q[i * r + i] = 1.0;
    }
    for (int64_t j = first; j < kept; ++j)
        for (int64_t i = j + last - first; i > j; --i) {
            double *upper = A.data() + (i - 1) * kept, *lower = A.data() + i * kept;
            const double length = std::hypot(upper[j], lower[j]);
            if (length == 0.0) continue;
            const double c = upper[j] / length, s = lower[j] / length;
            for (int64_t k = j; k < kept; ++k) {
                const double one = upper[k], other = lower[k];
                upper[k] = c * one + s * other, lower[k] = c * other - s * one;
            }
            for (int64_t k = 0; k < r; ++k) {
                const double one = Q[k * r + i - 1], other = Q[k * r + i];
                Q[k * r + i - 1] = c * one + s * other, Q[k * r + i] = c * other - s * one;
            }
        }
    return Q;
}

}  // namespace fbed
