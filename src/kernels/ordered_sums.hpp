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
#include "pause.hpp"
#include "sums.hpp"

namespace fbed {

// log P of a row's cell and derivatives: first in u and in l, then second.
struct OrderedCell {
    double log_p, u, l, uu, ll, ul;
};

inline OrderedCell logistic_cell(double u, double l) {
    const double eu = exp_of_negative(-std::abs(u)), el = exp_of_negative(-std::abs(l));
    const double above = u > 0 ? eu / (1.0 + eu) : 1.0 / (1.0 + eu), below = l > 0 ? 1.0 / (1.0 + el) : el / (1.0 + el);
    const bool bounded = std::isfinite(u) && std::isfinite(l);
    const double gap = bounded ? 1.0 / std::expm1(u - l) : 0.0, curved = gap * (1.0 + gap);
    const double lost = log1p_of_unit(eu) + std::max(-u, 0.0) + log1p_of_unit(el) + std::max(l, 0.0);
    return {(bounded ? std::log(-std::expm1(l - u)) : 0.0) - lost, above + gap, -below - gap, -above * (1.0 - above) - curved,
            -below * (1.0 - below) - curved, curved};
}

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

class OrderedSums {
    int64_t n, thresholds;
    bool normal;
    const int64_t* codes;
    const double* weights;

public:
    OrderedSums(int64_t rows, int64_t n_thresholds, bool is_normal, const int64_t* classes, const double* a)
        : n(rows), thresholds(n_thresholds), normal(is_normal), codes(classes), weights(a) {}

    // Writes the state of the rows at linear predictors; the value is half the deviance.
    FBED_HOT void look(const double* eta, const double* theta, const OrderedState& state, OrderedTotals& sums) const {
        for (int64_t i = 0; i < n; ++i) {
            const int64_t y = codes[i];
            const double a = weights[i], u = upper(y, theta, eta[i]), l = lower(y, theta, eta[i]);
            const OrderedCell cell = normal ? normal_cell(u, l) : logistic_cell(u, l);
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

    // What the log-likelihood gains as η moves by u, with the thresholds at `theta`, and slopes there in the place of u.
    FBED_HOT double move(const OrderedState& state, const double* theta, double* u, double* slope) const {
        double gain = 0;
        const double *eta = state.of(0), *before = state.of(1);
        std::fill(slope, slope + thresholds, 0.0);
        for (int64_t i = 0; i < n; ++i) {
            const int64_t y = codes[i];
            const double a = weights[i], there = eta[i] + u[i];
            const OrderedCell cell = normal ? normal_cell(upper(y, theta, there), lower(y, theta, there))
                                            : logistic_cell(upper(y, theta, there), lower(y, theta, there));
            gain += a * (cell.log_p - before[i]);
            u[i] = -a * (cell.u + cell.l);
            if (y < thresholds) slope[y] += a * cell.u;
            if (y > 0) slope[y - 1] += a * cell.l;
        }
        return gain;
    }

private:
    double upper(int64_t y, const double* theta, double eta) const { return y < thresholds ? theta[y] - eta : std::numeric_limits<double>::infinity(); }
    double lower(int64_t y, const double* theta, double eta) const { return y > 0 ? theta[y - 1] - eta : -std::numeric_limits<double>::infinity(); }
};

}  // namespace fbed
