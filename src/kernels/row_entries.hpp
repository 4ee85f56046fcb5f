// Columns that are mostly 0, as the entries that are not, row after row; and what a softmax of m predictors needs of them.
//
// A row's part of a Hessian has a block for every pair of its entries only, and one of its weights for all pairs of classes.
#pragma once

#include <cstdint>
#include <vector>

#include "linear.hpp"
#include "terms.hpp"

namespace fbed {

struct RowEntries {
    int64_t n = 0, k = 0;
    std::vector<int64_t> begin;  // of every row
    std::vector<int64_t> column;
    std::vector<double> value;

    // X: column after column.
    void assign(const double* X, int64_t rows, int64_t columns) {
        n = rows, k = columns;
        begin.assign(n + 1, 0), column.clear(), value.clear();
        for (int64_t j = 0; j < k; ++j)
            for (int64_t i = 0; i < n; ++i) begin[i + 1] += X[j * n + i] != 0.0;
        for (int64_t i = 0; i < n; ++i) begin[i + 1] += begin[i];
        column.resize(begin[n]), value.resize(begin[n]);
        next_ = begin;
        for (int64_t j = 0; j < k; ++j)
            for (int64_t i = 0; i < n; ++i)
                if (const double x = X[j * n + i]; x != 0.0) column[next_[i]] = j, value[next_[i]++] = x;
    }

    void assign(const SparseTerms& terms) {
        n = terms.n, k = terms.r;
        begin = terms.row_start;
        column.assign(terms.column_of.begin(), terms.column_of.end()), value = terms.by_row;
    }

    // The same rows in another order.
    RowEntries in_order(const std::vector<int64_t>& order) const {
        RowEntries out;
        out.n = n, out.k = k;
        out.begin.assign(1, 0), out.column.reserve(column.size()), out.value.reserve(value.size());
        for (int64_t i : order) {
            out.column.insert(out.column.end(), column.begin() + begin[i], column.begin() + begin[i + 1]);
            out.value.insert(out.value.end(), value.begin() + begin[i], value.begin() + begin[i + 1]);
            out.begin.push_back(static_cast<int64_t>(out.column.size()));
        }
        return out;
    }

    // Rows and values of one column.
    int64_t column_entries(int64_t j, std::vector<int32_t>& rows, std::vector<double>& values) const {
        int64_t found = 0;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t e = begin[i]; e < begin[i + 1]; ++e)
                if (column[e] == j) rows[found] = static_cast<int32_t>(i), values[found++] = value[e];
        return found;
    }

    int64_t count(int64_t i) const { return begin[i + 1] - begin[i]; }

    // Pairs of two entries of a row, in all rows.
    int64_t pairs() const {
        int64_t sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += count(i) * (count(i) + 1) / 2;
        return sum;
    }

    // out[row][class] += predictors of some rows; parameters[column][class]
    FBED_HOT void add_predictors(const double* parameters, int64_t m, int64_t first, int64_t rows, double* out) const {
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t e = begin[first + i]; e < begin[first + i + 1]; ++e) add(out + i * m, value[e], parameters + column[e] * m, m);
    }

    // slopes[column][class] += sums over rows of entry · residual[row][class]
    FBED_HOT void add_slopes(const double* residual, int64_t m, int64_t first, int64_t rows, double* slopes, int64_t stride) const {
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t e = begin[first + i]; e < begin[first + i + 1]; ++e) add(slopes + column[e] * stride, value[e], residual + i * m, m);
    }

    // sums[j, l][pair of classes] += sums over rows of both entries · weight[row][pair], for j <= l in the order of rows of a triangle
    FBED_HOT void add_pairs(const double* weight, int64_t width, int64_t first, int64_t rows, double* sums, int64_t stride) const {
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t e = begin[first + i]; e < begin[first + i + 1]; ++e) {
                double* of = sums + (column[e] * (2 * k - column[e] - 1) / 2) * stride;
                for (int64_t f = e; f < begin[first + i + 1]; ++f) add(of + column[f] * stride, value[e] * value[f], weight + i * width, width);
            }
    }

    // The same for pairs of an entry of others (of theirs all come first) or of these, and one of these: l after l, j <= l.
    FBED_HOT void add_cross(const RowEntries& others, const double* weight, int64_t width, int64_t first, int64_t rows, double* sums,
                            int64_t stride) const {
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t f = begin[first + i]; f < begin[first + i + 1]; ++f) {
                const double *w = weight + i * width, x = value[f];
                double* of = sums + (column[f] * others.k + column[f] * (column[f] + 1) / 2) * stride;
                for (int64_t e = others.begin[first + i]; e < others.begin[first + i + 1]; ++e)
                    add(of + others.column[e] * stride, others.value[e] * x, w, width);
                for (int64_t e = begin[first + i]; e <= f; ++e) add(of + (others.k + column[e]) * stride, value[e] * x, w, width);
            }
    }

private:
    std::vector<int64_t> next_;

    FBED_INLINE static void add(double* out, double t, const double* v, int64_t size) {
#pragma omp simd
        for (int64_t q = 0; q < size; ++q) out[q] += t * v[q];
    }
};

}  // namespace fbed
