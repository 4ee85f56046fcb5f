// Newton's method for one model after another, each only as far as a question needs: after every Hessian the likelihood
// ratio is enclosed, and the iterations end once the interval tells what was asked.
//
// A likelihood L offers, for models that have the columns of S and some of their own:
//   size()                 number of parameters
//   null_deviance          of the model on S
//   total_weight()         of the rows
//   begin()                parameters 0 for what is new, those of S for the others; evaluates there
//   evaluate(parameters)   deviance, infinite outside the domain
//   separated()            whether the supremum, deviance 0, is reached in the limit along the present direction
//   differentiate(g, H)    half the gradient of the deviance, downwards, and half its Hessian; says how many leading rows
//                          of H hold their Cholesky factor
//   reach(step)            what a step tells about the maximum
//   freezes                whether it has freeze(step, bar), rest(budget) and explain_own(limit), see softmax.hpp
//   polishes               whether it has slope(g), the gradient alone, and precondition(factor), of a Hessian much like that at
//                          the fit on S; then models of many parameters are improved by these first
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

// By decrement λ², 2[ℓ* − ℓ] lies between λ²·below and λ²·above. `move` is how far predictors go; infinite where that does
// not tell how far the step goes.
struct Reach {
    double below = 0, above = kInfinite, move = kInfinite;
};

struct Enclosed {
    double lower = -kInfinite, upper = kInfinite;
    bool known() const { return lower == upper; }
};

// A statistic up to `line` fails. Of those above, only one that may reach `best` has to be known; with `exactly`, all.
struct Asked {
    double line, best;
    bool exactly;

    bool answered(double lower, double upper) const {
        if (exactly) return false;
        return upper <= line || (lower > line && upper < best);
    }

    // What is missing to an answer: where it is below the statistic, that has to be known.
    double target(const Enclosed& found) const { return found.lower > line ? best : line; }

    // Whether an upper bound not far above `statistic` would answer it.
    bool hopeful(const Enclosed& found, double statistic) const {
        return !exactly && statistic < target(found);
    }
};

// What steps have shown of the curvature: L-BFGS, on top of a factor that is good enough to begin with.
class Bends {
    struct Seen {
        std::vector<double> move, fall;  // of the parameters, and of the gradient along it
        double inverse;
    };
    std::vector<Seen> seen;
    std::vector<double> share;

public:
    void forget() { seen.clear(); }

    void see(const std::vector<double>& step, double part, const std::vector<double>& before, const std::vector<double>& after) {
        Seen one{step, before, 0.0};
        double along = 0;
        for (size_t i = 0; i < step.size(); ++i) {
            one.move[i] *= part, one.fall[i] -= after[i];
            along += one.move[i] * one.fall[i];
        }
        if (!(along > 0)) return;
        one.inverse = 1.0 / along;
        seen.push_back(std::move(one));
    }

    // The step for a gradient.
    void turn(const Symmetric& factor, std::vector<double>& d) {
        share.resize(seen.size());
        for (size_t k = seen.size(); k-- > 0;) {
            share[k] = seen[k].inverse * product(seen[k].move, d);
            add(d, -share[k], seen[k].fall);
        }
        solve_factorised(factor, d.data());
        for (size_t k = 0; k < seen.size(); ++k) add(d, share[k] - seen[k].inverse * product(seen[k].fall, d), seen[k].move);
    }

    static double product(const std::vector<double>& a, const std::vector<double>& b) {
        double s = 0;
#pragma omp simd reduction(+ : s)
        for (size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
        return s;
    }

private:
    static void add(std::vector<double>& to, double t, const std::vector<double>& v) {
#pragma omp simd
        for (size_t i = 0; i < to.size(); ++i) to[i] += t * v[i];
    }
};

template <class L>
class Racer {
    // the same rules as for fitting in Python
    static constexpr double kConverged = 1e-11, kNearly = 1e-7, kSmallStep = 1e-3, kShortest = 1e-2, kFar = 1e3, kStride = 1e5, kHidden = 1e-9, kHope = 10.0, kSlow = 0.1, kLongest = 32.0, kWorth = 1e-9, kMuch = 0.25;
    static constexpr double kNoise = 2.220446049250313e-16, kRise = 1e-12, kRounding = 1e-8, kSolved = 1e-15, kWay = 1e4, kDigits = 1e-15, kSure = 1e-11, kSpared = 0.1, kFlat = 1e-14, kClose = 1e-2, kTelling = 1e-2, kFall = 1e-4, kRough = 0.1, kSteep = 1e-9;
    static constexpr int kIterations = 100, kCareful = 1000, kFreezes = 10, kCorrections = 3, kPolishes = 12, kAttempts = 6, kLightly = 8;

    L& model;
    Symmetric hessian, factor, kept_hessian;
    std::vector<double> gradient, step, left, trial;
    double decrement = 0, curvature = 0, missing = 0, damping = 0;  // gᵀd, dᵀHd, |g − Hd|
    Bends bends;

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
        found = {surely(model.null_deviance - value), model.null_deviance};
        if (settled_by_explaining(asked, found)) return found;
        bool careful = false, stuck = false;
        damping = 0;
        double before = kInfinite, frozen = kInfinite, promised = kInfinite;
        if (!fresh && polish(asked, parameters, value, found, promised)) return found;
        int lightly = 0, rests = 0;  // steps that led nowhere: the more, the less often it is asked whether they should end
        for (int iteration = 0; iteration < (careful ? kCareful : kIterations); ++iteration) {
            look_up();
            if (model.separated()) return certain(model.null_deviance);
            const double gained = model.null_deviance - value;
            if (std::isfinite(promised) && asked.hopeful(found, gained + promised)) {
                if (settled_at_rest(asked, gained, found, frozen)) return found;
                if (++lightly < kLightly && descend_lightly(parameters, value, before, promised)) continue;
            }
            promised = kInfinite;
            solve();
            const Reach reach = model.reach(step.data());
            found.lower = std::max(found.lower, surely(gained));
            narrow(found, gained, 0.0, reach);
            if (decrement <= kNearly && reach.move <= kSmallStep && believable()) {
                advance(parameters);
                return certain(gained + decrement);
            }
            if (arrived(value, careful)) return certain(gained);
            if (stuck) return hidden(value) ? certain(gained) : found;
            if (found.lower <= found.upper && asked.answered(found.lower, found.upper)) {
                if (found.lower > asked.line && !(fresh && iteration == 0 && polish(asked, parameters, value, found, promised))) go_on(parameters, value, found);
                return found;
            }
            if (decrement <= kMuch * frozen && asked.hopeful(found, gained + kHope * decrement)) {
                frozen = decrement;
                if (settled_by_freezing(asked, gained, found)) return found;
            }
            const double here = value;
            if (fresh && iteration == 0) {
                if (polish(asked, parameters, value, found, promised)) return found;
                if (value < here) continue;
            }
            careful = careful || !descend(parameters, value, decrement > kSlow * before);
            before = decrement;
            if (careful) stuck = !descend_carefully(parameters, value);
            if (careful && here - value <= small(value) && (stuck || is_power_of_two(++rests)) && nothing_left(parameters, value))
                return certain(model.null_deviance - value);
            found.lower = std::max(found.lower, surely(model.null_deviance - value));
            if (found.lower > asked.line && asked.answered(found.lower, found.upper)) return found;
        }
        return found;
    }

private:
    static Enclosed certain(double statistic) { return {statistic, statistic}; }

    // Take the last step of a run as well, which costs little and is where the next run begins.
    void go_on(std::vector<double>& parameters, double value, Enclosed& found) {
        if (descend(parameters, value, false)) found.lower = std::max(found.lower, std::min(found.upper, model.null_deviance - value));
    }

    void advance(std::vector<double>& parameters) const {
        for (size_t i = 0; i < step.size(); ++i) parameters[i] += step[i];
    }

    // Whether there is nothing left to gain.
    bool arrived(double value, bool careful) const {
        if (!believable()) return false;
        const double rounding = kRise * std::max(1.0, std::abs(value));
        if (decrement <= std::max(kConverged, kNoise * std::abs(value))) return true;
        return careful && (decrement <= rounding || length() * kFar <= rounding);
    }

    // Whether so little is left that rounding may hide it.
    bool hidden(double value) const { return believable() && std::min(decrement, length() * kFar) <= kHidden * std::max(1.0, std::abs(value)); }

    // Whether the step is one at all: where there is next to no curvature, rounding may turn it against a gradient that is not small.
    bool believable() const { return decrement >= 0 || length() <= kSteep * std::max(1.0, model.total_weight()); }

    double length() const { return norm(gradient); }

    static bool is_power_of_two(int k) { return (k & (k - 1)) == 0; }
    static double surely(double gained) { return gained - kRounding * std::abs(gained); }
    static double small(double value) { return kSure * std::max(1.0, std::abs(value)); }

    // Whether the deviance can fall no further than by what is small. Near separation some probabilities are on their way to
    // 0, and no curvature is left where they lead. Without them the deviance could only be smaller; what it can still fall
    // by then is enclosed by a step of the model of the others, as an upper bound is.
    bool nothing_left(const std::vector<double>& parameters, double value) {
        if constexpr (!L::freezes) return false;
        if constexpr (L::freezes) {
            double cost = model.rest(small(value) / 2.0);
            bool sure = false;
            for (int round = 0; round < 2 && !sure && cost <= small(value); ++round) {
                solve_shortly();
                const double charge = cost + 2.0 * missing * std::max(kFar, 10.0 * std::max(norm(step), norm(parameters)));
                sure = curvature >= 0 && curvature * model.reach(step.data()).above + charge <= small(value);
                if (!sure) cost += model.freeze(step.data(), -0.7);
            }
            model.thaw(false);
            return sure;
        }
    }

    // Steps that need no Hessian of their own, from anywhere: as many as it takes to come near the maximum, so that a Hessian there
    // says what is asked; true if it is known before. `promised` is what the last one promised.
    bool polish(const Asked& asked, std::vector<double>& parameters, double& value, Enclosed& found, double& promised) {
        if constexpr (!L::polishes) return false;
        if constexpr (L::polishes) {
            if (!model.precondition(factor)) return false;
            bends.forget();
            gradient.resize(model.size());
            model.slope(gradient.data());
            for (int round = 0; round < kPolishes && !model.separated(); ++round) {
                step = gradient;
                bends.turn(factor, step);
                const double slope = product(gradient, step);
                if (!(slope > 0)) break;
                promised = slope;
                if (is_near(asked, found, model.null_deviance - value, promised)) return found.lower > asked.line && asked.answered(found.lower, found.upper);
                const double part = walk(parameters, value, slope);
                if (part == 0) break;
                found.lower = std::max(found.lower, surely(model.null_deviance - value));
                if (found.lower > asked.line && asked.answered(found.lower, found.upper) && std::isfinite(asked.best)) return true;
                left = gradient;
                model.slope(gradient.data());
                bends.see(step, part, left, gradient);
            }
            return found.lower > asked.line && asked.answered(found.lower, found.upper);
        }
    }

    // Whether what is promised is so little that a Hessian would tell; of one who is to race, that he is put in his place.
    static bool is_near(const Asked& asked, const Enclosed& found, double gained, double promised) {
        if (asked.exactly) return promised <= kClose;
        if (!std::isfinite(asked.target(found))) return promised <= kRough * gained;
        return promised <= std::max(kClose, kTelling * std::abs(asked.target(found) - gained));
    }

    // How much of the step the deviance falls with, 0 if it does not: shorter by the parabola that has been seen.
    double walk(std::vector<double>& parameters, double& value, double slope) {
        double part = 1.0;
        for (int attempt = 0; attempt < kAttempts; ++attempt) {
            const double there = try_part(parameters, part);
            if (there <= value - 2.0 * kFall * part * slope) {
                trial.swap(parameters);
                value = there;
                return part;
            }
            const double bend = there - value + 2.0 * part * slope;
            part *= std::isfinite(bend) ? std::clamp(part * slope / bend, 0.1, 0.5) : 0.1;
        }
        model.evaluate(parameters.data());
        return 0.0;
    }

    // An upper bound where the step leaves the domain of means; the step itself is kept.
    bool settled_by_freezing(const Asked& asked, double gained, Enclosed& found) {
        if constexpr (!L::freezes) return false;
        if constexpr (L::freezes) {
            const std::vector<double> kept = step, slope = gradient;
            const double kept_decrement = decrement, kept_missing = missing, kept_curvature = curvature;
            const bool at_null = model.at_null();
            kept_hessian = hessian;
            const double cost = model.rest(std::min(spared(asked, gained, found), 2.0 * decrement));
            const bool answered = settled_by_more(asked, gained, cost, found);
            model.thaw(at_null);
            step = kept, gradient = slope;
            decrement = kept_decrement, missing = kept_missing, curvature = kept_curvature;
            hessian = kept_hessian;
            return answered;
        }
    }

    // What the least probabilities may cost.
    static double spared(const Asked& asked, double gained, const Enclosed& found) { return kSpared * std::max(0.0, asked.target(found) - gained); }

    // Set more probabilities to 0, a few times.
    bool settled_by_more(const Asked& asked, double gained, double cost, Enclosed& found) {
        for (int round = 0; round < kFreezes; ++round) {
            const double more = model.freeze(step.data(), round == 0 ? -0.7 : -0.95);
            cost += round == 0 && cost > 0 && !std::isfinite(more) ? 0.0 : more;
            if (!asked.hopeful(found, gained + cost)) return false;
            solve();
            narrow(found, gained, cost, model.reach(step.data()));
            if (asked.answered(found.lower, found.upper)) return true;
        }
        return false;
    }

    // An upper bound where no step is known, without the least probabilities, which makes for a quick Hessian as well; then
    // without more of them, if little is left. The first step that was found stays.
    bool settled_at_rest(const Asked& asked, double gained, Enclosed& found, double& frozen) {
        if constexpr (!L::freezes) return false;
        if constexpr (L::freezes) {
            const bool at_null = model.at_null();
            const double cost = model.rest(spared(asked, gained, found));
            solve();
            narrow(found, gained, cost, model.reach(step.data()));
            bool answered = asked.answered(found.lower, found.upper);
            if (!answered && decrement <= kMuch * frozen && asked.hopeful(found, gained + cost + decrement)) {
                const std::vector<double> kept = step;
                frozen = decrement;
                answered = settled_by_more(asked, gained, cost, found);
                step = kept;
            }
            model.thaw(at_null);
            return answered;
        }
    }

    // Take a step of a model that lacks the least probabilities; false where it leads nowhere.
    bool descend_lightly(std::vector<double>& parameters, double& value, double& before, double& promised) {
        if constexpr (!L::polishes) return false;
        if constexpr (L::polishes) {
            const double here = value;
            model.slope(gradient.data());
            const double slope = product(gradient, step);
            if (slope > 0 && descend(parameters, value, slope > kSlow * before) && value < here) {
                before = promised = slope;
                return true;
            }
            model.evaluate(parameters.data());
            return false;
        }
    }

    // The same at the fit on S, where the rows that own columns move are explained completely: a word of few rows cannot do more.
    bool settled_by_explaining(const Asked& asked, Enclosed& found) {
        if constexpr (!L::freezes) return false;
        if constexpr (L::freezes) {
            if (asked.exactly || !model.at_null()) return false;
            const double gained = model.null_deviance - model.begin_value(), cost = model.explain_own(asked.line - gained);
            if (!std::isfinite(cost)) return false;
            solve();
            narrow(found, gained, cost, model.reach(step.data()));
            model.thaw(true);
            return asked.answered(found.lower, found.upper);
        }
    }

    // The Newton step d, once corrected where that helps, and what is left of its equations.
    void solve() {
        const int64_t size = model.size();
        gradient.resize(size), step.resize(size);
        const int64_t known = model.differentiate(gradient.data(), hessian);
        factor = hessian;
        factorise(factor, known);
        if (known > 0) model.complete(hessian);
        step = gradient;
        solve_factorised(factor, step.data());
        missing = residual(step);
        if (missing <= kSolved * norm(gradient)) return measure();
        trial = left;
        solve_factorised(factor, trial.data());
        for (int64_t i = 0; i < size; ++i) trial[i] += step[i];
        const double again = residual(trial);
        if (again < missing) step.swap(trial);
        missing = residual(step);
        measure();
    }

    // (H + λI)⁻¹g
    void solve_damped(double lambda) {
        factor = hessian;
        for (int64_t i = 0; i < factor.size; ++i) factor.row(i)[i] += lambda;
        factorise(factor, 0);
        step = gradient;
        solve_factorised(factor, step.data());
    }

    // The Newton step again where some probabilities are 0, but for directions in which there is no curvature left.
    void solve_shortly() {
        model.differentiate(gradient.data(), hessian);
        solve_damped(kFlat * hessian.largest());
        for (int again = 0; again < kCorrections; ++again) correct();
        missing = residual(step);
        measure();
    }

    // One step of iterative refinement.
    void correct() {
        residual(step);
        solve_factorised(factor, left.data());
        for (size_t i = 0; i < step.size(); ++i) step[i] += left[i];
    }

    double residual(const std::vector<double>& d) {
        left = gradient;
        hessian.subtract_product(d.data(), left.data());
        return norm(left);
    }

    void measure() {
        decrement = product(gradient, step);
        curvature = decrement - product(left, step);
    }

    // The step is a direction like any other for a lower bound; of an upper one it satisfies all equations but `missing`,
    // which may cost that times the way to the maximum, ten thousand such steps at most. Long steps in directions of little curvature are charged for what
    // rounding does to the Hessian and the gradient.
    void narrow(Enclosed& found, double gained, double cost, const Reach& reach) const {
        if (!(std::isfinite(decrement) && std::isfinite(missing))) return;
        const double rounding = kRounding * (std::abs(gained) + decrement) + uncertainty();
        const double most = curvature * reach.above + cost + 2.0 * missing * kWay * std::max(1.0, norm(step)) + rounding;
        if (cost == 0 && std::abs(decrement - curvature) <= kRounding * decrement)
            found.lower = std::max(found.lower, gained + decrement * reach.below - rounding);
        if (curvature >= 0) found.upper = std::min(found.upper, gained + most * (1.0 + kRounding));
    }

    double uncertainty() const {
        double spread = 0, reached = 0;
        for (size_t i = 0; i < step.size(); ++i) {
            spread += std::abs(step[i]) * std::sqrt(std::max(0.0, hessian.row(i)[i]));
            reached += std::abs(step[i]);
        }
        return kDigits * (spread * spread + model.total_weight() * reached);
    }

    static double norm(const std::vector<double>& a) { return std::sqrt(product(a, a)); }

    static double product(const std::vector<double>& a, const std::vector<double>& b) { return Bends::product(a, b); }

    // Halve the step until the deviance falls; false where it is far too long. Where the decrement falls slowly, some
    // coefficients are on their way to infinity, by one a step: then the step is doubled as long as the deviance falls.
    bool descend(std::vector<double>& parameters, double& value, bool slow) {
        if (norm(step) > kStride) return false;  // along directions next to no curvature: predictors that far out have no digits left
        const double allowed = value + kRise * std::max(1.0, std::abs(value));
        for (double part = 1.0; part > kShortest; part /= 2.0) {
            const double there = try_part(parameters, part);
            if (!(there <= allowed)) continue;
            trial.swap(parameters);
            value = there;
            const bool moved = trial != parameters;
            if (slow && part == 1.0) extend(parameters, value);
            return moved;
        }
        return false;
    }

    void extend(std::vector<double>& parameters, double& value) {
        for (double part = 1.0; part <= kLongest; part *= 2.0) {  // 2, 4, 8, … steps in all
            const double there = try_part(parameters, part);
            if (!(value - there > kWorth)) break;
            trial.swap(parameters);
            value = there;
        }
        model.evaluate(parameters.data());
    }

    double try_part(const std::vector<double>& parameters, double part) {
        look_up();
        trial = parameters;
        for (size_t i = 0; i < step.size(); ++i) trial[i] += part * step[i];
        return model.evaluate(trial.data());
    }

    // A step of bounded length, (H + λI)⁻¹g with λ raised until the deviance falls as it should: where most rows are
    // certain there is hardly any curvature, and Newton's step goes anywhere. False where rounding hides the way on.
    bool descend_carefully(std::vector<double>& parameters, double& value) {
        const double steepness = length(), rounding = kRise * std::max(1.0, std::abs(value));
        damping = std::max(damping, steepness / kStride);
        double promised = 0, there = kInfinite, fall = 0;
        for (;; damping *= 4.0) {
            solve_damped(damping);
            left.assign(step.size(), 0.0);
            hessian.subtract_product(step.data(), left.data());
            promised = 2.0 * product(gradient, step) + product(step, left);
            there = try_part(parameters, 1.0);
            fall = value - there;
            if (fall >= 0.1 * promised || promised <= rounding || !std::isfinite(promised)) break;
        }
        if (!(fall >= 0) || (promised <= rounding && damping > steepness)) {
            model.evaluate(parameters.data());
            return false;
        }
        damping *= fall >= 0.75 * promised ? 0.1 : 0.5;
        parameters.swap(trial);
        value = there;
        return true;
    }
};

}  // namespace fbed
