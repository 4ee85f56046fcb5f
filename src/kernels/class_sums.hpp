// Classes without order by sums over blocks of rows: what a softmax of C − 1 predictors leaves of some rows, that of the first class
// being 0. Probabilities of all classes but the first lie class after class, `apart` beside each other: they may be part of a table.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "elementary.hpp"
#include "linear.hpp"
#include "pair_sums.hpp"

namespace fbed {

struct ClassRows {
    int64_t n, m;  // rows, classes but the first
    double* p;
    int64_t apart;
    const int64_t* codes;
    const double* weights;

    double* of(int64_t c) const { return p + c * apart; }
};

class ClassSums {
    static constexpr int64_t kRows = 256;  // at a time
    ClassRows s;

public:
    explicit ClassSums(const ClassRows& rows) : s(rows) {}

    // Probabilities at linear predictors, class after class; returns half the deviance.
    FBED_HOT double look(const double* eta) const {
        double loss = 0, top[kRows], total[kRows], own[kRows];
        for (int64_t first = 0; first < s.n; first += kRows) {
            const int64_t rows = std::min(kRows, s.n - first);
            const double* v = eta + first;
            find_top(v, rows, top);
            own_of(v, first, rows, own);
#pragma omp simd
            for (int64_t i = 0; i < rows; ++i) total[i] = exp_of_negative(-top[i]);
            for (int64_t c = 0; c < s.m; ++c) {
                double* p = s.of(c) + first;
                const double* vc = v + c * s.n;
#pragma omp simd
                for (int64_t i = 0; i < rows; ++i) {
                    p[i] = exp_of_negative(vc[i] - top[i]);
                    total[i] += p[i];
                }
            }
#pragma omp simd reduction(+ : loss)
            for (int64_t i = 0; i < rows; ++i) {
                loss += s.weights[first + i] * (log_of_positive(total[i]) + (top[i] - own[i]));
                total[i] = 1.0 / total[i];
            }
            for (int64_t c = 0; c < s.m; ++c) {
                double* p = s.of(c) + first;
#pragma omp simd
                for (int64_t i = 0; i < rows; ++i) p[i] *= total[i];
            }
        }
        return loss;
    }

    // Residuals a(y − p), a column a class; then a·p_c(δ_cd − p_d)·z of every pair of classes c ≤ d and column of Z.
    FBED_HOT void write_vectors(const double* Z, int64_t k, double* out) const {
        double* to = out + s.m * s.n;
        double weight[kRows];
        write_residuals(out);
        for (int64_t first = 0; first < s.n; first += kRows) {
            const int64_t rows = std::min(kRows, s.n - first);
            double* next = to + first;
            for (int64_t c = 0; c < s.m; ++c)
                for (int64_t d = c; d < s.m; ++d) {
                    const double *pc = s.of(c) + first, *pd = s.of(d) + first, *a = s.weights + first;
                    const double same = c == d ? 1.0 : 0.0;
#pragma omp simd
                    for (int64_t i = 0; i < rows; ++i) weight[i] = a[i] * pc[i] * (same - pd[i]);
                    for (int64_t j = 0; j < k; ++j, next += s.n) {
                        const double* z = Z + j * s.n + first;
#pragma omp simd
                        for (int64_t i = 0; i < rows; ++i) next[i] = weight[i] * z[i];
                    }
                }
        }
    }

    // Σ a(y − p)z, a column a class; and a·p_c(δ_cd − p_d) with every product of two columns of Z, summed over the rows.
    void sum(const double* Z, int64_t k, double* gradient, PairSums& products) {
        const int64_t of_columns = pairs(k), of_classes = pairs(s.m);
        products.reset(of_classes, of_columns, false);
        by_row.resize(kPart * of_columns + kTile), weights_by_row.resize(kPart * of_classes + kTile), residual.resize(s.m * s.n);
        write_residuals(residual.data());
        for (int64_t c = 0; c < s.m; ++c) fbed::products(Z, s.n, k, residual.data() + c * s.n, gradient + c * k);
        for (int64_t first = 0; first < s.n; first += kPart) {
            const int64_t rows = std::min(kPart, s.n - first);
            multiply_columns(Z, k, first, rows);
            multiply_classes(first, rows);
            products.add(weights_by_row.data(), by_row.data(), rows);
        }
    }

    // What the log-likelihood gains as the predictors move by U, and residuals there in the place of U; U has a column for each class of
    // a step, and `gain` is one number a step.
    FBED_HOT void move(double* U, int64_t steps, double* gain) const {
        double top[kRows], total[kRows], own[kRows];
        for (int64_t t = 0; t < steps; ++t) gain[t] = 0;
        for (int64_t first = 0; first < s.n; first += kRows) {
            const int64_t rows = std::min(kRows, s.n - first);
            double rest[kRows];  // probability of the first class
            std::fill(rest, rest + rows, 1.0);
            for (int64_t c = 0; c < s.m; ++c) {
                const double* p = s.of(c) + first;
#pragma omp simd
                for (int64_t i = 0; i < rows; ++i) rest[i] -= p[i];
            }
            for (int64_t t = 0; t < steps; ++t) {
                double* v = U + t * s.m * s.n + first;
                find_top(v, rows, top);
                own_of(v, first, rows, own);
#pragma omp simd
                for (int64_t i = 0; i < rows; ++i) total[i] = std::max(rest[i], 0.0) * exp_of_negative(-top[i]);
                for (int64_t c = 0; c < s.m; ++c) {
                    const double* p = s.of(c) + first;
                    double* vc = v + c * s.n;
#pragma omp simd
                    for (int64_t i = 0; i < rows; ++i) {
                        vc[i] = p[i] * exp_of_negative(vc[i] - top[i]);
                        total[i] += vc[i];
                    }
                }
                double sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t i = 0; i < rows; ++i) {
                    sum += s.weights[first + i] * (own[i] - top[i] - log_of_positive(total[i]));
                    total[i] = s.weights[first + i] / total[i];
                }
                gain[t] += sum;
                for (int64_t c = 0; c < s.m; ++c) {
                    double* vc = v + c * s.n;
#pragma omp simd
                    for (int64_t i = 0; i < rows; ++i) vc[i] *= -total[i];
                }
                add_observed(v, first, rows);
            }
        }
    }

private:
    static constexpr int64_t kPart = 64;  // rows whose products stay in the cache
    std::vector<double> by_row, weights_by_row, residual;

    FBED_HOT void multiply_columns(const double* Z, int64_t k, int64_t first, int64_t rows) {
        const int64_t width = pairs(k);
        double* to = by_row.data();
        for (int64_t j = 0; j < k; ++j)
            for (int64_t l = j; l < k; ++l, ++to) {
                const double *z = Z + j * s.n + first, *other = Z + l * s.n + first;
                for (int64_t i = 0; i < rows; ++i) to[i * width] = z[i] * other[i];
            }
    }

    FBED_HOT void multiply_classes(int64_t first, int64_t rows) {
        const int64_t width = pairs(s.m);
        double* to = weights_by_row.data();
        const double* a = s.weights + first;
        for (int64_t c = 0; c < s.m; ++c)
            for (int64_t d = c; d < s.m; ++d, ++to) {
                const double *pc = s.of(c) + first, *pd = s.of(d) + first, same = c == d ? 1.0 : 0.0;
                for (int64_t i = 0; i < rows; ++i) to[i * width] = a[i] * pc[i] * (same - pd[i]);
            }
    }

    void find_top(const double* v, int64_t rows, double* top) const {
        std::fill(top, top + rows, 0.0);
        for (int64_t c = 0; c < s.m; ++c)
#pragma omp simd
            for (int64_t i = 0; i < rows; ++i) top[i] = std::max(top[i], v[c * s.n + i]);
    }

    // The predictor of every row's class.
    void own_of(const double* v, int64_t first, int64_t rows, double* own) const {
        for (int64_t i = 0; i < rows; ++i) {
            const int64_t code = s.codes[first + i];
            own[i] = code == 0 ? 0.0 : v[(code - 1) * s.n + i];
        }
    }

    void write_residuals(double* out) const {
        for (int64_t c = 0; c < s.m; ++c) {
            const double *p = s.of(c), *a = s.weights;
            double* to = out + c * s.n;
#pragma omp simd
            for (int64_t i = 0; i < s.n; ++i) to[i] = -a[i] * p[i];
        }
        add_observed(out, 0, s.n);
    }

    void add_observed(double* to, int64_t first, int64_t rows) const {
        for (int64_t i = 0; i < rows; ++i) {
            const int64_t code = s.codes[first + i];
            if (code > 0) to[(code - 1) * s.n + i] += s.weights[first + i];
        }
    }
};

}  // namespace fbed
