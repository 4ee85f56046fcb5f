// Classes in order by sums over blocks of rows: P(y ≤ j) = F(θ_j − η), F the logistic or the normal distribution.
//
// A row of class y has the edges u = θ_y − η and l = θ_{y−1} − η (infinite where there is no threshold) and the log-likelihood
// log[F(u) − F(l)]. What candidates ask of it: its slope g in η, its curvature w in η, and what η and each of its edges have in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "elementary.hpp"
#include "sums.hpp"

namespace fbed {

// log P of a row's cell and derivatives: first in u and in l, then second. Logistic cells are two terms, for which see `OrderedSums`.
struct OrderedCell {
    double log_p, u, l, uu, ll, ul;
};

inline OrderedCell normal_cell(double u, double l) {
    constexpr double kHalf = 0.70710678118654752440, kDensity = 0.39894228040143267794;
    const bool high = l > 0;  // differences are taken in the lower tail
    const double to = high ? -l : u, from = high ? -u : l;
    const double p = 0.5 * (std::erfc(-to * kHalf) - (from == -std::numeric_limits<double>::infinity() ? 0.0 : std::erfc(-from * kHalf)));
    const double a = std::isfinite(u) ? kDensity * std::exp(-0.5 * u * u) / p : 0.0, b = std::isfinite(l) ? kDensity * std::exp(-0.5 * l * l) / p : 0.0;
    const double ua = std::isfinite(u) ? u * a : 0.0, lb = std::isfinite(l) ? l * b : 0.0;
    return {std::log(p), a, -b, -ua - a * a, lb - b * b, a * b};
}

struct OrderedState {
    static constexpr int64_t kColumns = 6;  // η, log P, g, w, and what η has with the upper and the lower edge
    double* data;
    int64_t apart;
    double* of(int64_t c) const { return data + c * apart; }
};

// Sums over rows: slope in every threshold, curvature of each and of each with the next; and the furthest edge.
struct OrderedTotals {
    double value = 0, furthest = 0;
    std::vector<double> slope, own, beside;
    explicit OrderedTotals(int64_t thresholds) : slope(thresholds, 0.0), own(thresholds, 0.0), beside(thresholds, 0.0) {}
};

// log F(u) + log F(−l) of a logistic cell, which is log P less log(1 − exp(l − u)), and the probabilities that edges are missed.
struct LogisticTerms {
    double lost, above, below;
    LogisticTerms(double u, double l) {
        const double eu = exp_of_negative(-std::abs(u)), el = exp_of_negative(-std::abs(l)), to = 1.0 / (1.0 + eu), from = 1.0 / (1.0 + el);
        above = u > 0 ? eu * to : to, below = l > 0 ? from : el * from;
        lost = log1p_of_unit(eu) + (u > 0 ? 0.0 : -u) + log1p_of_unit(el) + (l > 0 ? l : 0.0);
    }
};

// Gaps between thresholds belong to logistic cells in the same way, whatever their rows: they are known by the weight of each class.
class OrderedSums {
    static constexpr int64_t kRows = 512;  // at a time
    static constexpr double kOut = 1e6;    // an edge that nobody misses
    int64_t n, thresholds;
    bool normal;
    const int64_t* codes;
    const double* weights;

public:
    OrderedSums(int64_t rows, int64_t n_thresholds, bool is_normal, const int64_t* classes, const double* a)
        : n(rows), thresholds(n_thresholds), normal(is_normal), codes(classes), weights(a) {}

    // Writes the state of the rows at linear predictors; the value is half the deviance.
    void look(const double* eta, const double* theta, const OrderedState& state, OrderedTotals& sums) const {
        normal ? look_normally(eta, theta, state, sums) : look_logistically(eta, theta, state, sums);
    }

    // Slopes and curvatures of rows, what η and each threshold have in common, then curvatures times columns of Z: a column each.
    FBED_HOT void write_vectors(const OrderedState& state, const double* Z, int64_t k, double* out) const {
        const double* w = state.of(3);
        std::copy_n(state.of(2), n, out);
        std::copy_n(w, n, out + n);
        double* with = out + 2 * n;
        std::fill(with, with + thresholds * n, 0.0);
        for (int64_t i = 0; i < n; ++i) {
            if (codes[i] < thresholds) with[codes[i] * n + i] = state.of(4)[i];
            if (codes[i] > 0) with[(codes[i] - 1) * n + i] = state.of(5)[i];
        }
        double* to = with + thresholds * n;
        for (int64_t j = 0; j < k; ++j)
#pragma omp simd
            for (int64_t i = 0; i < n; ++i) to[j * n + i] = w[i] * Z[j * n + i];
    }

    // What the log-likelihood gains as η moves by u, with thresholds moved to `theta`, and slopes there in the place of u.
    double move(const OrderedState& state, const double* before, const double* theta, double* u, double* slope) const {
        std::fill(slope, slope + thresholds, 0.0);
        return normal ? move_normally(state, theta, u, slope) : move_logistically(state, before, theta, u, slope);
    }

private:
    FBED_HOT void look_normally(const double* eta, const double* theta, const OrderedState& state, OrderedTotals& sums) const {
        for (int64_t i = 0; i < n; ++i) {
            const int64_t y = codes[i];
            const double a = weights[i], u = upper(y, theta, eta[i]), l = lower(y, theta, eta[i]);
            const OrderedCell cell = normal_cell(u, l);
            const double by_upper = cell.uu + cell.ul, by_lower = cell.ll + cell.ul;
            state.of(0)[i] = eta[i], state.of(1)[i] = cell.log_p;
            state.of(2)[i] = -a * (cell.u + cell.l), state.of(3)[i] = -a * (by_upper + by_lower);
            state.of(4)[i] = a * by_upper, state.of(5)[i] = a * by_lower;
            sums.value -= a * cell.log_p;
            if (y < thresholds) sums.slope[y] += a * cell.u, sums.own[y] -= a * cell.uu, sums.furthest = std::max(sums.furthest, std::abs(u));
            if (y > 0) sums.slope[y - 1] += a * cell.l, sums.own[y - 1] -= a * cell.ll, sums.furthest = std::max(sums.furthest, std::abs(l));
            if (y > 0 && y < thresholds) sums.beside[y - 1] -= a * cell.ul;
        }
    }

    // Edges are at `theta` before η is taken off: two more thresholds, far out on either side.
    std::vector<double> with_ends(const double* theta) const {
        std::vector<double> out(thresholds + 2, kOut);
        out[0] = -kOut;
        std::copy_n(theta, thresholds, out.begin() + 1);
        return out;
    }

    std::vector<double> class_weights() const {
        std::vector<double> out(thresholds + 1, 0.0);
        for (int64_t i = 0; i < n; ++i) out[codes[i]] += weights[i];
        return out;
    }

    void look_logistically(const double* eta, const double* theta, const OrderedState& state, OrderedTotals& sums) const {
        const std::vector<double> edges = with_ends(theta), total = class_weights();
        std::vector<double> slope(2 * (thresholds + 1), 0.0), own(2 * (thresholds + 1), 0.0);
        sums.value = look_at_terms(eta, edges.data(), state, slope.data(), own.data());
        for (int64_t j = 0; j < thresholds; ++j) {
            sums.slope[j] = slope[2 * j] - slope[2 * (j + 1) + 1];
            sums.own[j] = own[2 * j] + own[2 * (j + 1) + 1];
        }
        for (int64_t j = 1; j < thresholds; ++j) {
            const double gap = theta[j] - theta[j - 1], nu = 1.0 / std::expm1(gap), curved = total[j] * nu * (1.0 + nu);
            sums.value -= gap > 0 ? total[j] * std::log(-std::expm1(-gap)) : std::numeric_limits<double>::quiet_NaN();
            sums.slope[j] += total[j] * nu, sums.slope[j - 1] -= total[j] * nu;
            sums.own[j] += curved, sums.own[j - 1] += curved, sums.beside[j - 1] = -curved;
        }
    }

    // Sums of what upper and lower edges of each class miss, and of its variance, side by side.
    FBED_HOT double look_at_terms(const double* eta, const double* edges, const OrderedState& state, double* slope, double* own) const {
        double value = 0, missed[2][kRows];
        for (int64_t first = 0; first < n; first += kRows) {
            const int64_t rows = std::min(kRows, n - first);
            double *e = state.of(0) + first, *log_p = state.of(1) + first, *g = state.of(2) + first, *w = state.of(3) + first;
            double *by_upper = state.of(4) + first, *by_lower = state.of(5) + first;
            const int64_t* code = codes + first;
            const double* a = weights + first;
#pragma omp simd reduction(+ : value)
            for (int64_t i = 0; i < rows; ++i) {
                const double at = eta[first + i];
                const LogisticTerms t(edges[code[i] + 1] - at, edges[code[i]] - at);
                e[i] = at, log_p[i] = -t.lost, g[i] = a[i] * (t.below - t.above);
                by_upper[i] = -a[i] * t.above * (1.0 - t.above), by_lower[i] = -a[i] * t.below * (1.0 - t.below);
                w[i] = -by_upper[i] - by_lower[i];
                missed[0][i] = a[i] * t.above, missed[1][i] = a[i] * t.below;
                value += a[i] * t.lost;
            }
            for (int64_t i = 0; i < rows; ++i) {
                slope[2 * code[i]] += missed[0][i], slope[2 * code[i] + 1] += missed[1][i];
                own[2 * code[i]] -= by_upper[i], own[2 * code[i] + 1] -= by_lower[i];
            }
        }
        return value;
    }

    FBED_HOT double move_normally(const OrderedState& state, const double* theta, double* u, double* slope) const {
        double gain = 0;
        const double *eta = state.of(0), *before = state.of(1);
        for (int64_t i = 0; i < n; ++i) {
            const int64_t y = codes[i];
            const double a = weights[i], there = eta[i] + u[i];
            const OrderedCell cell = normal_cell(upper(y, theta, there), lower(y, theta, there));
            gain += a * (cell.log_p - before[i]);
            u[i] = -a * (cell.u + cell.l);
            if (y < thresholds) slope[y] += a * cell.u;
            if (y > 0) slope[y - 1] += a * cell.l;
        }
        return gain;
    }

    double move_logistically(const OrderedState& state, const double* before, const double* theta, double* u, double* slope) const {
        const std::vector<double> edges = with_ends(theta), total = class_weights();
        std::vector<double> missed(2 * (thresholds + 1), 0.0);
        double gain = move_terms(state, edges.data(), u, missed.data());
        for (int64_t j = 0; j < thresholds; ++j) slope[j] = missed[2 * j] - missed[2 * (j + 1) + 1];
        for (int64_t j = 1; j < thresholds; ++j) {
            const double gap = theta[j] - theta[j - 1], nu = 1.0 / std::expm1(gap);
            gain += total[j] * std::log(std::expm1(-gap) / std::expm1(before[j - 1] - before[j]));
            slope[j] += total[j] * nu, slope[j - 1] -= total[j] * nu;
        }
        return gain;
    }

    FBED_HOT double move_terms(const OrderedState& state, const double* edges, double* u, double* slope) const {
        double gain = 0, missed[2][kRows];
        for (int64_t first = 0; first < n; first += kRows) {
            const int64_t rows = std::min(kRows, n - first);
            const double *eta = state.of(0) + first, *before = state.of(1) + first, *a = weights + first;
            const int64_t* code = codes + first;
            double* move = u + first;
#pragma omp simd reduction(+ : gain)
            for (int64_t i = 0; i < rows; ++i) {
                const double at = eta[i] + move[i];
                const LogisticTerms t(edges[code[i] + 1] - at, edges[code[i]] - at);
                gain -= a[i] * (t.lost + before[i]);
                move[i] = a[i] * (t.below - t.above);
                missed[0][i] = a[i] * t.above, missed[1][i] = a[i] * t.below;
            }
            for (int64_t i = 0; i < rows; ++i) slope[2 * code[i]] += missed[0][i], slope[2 * code[i] + 1] += missed[1][i];
        }
        return gain;
    }

    double upper(int64_t y, const double* theta, double eta) const { return y < thresholds ? theta[y] - eta : std::numeric_limits<double>::infinity(); }
    double lower(int64_t y, const double* theta, double eta) const { return y > 0 ? theta[y - 1] - eta : -std::numeric_limits<double>::infinity(); }
};

}  // namespace fbed
