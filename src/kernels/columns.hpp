// Columns of a matrix in whatever type and layout the user holds it, read into float64 one column at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "moments.hpp"
#include "processors.hpp"
#include "sums.hpp"

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
            for (int64_t j = 0; j < count; ++j) gather_one(which[j], center[which[j]], scale[which[j]], out + j * n);
            return;
        }
        with_type(kind, data, [&](auto* x) { copy_across(x, which, count, center, scale, out); });
    }

    // One column that lies in one piece.
    void gather_one(int64_t j, double center, double scale, double* out) const {
        at(j, [&](auto* x) { standardise(x, n, center, scale, out); });
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

    // Four columns where they lie, if all of them lie there as they are read.
    bool in_place_all(const int64_t* which, const double** four) const {
        for (int64_t k = 0; k < 4; ++k) four[k] = in_place(which[k]);
        return std::all_of(four, four + 4, [](const double* column) { return column != nullptr; });
    }

    // x'v for the columns `which`, as they are: one pass over the matrix in its own type.
    void dots(const int64_t* which, int64_t count, const double* v, double* out) const {
        if (row_stride == 1) {
            int64_t j = 0;
            for (const double* four[4]; j + 4 <= count && in_place_all(which + j, four); j += 4)
                four_dots(four[0], four[1], four[2], four[3], v, n, out + j);
            for (; j < count; ++j) at(which[j], [&](auto* x) { out[j] = column_dot(x, v); });
            return;
        }
        with_type(kind, data, [&](auto* x) {
            std::fill(out, out + count, 0.0);
            constexpr int64_t near = 1024;  // sums that stay in the nearest cache
            for (int64_t j = 0; j < count; j += near) add_rows(x, which + j, std::min(near, count - j), v, out + j);
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
    static void standardise(const T* x, int64_t m, double c, double s, double* target) {
        const double unit = s > 0 ? 1.0 / s : 0.0;
        if (s > 0) {
            for (int64_t i = 0; i < m; ++i) target[i] = (static_cast<double>(x[i]) - c) * unit;
        } else {
            std::fill(target, target + m, 0.0);
        }
    }

    // The same from rows: a tile of rows and columns stays in the nearest cache, where it costs nothing to go across it.
    template <class T>
    void copy_across(const T* x, const int64_t* which, int64_t count, const double* center, const double* scale, double* out) const {
        constexpr int64_t length = 64, width = 16;
        double tile[width][length];
        int64_t where[width];
        for (int64_t i = 0; i < n; i += length) {
            const int64_t m = std::min(length, n - i);
            for (int64_t j = 0; j < count; j += width) {
                const int64_t some = std::min(width, count - j);
                for (int64_t c = 0; c < some; ++c) where[c] = which[j + c] * column_stride;
                for (int64_t r = 0; r < m; ++r) {
                    const T* row = x + (i + r) * row_stride;
                    for (int64_t c = 0; c < some; ++c) tile[c][r] = static_cast<double>(row[where[c]]);
                }
                for (int64_t c = 0; c < some; ++c) standardise(tile[c], m, center[which[j + c]], scale[which[j + c]], out + (j + c) * n + i);
            }
        }
    }

    // Σv·row of some rows that lie one after the other, for columns which[0..count).
    template <class T>
    void add_rows(const T* x, const int64_t* which, int64_t count, const double* v, double* out) const {
        constexpr int64_t together = 4;  // rows, for each time that the sums are read and written
        int64_t i = 0;
        for (; i + together <= n; i += together) {
            const T *a = x + i * row_stride, *b = a + row_stride, *c = b + row_stride, *d = c + row_stride;
            const double va = v[i], vb = v[i + 1], vc = v[i + 2], vd = v[i + 3];
            for (int64_t j = 0; j < count; ++j) {
                const int64_t at = which[j] * column_stride;
                out[j] += (static_cast<double>(a[at]) * va + static_cast<double>(b[at]) * vb) +
                          (static_cast<double>(c[at]) * vc + static_cast<double>(d[at]) * vd);
            }
        }
        for (; i < n; ++i)
            for (int64_t j = 0; j < count; ++j) out[j] += static_cast<double>(x[i * row_stride + which[j] * column_stride]) * v[i];
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
