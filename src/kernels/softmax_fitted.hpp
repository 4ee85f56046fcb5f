// A fit of classes without order on S as `class_looks.hpp` sees it: the rows, and what they have of the Hessian.
//
// Probabilities that are next to nothing, .001 of deviance together, are 0 in what bounds from above (p̃, the others raised to sum
// up to 1): where coefficients are on their way to infinity there is no curvature left to divide by.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "linear.hpp"
#include "softmax.hpp"

namespace fbed {

class SoftmaxFitted {
    static constexpr double kSpent = 1e-3;  // what probabilities cost that are set to 0, at most

public:
    const SoftmaxRows& s;
    int64_t n_classes;
    std::vector<double> p, kept;   // [row][class]: as they are, and p̃
    std::vector<double> furthest;  // |z| of a row by a step of length 1, at most
    double spent = 0, kappa = 0;   // and of all rows
    double deviance = 0;

    SoftmaxFitted(const SoftmaxRows& rows, const double* coefficients)
        : s(rows), n_classes(rows.m + 1), p(rows.n * n_classes), parameters(coefficients, coefficients + rows.k * rows.m) {
        std::vector<double> eta(s.m);
        for (int64_t i = 0; i < s.n; ++i) {
            std::fill(eta.begin(), eta.end(), 0.0);
            s.entries.add_predictors(parameters.data(), s.m, i, 1, eta.data());
            deviance += 2.0 * s.weights[i] * predict(i, eta, p.data() + i * n_classes, 1);
        }
        kept = p;
        for (int64_t i = 0; i < s.n; ++i) spent += set_aside(kept.data() + i * n_classes, 1, i);
    }

    // Probabilities of a row without column j, `apart` from each other; returns −log of that of its class.
    double without(int64_t j, int64_t i, double* row, int64_t apart) const {
        thread_local std::vector<double> eta;
        eta.assign(s.m, 0.0);
        for (int64_t e = s.entries.begin[i]; e < s.entries.begin[i + 1]; ++e)
            for (int64_t c = 0; s.entries.column[e] != j && c < s.m; ++c) eta[c] += s.entries.value[e] * parameters[s.entries.column[e] * s.m + c];
        return predict(i, eta, row, apart);
    }

    int64_t size() const { return s.k * s.m; }
    int64_t n_rows() const { return s.n; }
    const RowEntries& entries() const { return s.entries; }
    double weight(int64_t i) const { return s.weights[i]; }
    double total_weight() const { return s.total; }
    bool all_kept() const { return spent == 0; }

    // Half the gradient of the deviance at p̃, downwards, and half its Hessian.
    void differentiate(double* gradient, Symmetric& H) const {
        std::fill(gradient, gradient + size(), 0.0);
        H.resize(size());
        std::vector<double> w(s.m * s.m);
        for (int64_t i = 0; i < s.n; ++i) {
            const double *row = kept.data() + i * n_classes, a = s.weights[i];
            const int64_t code = s.codes[i];
            for (int64_t e = s.entries.begin[i]; e < s.entries.begin[i + 1]; ++e)
                for (int64_t c = 0; c < s.m; ++c)
                    gradient[s.entries.column[e] * s.m + c] += a * s.entries.value[e] * residual(row, c + 1, code);
            for (int64_t c = 0; c < s.m; ++c)
                for (int64_t d = 0; d < s.m; ++d) w[c * s.m + d] = a * curvature(row, c + 1, d + 1);
            add_block(i, w.data(), 1.0, H);
        }
    }

    // Σ a W of every row in the metric of the inverse of the Hessian, its trace; and the largest change of a probability that is
    // not 0, relative to it, by a step of length 1.
    void look_at_rows(const Symmetric& inverse, double* leverage) {
        const int64_t m = s.m;
        std::vector<double> K(m * m), Kp(m);
        furthest.assign(s.n, 0.0);
        for (int64_t i = 0; i < s.n; ++i) {
            if (i % 1024 == 0) look_up();
            std::fill(K.begin(), K.end(), 0.0);
            for (int64_t e = s.entries.begin[i]; e < s.entries.begin[i + 1]; ++e)
                for (int64_t f = s.entries.begin[i]; f < s.entries.begin[i + 1]; ++f) {
                    const double t = s.entries.value[e] * s.entries.value[f];
                    for (int64_t c = 0; c < m; ++c) {
                        const double* from = inverse.row(s.entries.column[e] * m + c) + s.entries.column[f] * m;
                        for (int64_t d = 0; d < m; ++d) K[c * m + d] += t * from[d];
                    }
                }
            const double* row = kept.data() + i * n_classes;
            double trace = 0, both = 0;
            for (int64_t c = 0; c < m; ++c) {
                Kp[c] = 0;
                for (int64_t d = 0; d < m; ++d) Kp[c] += row[d + 1] > 0 ? K[c * m + d] * row[d + 1] : 0.0;
                if (row[c + 1] > 0) trace += row[c + 1] * K[c * m + c], both += row[c + 1] * Kp[c];
            }
            leverage[i] = s.weights[i] * std::max(0.0, trace - both);
            double most = row[0] > 0 ? both : 0.0;
            for (int64_t c = 0; c < m; ++c)
                if (row[c + 1] > 0) most = std::max(most, K[c * m + c] - 2.0 * Kp[c] + both);
            furthest[i] = std::sqrt(most), kappa = std::max(kappa, furthest[i]);
        }
    }

    // What a step of this length gains beside what it promises, by a factor, where no row moves further than `far` times its length.
    double above(double length, double far) const { return far * length < 1.0 ? P(-far * length) : kInfinite; }

    // H += sign·Σ z z' ⊗ w of a row.
    FBED_HOT void add_block(int64_t i, const double* w, double sign, Symmetric& H) const {
        const int64_t m = s.m;
        for (int64_t e = s.entries.begin[i]; e < s.entries.begin[i + 1]; ++e)
            for (int64_t f = e; f < s.entries.begin[i + 1]; ++f) {
                const double t = sign * s.entries.value[e] * s.entries.value[f];
                for (int64_t c = 0; c < m; ++c) {
                    double* to = H.row(s.entries.column[e] * m + c) + s.entries.column[f] * m;
                    for (int64_t d = e == f ? c : 0; d < m; ++d) to[d] += t * w[c * m + d];
                }
            }
    }

    // The same of many rows: w[c, d][row], c ≤ d. Where a row has many of the columns, these are multiplied whole.
    void add_blocks(const std::vector<int64_t>& rows, const std::vector<double>& w, double sign, Symmetric& H) const {
        constexpr double kTogether = 4.0;  // products in vectors that take as long as one by itself
        const int64_t m = s.m, k = s.k, count = static_cast<int64_t>(rows.size()), pairs = m * (m + 1) / 2;
        double apart = 0;
        for (int64_t i : rows) apart += static_cast<double>(s.entries.count(i) * s.entries.count(i) * m * m);
        if (kTogether * apart > static_cast<double>(k * k * pairs * count)) return add_products(rows, w, sign, H);
        std::vector<double> own(m * m);
        for (int64_t q = 0; q < count; ++q) {
            for (int64_t c = 0, pair = 0; c < m; ++c)
                for (int64_t d = c; d < m; ++d, ++pair) own[c * m + d] = own[d * m + c] = w[pair * count + q];
            add_block(rows[q], own.data(), sign, H);
        }
    }

    // y_c − p_c and p_c(δ_cd − p_d), with 1 − p to all its digits.
    double residual(const double* row, int64_t c, int64_t code) const { return c == code ? others(row, c) : -row[c]; }
    double curvature(const double* row, int64_t c, int64_t d) const { return c == d ? row[c] * others(row, c) : -row[c] * row[d]; }

    double others(const double* row, int64_t c) const {
        if (row[c] <= 0.5) return 1.0 - row[c];
        double sum = 0;
        for (int64_t d = 0; d < n_classes; ++d) sum += d == c ? 0.0 : row[d];
        return sum;
    }

    // Sets probabilities of a row to 0 that are next to nothing, `apart` from each other, and says what that costs.
    double set_aside(double* row, int64_t apart, int64_t i) const {
        const double bar = kSpent / (2.0 * static_cast<double>(s.n * s.m));
        double lost = 0, left = 0;
        for (int64_t c = 0; c < n_classes; ++c) {
            double& part = row[c * apart];
            if (c != s.codes[i] && s.weights[i] * part < bar) lost += part, part = 0;
            left += part;
        }
        if (lost == 0) return 0;
        for (int64_t c = 0; c < n_classes; ++c) row[c * apart] /= left;
        return -2.0 * s.weights[i] * (lost < 0.5 ? std::log1p(-lost) : std::log(left));
    }

    // Where the coefficients of a column are.
    int64_t first_of(int64_t j) const { return j * s.m; }
    int64_t coefficients_of_column() const { return s.m; }

private:
    std::vector<double> parameters;

    void add_products(const std::vector<int64_t>& rows, const std::vector<double>& w, double sign, Symmetric& H) const {
        const int64_t m = s.m, k = s.k, count = static_cast<int64_t>(rows.size());
        thread_local std::vector<double> columns, products;
        columns.assign(k * count, 0.0), products.resize(k * k);
        for (int64_t q = 0; q < count; ++q)
            for (int64_t e = s.entries.begin[rows[q]]; e < s.entries.begin[rows[q] + 1]; ++e) columns[s.entries.column[e] * count + q] = s.entries.value[e];
        for (int64_t c = 0, pair = 0; c < m; ++c)
            for (int64_t d = c; d < m; ++d, ++pair) {
                gram(columns.data(), count, k, nullptr, w.data() + pair * count, products.data());
                for (int64_t l = 0; l < k; ++l)
                    for (int64_t j = 0; j <= l; ++j) {
                        const double t = sign * products[l * k + j];
                        H.row(j * m + c)[l * m + d] += t;
                        if (c != d && j != l) H.row(j * m + d)[l * m + c] += t;
                    }
            }
    }

    double predict(int64_t i, const std::vector<double>& eta, double* row, int64_t apart) const {
        double top = 0, total = 0;
        for (double v : eta) top = std::max(top, v);
        for (int64_t c = 0; c < n_classes; ++c) total += row[c * apart] = std::exp((c == 0 ? 0.0 : eta[c - 1]) - top);
        for (int64_t c = 0; c < n_classes; ++c) row[c * apart] /= total;
        const int64_t code = s.codes[i];
        return std::log(total) - ((code == 0 ? 0.0 : eta[code - 1]) - top);
    }
};

}  // namespace fbed
