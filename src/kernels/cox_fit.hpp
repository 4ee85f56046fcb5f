// Newton's method for partial likelihoods of one stratum without late entries, a model after another: what `climb` does in
// Python, step by step. A model that asks for more (hazards too far apart for one scale, no way on) is given back unfinished.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "processors.hpp"
#include "linear.hpp"
#include "partial_likelihood.hpp"
#include "pause.hpp"

namespace fbed {

struct ClimbRules {
    double converged, nearly, small_step, jitter, rounding, least_step, noise, range, cancelled, clear;
    int64_t iterations;
};

class CoxClimb {
public:
    CoxClimb(const CoxOrder& rows, const ClimbRules& rules, int64_t size)
        : r(rows), rule(rules), k(size), likelihood(rows, rules.range), T(rows.n * size), eta(rows.n), expected(rows.n),
          tail(rows.n + 1), share(rows.n_terms), M(rows.n_terms * size), H(size * size), outer(size * size), gradient(size), step(size),
          trial(size) {}

    double* column(int64_t j) { return T.data() + j * r.n; }

    // From `beta`, which is moved; false if it did not arrive.
    bool climb(double* beta, double& deviance) {
        double value;
        if (!evaluate(beta, value)) return false;
        bool moved = true;
        for (int64_t i = 0; i < rule.iterations; ++i) {
            look_up();
            double decrement;
            if (!newton(decrement)) return false;
            const bool apart = separated();
            const bool last = !apart && moved && decrement <= rule.nearly && largest_move() <= rule.small_step;
            const bool known = decrement <= std::max(rule.converged, rule.noise * std::abs(value));
            if (apart || last || known) {
                if (last)
                    for (int64_t j = 0; j < k; ++j) beta[j] += step[j];
                deviance = apart ? 0.0 : value - (last ? decrement : 0.0);
                return true;
            }
            if (!moved || !damped(beta, value, moved)) return false;
        }
        return false;
    }

private:
    const CoxOrder& r;
    const ClimbRules& rule;
    int64_t k;
    PartialLikelihood likelihood;
    std::vector<double> T, eta, expected, tail, share, M, H, outer, gradient, step, trial;

    // Deviance at some coefficients; false where hazards are too far apart for one scale.
    bool evaluate(const double* beta, double& value) {
        std::fill(eta.begin(), eta.end(), 0.0);
        add_columns(T.data(), r.n, k, beta, eta.data());
        return likelihood.look(eta.data(), value);
    }

    // H⁻¹g and gᵀH⁻¹g at the last point; false where H is not positive definite.
    bool newton(double& decrement) {
        likelihood.expect(share.data(), expected.data());
        gram(T.data(), r.n, k, nullptr, expected.data(), H.data());
        for (int64_t j = 0; j < k; ++j) likelihood.per_term(column(j), M.data() + j * r.n_terms);
        for (int64_t e = 0; e < r.n_terms; ++e) share[e] /= likelihood.denominator[e];
        gram(M.data(), r.n_terms, k, nullptr, share.data(), outer.data());
        double trace = 0;
        for (int64_t i = 0; i < k; ++i) {
            for (int64_t j = 0; j < i; ++j) H[i * k + j] -= outer[i * k + j];
            H[i * k + i] = H[i * k + i] * (1.0 + rule.cancelled) - outer[i * k + i];
            trace += H[i * k + i];
        }
        for (int64_t j = 0; j < k; ++j) H[j * k + j] += rule.jitter * trace / static_cast<double>(k) + 1e-300;
        for (int64_t i = 0; i < r.n; ++i) expected[i] = r.event_weights[i] - expected[i];
        products(T.data(), r.n, k, expected.data(), gradient.data());
        if (!(cholesky(H.data(), k) > 0.0)) return false;
        step = gradient;
        cholesky_solve(H.data(), k, step.data());
        decrement = dot(gradient.data(), step.data(), static_cast<size_t>(k));
        return std::isfinite(decrement);
    }

    double largest_move() {
        std::vector<double>& move = expected;  // no longer needed
        std::fill(move.begin(), move.end(), 0.0);
        add_columns(T.data(), r.n, k, step.data(), move.data());
        double most = 0;
        for (const double v : move) most = std::max(most, std::abs(v));
        return most;
    }

    // Halve the step until the deviance falls; a step that rounding keeps from falling is not taken.
    bool damped(double* beta, double& value, bool& moved) {
        const double allowed = value + rule.rounding * std::max(1.0, std::abs(value));
        for (double size = 1.0;;) {
            look_up();
            for (int64_t j = 0; j < k; ++j) trial[j] = size > 0 ? beta[j] + size * step[j] : beta[j];
            double there;
            if (!evaluate(trial.data(), there)) return false;
            if (there <= allowed || !(size > 0)) {
                moved = !std::equal(trial.begin(), trial.end(), beta);
                std::copy(trial.begin(), trial.end(), beta);
                value = there;
                return true;
            }
            size = size > rule.least_step ? size / 2.0 : 0.0;
        }
    }

    // Whether whoever dies has clearly the largest hazard of all at risk, tied deaths the same one.
    bool separated() {
        const int64_t n = r.n;
        constexpr double none = -std::numeric_limits<double>::infinity();
        if (eta[r.deaths[0]] < *std::max_element(eta.begin() + r.first[0], eta.end())) return false;
        tail[n] = none;
        for (int64_t i = n; i-- > 0;) tail[i] = std::max(tail[i + 1], eta[i]);
        for (int64_t g = 0; g < r.n_groups; ++g) {
            const double one = eta[r.deaths[r.starts[g]]];
            for (int64_t d = r.starts[g]; d < r.group_end(g); ++d)
                if (eta[r.deaths[d]] != one) return false;
            const double survivor = r.after[g] >= 0 ? tail[r.after[g]] : none;
            if (!(one - survivor > rule.clear * (1.0 + std::abs(one)))) return false;
        }
        return true;
    }
};

}  // namespace fbed
