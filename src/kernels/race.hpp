// Newton's method for one model after another, each only as far as a question needs: after every Hessian the likelihood
// ratio is enclosed, and the iterations end once the interval tells what was asked.
//
// A likelihood L offers, for models that have the columns of S and some of their own:
//   size()                 number of parameters
//   null_deviance          of the model on S
//   begin()                parameters 0 for what is new, those of S for the others; evaluates there
//   evaluate(parameters)   deviance, infinite outside the domain
//   separated()            whether the supremum, deviance 0, is reached in the limit along the present direction
//   differentiate(g, H)    half the gradient of the deviance, downwards, and half its Hessian; says how many leading rows
//                          of H hold their Cholesky factor
//   reach(step)            what a step tells about the maximum
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "pause.hpp"
#include "tiles.hpp"

namespace fbed {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// By decrement λ², 2[ℓ* − ℓ] lies between λ²·below and λ²·above; `safe` is a part of the step that gains λ²·below. `move`
// is how far predictors go; infinite where that does not tell how far the step goes.
struct Reach {
    double below = 0, above = kInfinite, safe = 0, move = kInfinite;
};

// A statistic up to `line` fails. Of those above, only one that may reach `best` has to be known; with `exactly`, all.
struct Asked {
    double line, best;
    bool exactly;

    bool answered(double lower, double upper) const {
        if (exactly) return false;
        return upper <= line || (lower > line && upper < best);
    }
};

struct Enclosed {
    double lower = -kInfinite, upper = kInfinite;
    bool known() const { return lower == upper; }
};

template <class L>
class Racer {
    // the same rules as for fitting in Python
    static constexpr double kConverged = 1e-11, kNearly = 1e-7, kSmallStep = 1e-3, kLeastStep = 1e-10;
    static constexpr double kNoise = 2.220446049250313e-16, kRise = 1e-12, kRounding = 1e-8, kSolved = 1e-20;
    static constexpr int kIterations = 100;

    L& model;
    Symmetric hessian, factor;
    std::vector<double> gradient, step, left, trial;
    double decrement = 0;

public:
    explicit Racer(L& m) : model(m) {}

    // The likelihood ratio of the present model. `parameters` are where to start unless `fresh`, and where it ended. Where
    // steps lead nowhere, the interval stays open.
    Enclosed run(const Asked& asked, std::vector<double>& parameters, bool fresh) {
        Enclosed found;
        double value = kInfinite;
        if (!fresh) value = model.evaluate(parameters.data());
        if (!(value <= model.null_deviance * (1.0 + kRise))) {
            parameters = model.begin();
            value = model.begin_value();
        }
        found.upper = model.null_deviance;
        bool stuck = false;
        for (int iteration = 0; iteration < kIterations; ++iteration) {
            look_up();
            if (model.separated()) return certain(model.null_deviance);
            const bool sound = solve();
            const double gained = model.null_deviance - value;
            const Reach reach = model.reach(step.data());
            found.lower = std::max(found.lower, gained - kRounding * std::abs(gained));
            if (sound) {
                found.lower = std::max(found.lower, gained + decrement * reach.below - kRounding * (std::abs(gained) + decrement));
                found.upper = std::min(found.upper, gained + decrement * reach.above + kRounding * (std::abs(gained) + decrement));
            }
            if (decrement <= kNearly && reach.move <= kSmallStep) {
                for (size_t i = 0; i < step.size(); ++i) parameters[i] += step[i];
                return certain(gained + decrement);
            }
            if (decrement <= std::max(kConverged, kNoise * std::abs(value))) return certain(gained);
            if (stuck) return found;
            if (found.lower <= found.upper && asked.answered(found.lower, found.upper)) {
                for (size_t i = 0; i < step.size(); ++i) parameters[i] += reach.safe * step[i];
                return found;
            }
            stuck = !descend(parameters, value);
        }
        return found;
    }

private:
    static Enclosed certain(double statistic) { return {statistic, statistic}; }

    // The Newton step, and whether what is left of its equations is rounding.
    bool solve() {
        const int64_t size = model.size();
        gradient.resize(size), step.resize(size), left.resize(size);
        const int64_t known = model.differentiate(gradient.data(), hessian);
        factor = hessian;
        factorise(factor, known);
        if (known > 0) model.complete(hessian);
        step = gradient;
        solve_factorised(factor, step.data());
        decrement = product(gradient, step);
        for (int attempt = 0; attempt < 2; ++attempt) {
            left = gradient;
            hessian.subtract_product(step.data(), left.data());
            std::vector<double>& correction = trial;
            correction = left;
            solve_factorised(factor, correction.data());
            const double missing = product(left, correction);
            if (!(std::isfinite(missing) && std::isfinite(decrement))) return false;
            if (missing <= kSolved * std::max(decrement, 1e-300)) return true;
            if (attempt > 0) return false;
            std::vector<double> better = step;
            for (int64_t i = 0; i < size; ++i) better[i] += correction[i];
            const double again = product(gradient, better);
            if (!(again > 0)) return false;
            step = better, decrement = again;
        }
        return false;
    }

    static double product(const std::vector<double>& a, const std::vector<double>& b) {
        double s = 0;
        for (size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
        return s;
    }

    // Halve the step until the deviance falls; false where rounding keeps it from falling.
    bool descend(std::vector<double>& parameters, double& value) {
        const double allowed = value + kRise * std::max(1.0, std::abs(value));
        for (double part = 1.0; part > kLeastStep; part /= 2.0) {
            look_up();
            trial = parameters;
            for (size_t i = 0; i < step.size(); ++i) trial[i] += part * step[i];
            const double there = model.evaluate(trial.data());
            if (there <= allowed) {
                const bool moved = trial != parameters;
                parameters.swap(trial);
                value = there;
                return moved;
            }
        }
        model.evaluate(parameters.data());
        return false;
    }
};

}  // namespace fbed
