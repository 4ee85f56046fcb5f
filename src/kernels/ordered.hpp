// Classes in order, proportional odds: P(y ≤ j) = F(θ_j − η), F the logistic function, θ of the first class 0.
//
// With c_j = θ_j − θ_{j−1} the log-likelihood is a sum of logistic terms and of one term a class between two others,
//
//     ℓ = Σ a log F(θ_y − η) + Σ a log F(η − θ_{y−1}) + Σ n_j log(1 − exp(−c_j)),
//
// so that the bounds of logistic models hold with one more condition. Along a Newton step, ν_j = 1/(exp(c_j) − 1) becomes
// ν_j(1 − z_j), z_j = (1 + ν_j)Δc_j; where no z_j exceeds 1, the dual point is feasible, and the share of the gap in
// 2[ℓ* − ℓ] is at most 2[−log(1 − z) − z]/z² times its share in the decrement. Parameters: coefficients, then θ but the first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bounds.hpp"
#include "elementary.hpp"
#include "race.hpp"
#include "row_entries.hpp"
#include "terms.hpp"

namespace fbed {

// 2[−log(1 − z) − z]/z², increasing from 1 at 0
inline double gap_factor(double z) {
    if (z >= 1.0) return kInfinite;
    if (z < 0.1) {
        double power = 1.0, sum = 0.0;
        for (int k = 2; k < 22; ++k, power *= z) sum += 2.0 * power / k;
        return sum;
    }
    return 2.0 * (-std::log1p(-z) - z) / (z * z);
}

// Rows in order of their class, and what they are about: columns of values, or entries where most of these are 0.
struct OrderedRows {
    int64_t n, k, n_classes;
    std::vector<int64_t> order, first;  // first row of every class, and the end
    std::vector<double> Z, weights, total;
    bool sparse = false;
    RowEntries entries;

    OrderedRows(const double* z, int64_t n_rows, int64_t columns, const int64_t* codes, int64_t classes, const double* a)
        : n(n_rows), k(columns), n_classes(classes), order(n), first(classes + 1, 0), Z(n * k), weights(n), total(classes, 0.0) {
        put_in_order(codes, a);
        for (int64_t j = 0; j < k; ++j) sort(z + j * n, Z.data() + j * n);
    }

    OrderedRows(const SparseTerms& terms, const int64_t* codes, int64_t classes, const double* a)
        : n(terms.n), k(terms.r), n_classes(classes), order(n), first(classes + 1, 0), weights(n), total(classes, 0.0), sparse(true) {
        put_in_order(codes, a);
        RowEntries given;
        given.assign(terms);
        entries = given.in_order(order);
    }

    void sort(const double* from, double* to) const {
        for (int64_t i = 0; i < n; ++i) to[i] = from[order[i]];
    }

private:
    void put_in_order(const int64_t* codes, const double* a) {
        for (int64_t i = 0; i < n; ++i) ++first[codes[i] + 1];
        for (int64_t c = 0; c < n_classes; ++c) first[c + 1] += first[c];
        std::vector<int64_t> next(first.begin(), first.end() - 1);
        for (int64_t i = 0; i < n; ++i) order[next[codes[i]]++] = i;
        sort(a, weights.data());
        for (int64_t i = 0; i < n; ++i) total[codes[i]] += a[i];
    }
};

class Ordered {
    const OrderedRows& s;
    int64_t q, r;  // own columns, all columns
    std::vector<double> columns, start, eta, above, below, curvature, slope, nu, row, inner;
    double null_value = 0, weight = 0;
    bool inside = false, at_start = false, null_inside = false;
    // at the fit on S, which most candidates are not taken further than: what they share is found once
    Symmetric null_hessian;
    std::vector<double> null_gradient, null_above, null_below, null_nu, null_slope, null_curvature, weighted;

public:
    static constexpr bool freezes = false, polishes = false;
    double null_deviance;

    Ordered(const OrderedRows& rows, const double* parameters, double deviance, int64_t own_columns)
        : s(rows), q(own_columns), r(s.k + q), columns(s.Z), null_deviance(deviance) {
        columns.resize(s.n * (s.sparse ? q : r), 0.0);
        eta.resize(s.n), above.resize(s.n), below.resize(s.n), curvature.resize(s.n), slope.resize(s.n), row.resize(r);
        nu.resize(s.n_classes, 0.0), inner.resize(r * r);
        start.assign(parameters, parameters + s.k);
        start.resize(r, 0.0);
        start.insert(start.end(), parameters + s.k, parameters + s.k + further());
        null_value = evaluate(start.data());
        for (double a : s.weights) weight += a;
    }

    int64_t size() const { return r + further(); }
    double total_weight() const { return weight; }

    void take(const double* own) {
        for (int64_t j = 0; j < q; ++j) s.sort(own + j * s.n, column(s.k + j));
    }

    const std::vector<double>& begin() {
        if (null_gradient.empty()) {
            evaluate(start.data());
        } else {
            above = null_above, below = null_below, nu = null_nu;
            inside = null_inside;
        }
        at_start = true;
        return start;
    }
    double begin_value() const { return null_value; }

    FBED_HOT double evaluate(const double* parameters) {
        predict(parameters);
        at_start = false;
        inside = true;
        double sum = 0;
        for (int64_t c = 0; c < s.n_classes; ++c) {
            const int64_t from = s.first[c], to = s.first[c + 1];
            if (c > 0 && c + 1 < s.n_classes) {
                const double gap = threshold(parameters, c) - threshold(parameters, c - 1);
                if (!(gap > 0)) return kInfinite;
                nu[c] = 1.0 / std::expm1(gap);
                sum -= s.total[c] * std::log(-std::expm1(-gap));
            }
            if (c + 1 < s.n_classes) sum += edge(threshold(parameters, c), -1.0, from, to, above.data());
            if (c > 0) sum += edge(threshold(parameters, c - 1), 1.0, from, to, below.data());
        }
        return std::isfinite(sum) ? 2.0 * sum : kInfinite;
    }

    bool separated() const { return inside; }

    int64_t differentiate(double* gradient, Symmetric& H) {
        if (!at_start || q == 0) return differentiate_everything(gradient, H);
        if (null_gradient.empty()) look_at_start();
        H = null_hessian;
        std::copy(null_gradient.begin(), null_gradient.end(), gradient);
        for (int64_t j = s.k; j < r; ++j) differentiate_own(j, gradient, H);
        return 0;
    }

    void complete(Symmetric&) const {}

    FBED_HOT Reach reach(const double* step) {
        predict(step);
        double low = 0, gap = 0;
        for (int64_t c = 0; c < s.n_classes; ++c) {
            const int64_t from = s.first[c], to = s.first[c + 1];
            if (c > 0 && c + 1 < s.n_classes)
                gap = std::max(gap, (1.0 + nu[c]) * (threshold(step, c) - threshold(step, c - 1)));
            if (c + 1 < s.n_classes) low = std::min(low, least(threshold(step, c), 1.0, from, to, above.data()));
            if (c > 0) low = std::min(low, least(threshold(step, c - 1), -1.0, from, to, below.data()));
        }
        return {0.0, low > -1.0 ? std::max(P(low), gap_factor(gap)) : kInfinite, kInfinite};
    }

private:
    int64_t differentiate_everything(double* gradient, Symmetric& H) {
        for (int64_t i = 0; i < s.n; ++i) {
            slope[i] = s.weights[i] * (below[i] - above[i]);
            curvature[i] = s.weights[i] * (above[i] * (1.0 - above[i]) + below[i] * (1.0 - below[i]));
        }
        along_columns(r, slope.data(), gradient);
        H.resize(size());
        multiply(H);
        for (int64_t j = 0; j < further(); ++j) gradient[r + j] = differentiate_threshold(j + 1, H);
        return 0;
    }

    // Of all columns, those of S first; where S has entries only own ones are written out.
    double* column(int64_t j) { return columns.data() + (s.sparse ? j - s.k : j) * s.n; }

    // Σ v·x of the first columns.
    void along_columns(int64_t count, const double* v, double* out) {
        if (!s.sparse) return products(columns.data(), s.n, count, v, out);
        std::fill(out, out + s.k, 0.0);
        s.entries.add_slopes(v, 1, 0, s.n, out, 1);
        if (count > s.k) products(columns.data(), s.n, count - s.k, v, out + s.k);
    }

    // Σ curvature·xx'
    void multiply(Symmetric& H) {
        if (!s.sparse) {
            gram(columns.data(), s.n, r, nullptr, curvature.data(), inner.data());
            for (int64_t i = 0; i < r; ++i)
                for (int64_t j = 0; j <= i; ++j) H.row(j)[i] = inner[i * r + j];
            return;
        }
        const RowEntries& z = s.entries;
        for (int64_t i = 0; i < s.n; ++i)
            for (int64_t e = z.begin[i]; e < z.begin[i + 1]; ++e) {
                double* to = H.row(z.column[e]);
                const double t = curvature[i] * z.value[e];
                for (int64_t f = e; f < z.begin[i + 1]; ++f) to[z.column[f]] += t * z.value[f];
            }
        weighted.resize(s.n);
        for (int64_t j = s.k; j < r; ++j) {
            const double* x = column(j);
            for (int64_t i = 0; i < s.n; ++i) weighted[i] = curvature[i] * x[i];
            along_columns(j + 1, weighted.data(), row.data());
            for (int64_t i = 0; i <= j; ++i) H.row(i)[j] = row[i];
        }
    }

    // Derivatives at the fit on S, with own columns of 0.
    void look_at_start() {
        const int64_t begin = s.sparse ? 0 : s.k * s.n;
        const std::vector<double> own(columns.begin() + begin, columns.end());
        std::fill(columns.begin() + begin, columns.end(), 0.0);
        null_gradient.resize(size()), weighted.resize(s.n);
        differentiate_everything(null_gradient.data(), null_hessian);
        std::copy(own.begin(), own.end(), columns.begin() + begin);
        null_above = above, null_below = below, null_nu = nu, null_slope = slope, null_curvature = curvature;
        null_inside = inside;
    }

    // What column j adds to them: products with the columns before it and with the thresholds.
    void differentiate_own(int64_t j, double* gradient, Symmetric& H) {
        const double* x = column(j);
        for (int64_t i = 0; i < s.n; ++i) weighted[i] = null_curvature[i] * x[i];
        products(x, s.n, 1, null_slope.data(), gradient + j);
        along_columns(j + 1, weighted.data(), row.data());
        for (int64_t i = 0; i <= j; ++i) H.row(i)[j] = row[i];
        for (int64_t c = 1; c <= further(); ++c) H.row(j)[r + c - 1] = -(curved(c, above.data(), x) + curved(c + 1, below.data(), x));
    }

    // Σ a·F(1 − F)·x of the rows of one class, F the probability that an edge is missed.
    FBED_HOT double curved(int64_t c, const double* missed, const double* x) const {
        const double* a = s.weights.data();
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = s.first[c]; i < s.first[c + 1]; ++i) sum += a[i] * missed[i] * (1.0 - missed[i]) * x[i];
        return sum;
    }

    int64_t further() const { return s.n_classes - 2; }

    // of the parameters or of a step: the first is 0
    double threshold(const double* parameters, int64_t c) const { return c == 0 ? 0.0 : parameters[r + c - 1]; }

    void predict(const double* parameters) {
        std::fill(eta.begin(), eta.end(), 0.0);
        if (!s.sparse) return add_columns(columns.data(), s.n, r, parameters, eta.data());
        s.entries.add_predictors(parameters, 1, 0, s.n, eta.data());
        add_columns(columns.data(), s.n, q, parameters + s.k, eta.data());
    }

    // Losses log(1 + exp(t)), t = sign·(θ − η), of one edge of a class, and F(t) of its rows.
    FBED_HOT double edge(double theta, double sign, int64_t from, int64_t to, double* out) {
        double sum = 0, largest = -kInfinite;
        const double *e = eta.data(), *a = s.weights.data();
#pragma omp simd reduction(+ : sum) reduction(max : largest)
        for (int64_t i = from; i < to; ++i) {
            const double t = sign * (theta - e[i]), small = exp_of_negative(-std::abs(t)), unit = 1.0 / (1.0 + small);
            out[i] = t > 0 ? unit : small * unit;
            sum += a[i] * ((t > 0 ? t : 0.0) + log1p_of_unit(small));
            largest = std::max(largest, t);
        }
        inside = inside && !(largest >= 0);
        return sum;
    }

    // Least z of one edge of a class: a·Δ and −(1 − a)·Δ, Δ = sign·(Δθ − Δη), a the probability that it is missed.
    FBED_HOT double least(double change, double sign, int64_t from, int64_t to, const double* missed) const {
        double low = 0;
        const double* e = eta.data();
#pragma omp simd reduction(min : low)
        for (int64_t i = from; i < to; ++i) {
            const double t = sign * (change - e[i]), one = missed[i] * t, other = -(1.0 - missed[i]) * t;
            low = std::min(low, std::min(one, other));
        }
        return low;
    }

    // Gradient in the threshold between class c and the next, its row of the Hessian written.
    double differentiate_threshold(int64_t c, Symmetric& H) {
        const int64_t j = r + c - 1;
        double own = 0;
        std::fill(row.begin(), row.end(), 0.0);
        const double up = side(c, above.data(), own), down = side(c + 1, below.data(), own);
        const double g = up - down + s.total[c] * nu[c] - (c + 2 < s.n_classes ? s.total[c + 1] * nu[c + 1] : 0.0);
        own += s.total[c] * nu[c] * (1.0 + nu[c]);
        if (c + 2 < s.n_classes) {
            const double beside = s.total[c + 1] * nu[c + 1] * (1.0 + nu[c + 1]);
            own += beside;
            H.row(j)[j + 1] = -beside;
        }
        H.row(j)[j] = own;
        for (int64_t i = 0; i < r; ++i) H.row(i)[j] = row[i];
        return g;
    }

    // One class's part of a threshold's derivatives: returns the sum of its slopes.
    FBED_HOT double side(int64_t c, const double* missed, double& own) {
        const int64_t from = s.first[c], to = s.first[c + 1];
        const double* a = s.weights.data();
        double sum = 0, curved = 0;
        for (int64_t i = from; i < to; ++i) sum += a[i] * missed[i];
        for (int64_t i = from; i < to; ++i) curved += a[i] * missed[i] * (1.0 - missed[i]);
        for (int64_t i = from; s.sparse && i < to; ++i)
            for (int64_t e = s.entries.begin[i]; e < s.entries.begin[i + 1]; ++e)
                row[s.entries.column[e]] -= a[i] * missed[i] * (1.0 - missed[i]) * s.entries.value[e];
        for (int64_t l = s.sparse ? s.k : 0; l < r; ++l) {
            const double* x = column(l);
            double cross = 0;
#pragma omp simd reduction(+ : cross)
            for (int64_t i = from; i < to; ++i) cross += a[i] * missed[i] * (1.0 - missed[i]) * x[i];
            row[l] -= cross;
        }
        own += curved;
        return sum;
    }
};

}  // namespace fbed
