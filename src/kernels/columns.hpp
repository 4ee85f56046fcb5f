// Columns of a matrix in whatever type and layout the user holds it, read into float64 one column at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "processors.hpp"

namespace fbed {

enum class Kind { i8, i16, i32, i64, u8, u16, u32, u64, f32, f64 };

// Calls f with a typed pointer; the one place that knows the types.
template <class F>
inline void with_type(Kind kind, const void* data, F&& f) {
    switch (kind) {
        case Kind::i8: f(static_cast<const int8_t*>(data)); break;
        case Kind::i16: f(static_cast<const int16_t*>(data)); break;
        case Kind::i32: f(static_cast<const int32_t*>(data)); break;
        case Kind::i64: f(static_cast<const int64_t*>(data)); break;
        case Kind::u8: f(static_cast<const uint8_t*>(data)); break;
        case Kind::u16: f(static_cast<const uint16_t*>(data)); break;
        case Kind::u32: f(static_cast<const uint32_t*>(data)); break;
        case Kind::u64: f(static_cast<const uint64_t*>(data)); break;
        case Kind::f32: f(static_cast<const float*>(data)); break;
        case Kind::f64: f(static_cast<const double*>(data)); break;
    }
}

// What one pass over a column tells: the search never has to look at a column again to centre or scale it.
struct Moments {
    double center = 0, scale = 0, min = 0, max = 0;
    int64_t not_finite = 0, not_zero = 0;
};

// Extremes and number of values that are not 0; `check` is NaN as soon as one value is not finite.
FBED_HOT inline void look(const double* values, int64_t m, double& low, double& high, double& not_zero, double& check) {
    double least = low, most = high, count = 0, sum = 0;
#pragma omp simd reduction(min : least) reduction(max : most) reduction(+ : count, sum)
    for (int64_t i = 0; i < m; ++i) {
        const double v = values[i];
        least = std::min(least, v);
        most = std::max(most, v);
        sum += v * 0.0;
        count += v != 0.0 ? 1.0 : 0.0;
    }
    low = least, high = most, not_zero = count, check = sum;
}

// sum of weights·(values - base)·unit; without weights all of them are 1
FBED_HOT inline double weighted_sum(const double* values, const double* weights, int64_t m, double safe, double base, double unit) {
    double sum = 0;
    if (weights == nullptr) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < m; ++i) sum += (safe * values[i] - base) * unit;
        return sum;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < m; ++i) sum += weights[i] * ((safe * values[i] - base) * unit);
    return sum;
}

// sum of weights·((values - base)·unit - center)²
FBED_HOT inline double weighted_spread(const double* values, const double* weights, int64_t m, double safe, double base, double unit,
                                       double center) {
    double sum = 0;
    if (weights == nullptr) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < m; ++i) {
            const double d = (safe * values[i] - base) * unit - center;
            sum += d * d;
        }
        return sum;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < m; ++i) {
        const double d = (safe * values[i] - base) * unit - center;
        sum += weights[i] * d * d;
    }
    return sum;
}

FBED_HOT inline double dot(const double* x, const double* v, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += x[i] * v[i];
    return sum;
}

// A column whose spread is below this part of its size holds rounding, not information.
constexpr double kInformation = 1e-13;

// Weighted mean and standard deviation of values[0..m) plus (n - m) zeros.
// The least value is subtracted first: what a large mean leaves of the digits must not be rounded away. The range is then
// divided out: 1e200 is a legitimate value, its square is not.
inline Moments moments(const double* values, const double* weights, const int32_t* rows, int64_t m, int64_t n,
                       double total_weight) {
    Moments out;
    if (n == 0) return out;
    const bool has_zeros = m < n;
    double low = has_zeros ? 0.0 : std::numeric_limits<double>::infinity();
    double high = has_zeros ? 0.0 : -std::numeric_limits<double>::infinity();
    double check = 0, not_zero = 0;
    look(values, m, low, high, not_zero, check);
    out.not_zero = static_cast<int64_t>(not_zero);
    if (check != 0.0 || std::isnan(check)) {
        for (int64_t i = 0; i < m; ++i) out.not_finite += !std::isfinite(values[i]);
        return out;
    }
    out.min = low;
    out.max = high;
    const double size = std::max(std::abs(low), std::abs(high));
    if (low == high || size == 0.0) {
        out.center = low;
        return out;
    }
    const double safe = size > 1e300 ? 0.25 : 1.0;  // the range itself must not overflow
    const double base = safe * low, range = safe * high - base, unit = 1.0 / range;
    const double zero = -base * unit;
    double sum = 0, stored = 0;
    if (rows == nullptr) {
        sum = weighted_sum(values, weights, m, safe, base, unit);
        stored = total_weight;
    } else {
        for (int64_t i = 0; i < m; ++i) {
            sum += weights[rows[i]] * ((safe * values[i] - base) * unit);
            stored += weights[rows[i]];
        }
    }
    const double zeros = std::max(total_weight - stored, 0.0), center = (sum + zeros * zero) / total_weight;
    double spread = zeros * (zero - center) * (zero - center);
    if (rows == nullptr) {
        spread += weighted_spread(values, weights, m, safe, base, unit, center);
    } else {
        for (int64_t i = 0; i < m; ++i) {
            const double d = (safe * values[i] - base) * unit - center;
            spread += weights[rows[i]] * d * d;
        }
    }
    const double scale = std::sqrt(spread / total_weight) * range;
    out.center = (base + center * range) / safe;
    out.scale = scale <= kInformation * size * safe ? 0.0 : scale / safe;
    return out;
}

// A column of a dense matrix whose columns lie anywhere, each in its own type.
struct ColumnApart {
    const void* data;
    Kind kind;
};

// A dense matrix with any strides (in elements), or one whose columns lie apart.
struct Dense {
    const void* data;
    Kind kind;
    int64_t n, p, row_stride, column_stride;
    const ColumnApart* apart = nullptr;  // `data`, `kind` and `column_stride` then mean nothing, and `row_stride` is 1
    int64_t start = 0;                   // first row of columns that lie apart

    // Calls f with a typed pointer to the start of column j.
    template <class F>
    void at(int64_t j, F&& f) const {
        if (apart != nullptr) return with_type(apart[j].kind, apart[j].data, [&](auto* x) { f(x + start); });
        with_type(kind, data, [&](auto* x) { f(x + j * column_stride); });
    }

    // Columns `which` into out, column-major, as (x - center)/scale; a constant column becomes zero.
    void gather(const int64_t* which, int64_t count, const double* center, const double* scale, double* out) const {
        if (row_stride == 1) {
            for (int64_t j = 0; j < count; ++j)
                at(which[j], [&](auto* x) { copy_column(x, center[which[j]], scale[which[j]], out + j * n); });
            return;
        }
        with_type(kind, data, [&](auto* x) {
            constexpr int64_t tile = 16;  // columns of a row-major matrix that are written side by side
            for (int64_t first = 0; first < count; first += tile)
                copy_tile(x, first, std::min(first + tile, count), which, center, scale, out);
        });
    }

    // The rows first..last.
    Dense rows(int64_t first, int64_t last) const {
        Dense part = *this;
        part.n = last - first;
        if (apart != nullptr) {
            part.start = start + first;
        } else {
            with_type(kind, data, [&](auto* x) { part.data = x + first * row_stride; });
        }
        return part;
    }

    // Column j where it lies, if it lies there as it is read.
    const double* in_place(int64_t j) const {
        if (apart != nullptr) return apart[j].kind == Kind::f64 ? static_cast<const double*>(apart[j].data) + start : nullptr;
        return kind == Kind::f64 && row_stride == 1 ? static_cast<const double*>(data) + j * column_stride : nullptr;
    }

    // x'v for the columns `which`, as they are: one pass over the matrix in its own type.
    void dots(const int64_t* which, int64_t count, const double* v, double* out) const {
        if (row_stride == 1) {
            for (int64_t j = 0; j < count; ++j) at(which[j], [&](auto* x) { out[j] = column_dot(x, v); });
            return;
        }
        with_type(kind, data, [&](auto* x) {
            std::fill(out, out + count, 0.0);
            for (int64_t i = 0; i < n; ++i) {
                const auto* row = x + i * row_stride;
                for (int64_t j = 0; j < count; ++j) out[j] += static_cast<double>(row[which[j] * column_stride]) * v[i];
            }
        });
    }

    // Entries of column j that are not 0; returns how many.
    int64_t support(int64_t j, int32_t* rows, double* values) const {
        int64_t count = 0;
        at(j, [&](auto* x) {
            for (int64_t i = 0; i < n; ++i) {
                const auto value = x[i * row_stride];
                rows[count] = static_cast<int32_t>(i);
                values[count] = static_cast<double>(value);
                count += value != 0;
            }
        });
        return count;
    }

   private:
    template <class T>
    double column_dot(const T* x, const double* v) const {
        if constexpr (std::is_same_v<T, double>) return dot(x, v, n);
        double s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t i = 0; i < n; ++i) s += static_cast<double>(x[i]) * v[i];
        return s;
    }

    template <class T>
    void copy_column(const T* x, double c, double s, double* target) const {
        const double unit = s > 0 ? 1.0 / s : 0.0;
        if (s > 0) {
            for (int64_t i = 0; i < n; ++i) target[i] = (static_cast<double>(x[i]) - c) * unit;
        } else {
            std::fill(target, target + n, 0.0);
        }
    }

    template <class T>
    void copy_tile(const T* x, int64_t first, int64_t last, const int64_t* which, const double* center, const double* scale,
                   double* out) const {
        double unit[16], shift[16];
        for (int64_t j = first; j < last; ++j) {
            const double s = scale[which[j]];
            unit[j - first] = s > 0 ? 1.0 / s : 0.0;
            shift[j - first] = s > 0 ? center[which[j]] : 0.0;
        }
        for (int64_t i = 0; i < n; ++i) {
            const T* row = x + i * row_stride;
            for (int64_t j = first; j < last; ++j) {
                const double u = unit[j - first];
                out[j * n + i] = u > 0 ? (static_cast<double>(row[which[j] * column_stride]) - shift[j - first]) * u : 0.0;
            }
        }
    }
};

// A matrix in compressed columns.
struct Sparse {
    const void* data;
    Kind kind;
    const void* indices;
    const void* indptr;
    bool wide;  // 64-bit indices
    int64_t n, p;

    int64_t begin(int64_t j) const {
        return wide ? static_cast<const int64_t*>(indptr)[j] : static_cast<const int32_t*>(indptr)[j];
    }

    // Entries of column j that are not 0; returns how many.
    int64_t support(int64_t j, int32_t* rows, double* values) const {
        const int64_t stored = column(j, rows, values);
        int64_t count = 0;
        for (int64_t i = 0; i < stored; ++i) {  // explicit zeros do not count
            rows[count] = rows[i];
            values[count] = values[i];
            count += values[i] != 0.0;
        }
        return count;
    }

    // Stored entries of column j; returns how many.
    int64_t column(int64_t j, int32_t* rows, double* values) const {
        const int64_t start = begin(j), count = begin(j + 1) - start;
        if (wide) {
            const auto* from = static_cast<const int64_t*>(indices) + start;
            for (int64_t i = 0; i < count; ++i) rows[i] = static_cast<int32_t>(from[i]);
        } else {
            const auto* from = static_cast<const int32_t*>(indices) + start;
            std::copy(from, from + count, rows);
        }
        with_type(kind, data, [&](auto* x) {
            for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>(x[start + i]);
        });
        return count;
    }

    void gather(const int64_t* which, int64_t count, const double* center, const double* scale, double* out) const {
        std::vector<int32_t> rows(n);
        std::vector<double> values(n);
        for (int64_t j = 0; j < count; ++j) {
            double* target = out + j * n;
            const double s = scale[which[j]];
            const double unit = s > 0 ? 1.0 / s : 0.0, shift = s > 0 ? center[which[j]] : 0.0;
            std::fill(target, target + n, -shift * unit);
            const int64_t m = s > 0 ? column(which[j], rows.data(), values.data()) : 0;
            for (int64_t i = 0; i < m; ++i) target[rows[i]] = (values[i] - shift) * unit;
        }
    }

    // The same for rows first..last only; the rows of a column are in order.
    void gather_rows(const int64_t* which, int64_t count, const double* center, const double* scale, int64_t first, int64_t last,
                     double* out) const {
        const int64_t length = last - first;
        for (int64_t j = 0; j < count; ++j) {
            double* target = out + j * length;
            const double s = scale[which[j]];
            const double unit = s > 0 ? 1.0 / s : 0.0, shift = s > 0 ? center[which[j]] : 0.0;
            std::fill(target, target + length, -shift * unit);
            if (s <= 0) continue;
            const auto scatter = [&](const auto* index) {
                const auto* from = std::lower_bound(index + begin(which[j]), index + begin(which[j] + 1), first);
                with_type(kind, data, [&](auto* x) {
                    for (int64_t i = from - index; i < begin(which[j] + 1) && index[i] < last; ++i)
                        target[index[i] - first] = (static_cast<double>(x[i]) - shift) * unit;
                });
            };
            if (wide) scatter(static_cast<const int64_t*>(indices));
            else scatter(static_cast<const int32_t*>(indices));
        }
    }

    // Σ x·v and Σ x²·v₁ of columns as they are, over rows first..last, which V has row after row, m values each.
    void products(const int64_t* which, int64_t count, int64_t first, int64_t last, const double* V, int64_t m, double* along,
                  double* own) const {
        for (int64_t j = 0; j < count; ++j) {
            const auto sum = [&](const auto* index) {
                const auto* from = std::lower_bound(index + begin(which[j]), index + begin(which[j] + 1), first);
                with_type(kind, data, [&](auto* x) {
                    for (int64_t i = from - index; i < begin(which[j] + 1) && index[i] < last; ++i) {
                        const double value = static_cast<double>(x[i]), *v = V + (index[i] - first) * m;
                        add_scaled(along + j * m, value, v, m);
                        if (m > 1) own[j] += value * value * v[1];
                    }
                });
            };
            if (wide) sum(static_cast<const int64_t*>(indices));
            else sum(static_cast<const int32_t*>(indices));
        }
    }

   private:
    FBED_HOT static void add_scaled(double* out, double t, const double* v, int64_t m) {
#pragma omp simd
        for (int64_t q = 0; q < m; ++q) out[q] += t * v[q];
    }
};

}  // namespace fbed
