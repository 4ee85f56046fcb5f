// The partial likelihood at some linear predictors, one stratum without late entries, and sums over the rows at risk.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "processors.hpp"

namespace fbed {

// The rows in the order of their times, deaths before those who are censored then; see `RiskSets`.
struct CoxOrder {
    int64_t n, n_deaths, n_groups, n_terms;
    const int64_t *order, *deaths, *starts, *outlived, *first, *after, *term_group;  // after: −1 where nobody survives
    const double *weights, *log_weights, *left, *multiplicity, *event_weights;
    double saturated, own_logs;

    int64_t group_end(int64_t g) const { return g + 1 < n_groups ? starts[g + 1] : n_deaths; }
};

// All vectors of rows are in that order.
class PartialLikelihood {
public:
    std::vector<double> hazard, denominator;  // up to a factor, of rows and of terms, at the last point
    double top = 0;                           // logarithm of that factor

    PartialLikelihood(const CoxOrder& rows, double range)
        : hazard(rows.n), denominator(rows.n_terms), r(rows), range_(range), tail_(rows.n + 1), running_(rows.n_groups + 1), own_(rows.n_groups) {}

    // Deviance at some predictors, of which −∞ takes a row out of all risk sets; false where hazards are too far apart for one scale.
    FBED_HOT bool look(const double* eta, double& value) {
        const int64_t n = r.n;
        double bottom = kNever;
        top = -kNever;
        for (int64_t i = 0; i < n; ++i) {
            if (eta[i] == -kNever) continue;
            const double level = eta[i] + r.log_weights[i];
            if (!std::isfinite(level)) return false;
            top = std::max(top, level), bottom = std::min(bottom, level);
        }
        if (!(top - bottom <= range_)) return false;
        for (int64_t i = 0; i < n; ++i) hazard[i] = std::exp(eta[i] + r.log_weights[i] - top);
        per_term(nullptr, denominator.data());
        double likelihood = -r.own_logs;
        for (int64_t d = 0; d < r.n_deaths; ++d) {
            const int64_t i = r.deaths[d];
            likelihood += r.weights[i] * (eta[i] + r.log_weights[i] - top);
        }
        for (int64_t e = 0; e < r.n_terms; ++e) likelihood -= r.multiplicity[e] * std::log(denominator[e]);
        value = std::max(2.0 * (r.saturated - likelihood), 0.0);
        return std::isfinite(value);
    }

    // Sum over the survivors and part of that over the deaths of every term, for hazards times a column.
    FBED_HOT void per_term(const double* x, double* out) {
        const int64_t n = r.n;
        double sum = 0;
        tail_[n] = 0;
        for (int64_t i = n; i-- > 0;) tail_[i] = sum += x ? hazard[i] * x[i] : hazard[i];
        int64_t e = 0;
        for (int64_t g = 0; g < r.n_groups; ++g) {
            double dying = 0;
            for (int64_t d = r.starts[g]; d < r.group_end(g); ++d) {
                const int64_t i = r.deaths[d];
                dying += x ? hazard[i] * x[i] : hazard[i];
            }
            const double surviving = r.after[g] >= 0 ? tail_[r.after[g]] : 0.0;
            for (; e < r.n_terms && r.term_group[e] == g; ++e) out[e] = surviving + r.left[e] * dying;
        }
    }

    // Expected number of events of every row, and the part in it of every term beside the row's hazard.
    void expect(double* share, double* expected) {
        for (int64_t e = 0; e < r.n_terms; ++e) share[e] = r.multiplicity[e] / denominator[e];
        spread(share, expected);
    }

    // Of every row its hazard times the sum of what the terms have at which it is at risk; part of that of its own tied set.
    void spread(const double* share, double* out) {
        std::fill(own_.begin(), own_.end(), 0.0);
        running_[0] = 0;
        int64_t e = 0;
        for (int64_t g = 0; g < r.n_groups; ++g) {
            double all = 0;
            for (; e < r.n_terms && r.term_group[e] == g; ++e) all += share[e], own_[g] += r.left[e] * share[e];
            running_[g + 1] = running_[g] + all;
        }
        for (int64_t i = 0; i < r.n; ++i) out[i] = running_[r.outlived[i]];
        for (int64_t g = 0; g < r.n_groups; ++g)
            for (int64_t d = r.starts[g]; d < r.group_end(g); ++d) out[r.deaths[d]] += own_[g];
        for (int64_t i = 0; i < r.n; ++i) out[i] *= hazard[i];
    }

private:
    static constexpr double kNever = std::numeric_limits<double>::infinity();

    const CoxOrder& r;
    double range_;
    std::vector<double> tail_, running_, own_;
};

}  // namespace fbed
