// Looks at columns that are mostly 0 beside a fit of classes, at the cost of the rows T that they move.
//
// The likelihood is first maximised along x alone, at some b that concerns T only. From there what the coefficients of S can still
// gain is enclosed twice, as docs/engine.md tells ('Classes beside sparse columns'):
//   roughly   the probabilities of T stay at b and the other rows make up for them, in the metric of the fit on S less what T has
//             of it: a product with the factor of S;
//   closely   Newton's step at b, whose Hessian is that of S but for the rows of T.
//
// `Fitted` is the fit on S, `Support` what a column does to its rows; see softmax_support.hpp for what they offer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bounds.hpp"
#include "linear.hpp"
#include "pause.hpp"
#include "race.hpp"
#include "row_entries.hpp"
#include "tiles.hpp"

namespace fbed {

// A factor of a matrix that may have directions without curvature: these are not moved along. Returns the least of the other
// pivots, each relative to its entry on the diagonal.
inline double factorise_curved(Symmetric& A) {
    thread_local std::vector<double> diagonal;
    diagonal.resize(A.size);
    for (int64_t i = 0; i < A.size; ++i) diagonal[i] = A.row(i)[i];
    factorise(A, 0);
    constexpr double kNever = 1e150;
    double least = 1.0;
    for (int64_t i = 0; i < A.size; ++i) {
        double& root = A.row(i)[i];
        const double pivot = diagonal[i] > 0 ? root * root / diagonal[i] : 0.0;
        if (pivot <= 2.0 * kLifted) root = kNever;
        else least = std::min(least, pivot);
    }
    return least;
}

inline double length_of(const std::vector<double>& v) { return std::sqrt(Bends::product(v, v)); }

// What all candidates share.
template <class Fitted>
class LookedFrom {
    static constexpr double kSteady = 1e-6;  // least pivot of a factor that leaves products right to 1e-9
    static constexpr double kSame = 1e-9;

public:
    Fitted fit;
    Symmetric hessian, factor;
    std::vector<double> gradient, leverage, plain;  // plain: factor of the products of the columns of S
    std::vector<double> far, held;                  // largest |z| of a step of length 1 without so many rows, and what those hold of
                                                    // the information
    double short_of = 0;                            // what the fit is short of its maximum, at most
    bool usable = false;

    // `deviance` is what the fit is said to have.
    template <class Rows>
    LookedFrom(const Rows& rows, const double* parameters, double deviance) : fit(rows, parameters) {
        if (!(std::abs(fit.deviance - deviance) <= kSame * std::max(1.0, deviance))) return;
        gradient.resize(fit.size()), leverage.resize(fit.n_rows());
        fit.differentiate(gradient.data(), hessian);
        factor = hessian;
        if (!(factorise_curved(factor) > kSteady) || !multiply_plainly()) return;
        std::vector<double> step = gradient;
        solve_factorised(factor, step.data());
        short_of = 2.0 * std::abs(Bends::product(step, gradient));
        invert();
        usable = std::isfinite(short_of) && short_of < 1e-6;
    }

    // Whether a column is clearly outside the span of S, given its rows: what is left of its square.
    bool apart(const std::vector<int32_t>& rows, const std::vector<double>& x, int64_t count) const {
        constexpr double kClearly = 1e-5;
        const RowEntries& z = fit.entries();
        thread_local std::vector<double> along;
        along.assign(z.k, 0.0);
        double square = 0;
        for (int64_t q = 0; q < count; ++q) {
            const double t = fit.weight(rows[q]) * x[q];
            square += t * x[q];
            for (int64_t e = z.begin[rows[q]]; e < z.begin[rows[q] + 1]; ++e) along[z.column[e]] += t * z.value[e];
        }
        double explained = 0;
        for (int64_t j = 0; j < z.k; ++j) {
            double t = along[j];
            for (int64_t l = 0; l < j; ++l) t -= plain[j * z.k + l] * along[l];
            along[j] = t / plain[j * z.k + j];
            explained += along[j] * along[j];
        }
        return square - explained > kClearly * square;
    }

private:
    bool multiply_plainly() {
        const RowEntries& z = fit.entries();
        plain.assign(z.k * z.k, 0.0);
        for (int64_t i = 0; i < z.n; ++i)
            for (int64_t e = z.begin[i]; e < z.begin[i + 1]; ++e)
                for (int64_t f = z.begin[i]; f <= e; ++f) plain[z.column[e] * z.k + z.column[f]] += fit.weight(i) * z.value[e] * z.value[f];
        return cholesky(plain.data(), z.k) > kSteady;
    }

    void invert() {
        Symmetric inverse;
        inverse.resize(fit.size());
        for (int64_t i = 0; i < fit.size(); ++i) {
            if (i % 16 == 0) look_up();
            inverse.row(i)[i] = 1.0;
            solve_factorised(factor, inverse.row(i));
        }
        fit.look_at_rows(inverse, leverage.data());
        hold_far_rows();
    }

    // The rows that move furthest, as long as they hold less than half of a direction.
    void hold_far_rows() {
        constexpr int64_t kMost = 1024;
        const int64_t count = std::min(kMost, fit.n_rows());
        std::vector<int64_t> order(fit.n_rows());
        for (int64_t i = 0; i < fit.n_rows(); ++i) order[i] = i;
        std::partial_sort(order.begin(), order.begin() + count, order.end(),
                          [&](int64_t i, int64_t l) { return fit.furthest[i] > fit.furthest[l]; });
        double sum = 0;
        for (int64_t q = 0; q < count && sum < 0.5; ++q) {
            far.push_back(fit.furthest[order[q]]), held.push_back(sum);
            sum += leverage[order[q]];
        }
    }
};

template <class Fitted, class Support>
class ClassLooks {
    static constexpr double kRounding = 1e-8, kWay = 1e4, kDigits = 1e-15, kLeft = 1e-17, kCancelled = 1e-4, kPivot = 1e-8, kSolved = 1e-9;
    static constexpr int kRounds = 5;
    static constexpr double kBeyond = 100.0;  // times the deviance: a step from so far tells nothing

    const LookedFrom<Fitted>& from;
    Support support;
    Symmetric hessian, factor, whole;
    std::vector<double> slope, step, rest;
    bool has_step = false;

public:
    explicit ClassLooks(const LookedFrom<Fitted>& shared) : from(shared), support(shared.fit) {}

    // An interval for a column with these values in rows that have a weight; `known` is what is known of it. It is narrowed until
    // it is clear of the line, or below `best`.
    Enclosed look(const std::vector<int32_t>& rows, const std::vector<double>& x, int64_t count, double line, double best, Enclosed known) {
        if (count == 0 || !support.take(rows, x, count)) return known;
        known.lower = std::max(known.lower, support.certain * (1.0 - kRounding) - from.short_of - kRounding);
        const double kept = kept_elsewhere();
        if (!(kept > kCancelled)) {
            look_from_fit(known, line, best);
            if (decided(known, line, best)) return known;
        }
        slope = from.gradient;
        support.move_slope(slope.data());
        look_roughly(known, kept);
        if (!decided(known, line, best)) look_closely(known, line, best);
        return known;
    }

    // Whether the last look went as far as a step, and where that leads: a step of the parameters of S, then coefficients of x.
    bool stepped() const { return has_step; }
    void forget() { has_step = false; }
    void end(double* out) const {
        std::copy_n(step.begin(), from.fit.size(), out);
        support.end(step.data(), out + from.fit.size());
    }

    // An interval for what it costs to take column j of S out: first on its rows alone, then by a step of all others.
    Enclosed leave(int64_t j, const std::vector<int32_t>& rows, const std::vector<double>& x, int64_t count) {
        Enclosed cost{0.0, kInfinite};
        if (!support.leave(j, rows, x, count)) return cost;
        hessian = from.hessian;
        slope = from.gradient;
        support.move_slope(slope.data());
        support.border(hessian, nullptr);
        cost.upper = std::max(0.0, -support.certain * (1.0 + kRounding) + from.short_of + kRounding);
        double missing, decrement, curvature;
        if (-support.gained > kBeyond * std::max(1.0, from.fit.deviance)) return cost;
        if (!solve_without(from.fit.first_of(j), from.fit.coefficients_of_column(), missing, decrement, curvature)) return cost;
        Enclosed found;
        narrow(found, missing, decrement, curvature, support.reach_elsewhere(step.data(), length_of_step(), support.reach(step.data())));
        const double there = support.gained_without(step.data());
        if (there < 0) cost.upper = std::min(cost.upper, -there * (1.0 + kRounding) + from.short_of + kRounding);
        cost.lower = std::max(0.0, -found.upper - support.aside);
        cost.lower = std::min(cost.lower, cost.upper);
        return cost;
    }

private:
    // The Newton step of all coefficients but some, which stay.
    bool solve_without(int64_t first, int64_t count, double& missing, double& decrement, double& curvature) {
        const int64_t K = hessian.size, after = first + count;
        whole.resize(K - count);
        const auto place = [&](int64_t i) { return i < first ? i : i + count; };
        for (int64_t i = 0; i < K - count; ++i)
            for (int64_t l = i; l < K - count; ++l) whole.row(i)[l] = hessian.row(place(i))[place(l)];
        std::swap(hessian, whole);
        slope.erase(slope.begin() + first, slope.begin() + after);
        factor = hessian;
        const bool sound = factorise_curved(factor) > kPivot;
        if (sound) {
            step = slope;
            solve_factorised(factor, step.data());
            correct();
            missing = length_of(rest), decrement = Bends::product(slope, step), curvature = decrement - Bends::product(rest, step);
            step.insert(step.begin() + first, count, 0.0);
        }
        std::swap(hessian, whole);
        return sound && solved(missing, decrement, curvature);
    }

    // Whether what is left of the equations is rounding: directions without curvature that were not moved along have no slope either.
    bool solved(double missing, double decrement, double curvature) const {
        return std::isfinite(decrement) && curvature >= 0 && missing <= kSolved * (length_of(slope) + kSolved * from.fit.total_weight());
    }

    static bool decided(const Enclosed& known, double line, double best) {
        return known.upper <= line || (known.lower > line && (known.upper < best || !std::isfinite(best)));
    }

    double charged(double gained, double promised) const { return kRounding * (1.0 + std::abs(gained) + promised) + from.fit.spent; }

    // What other rows than T have of the information in any direction, at least.
    double kept_elsewhere() const {
        double taken = 0;
        for (int64_t q = 0; q < support.row_count(); ++q) taken += from.leverage[support.row(q)];
        return 1.0 - taken * (1.0 + kRounding);
    }

    // Newton's step with x from the fit on S: the rows T of a column that has many are not moved far, and the factor of S serves.
    void look_from_fit(Enclosed& known, double line, double best) {
        const int64_t K = from.fit.size();
        support.go_to_fit();
        hessian.resize(K + support.own());
        slope = from.gradient;
        slope.resize(hessian.size);
        for (int64_t i = 0; i < K; ++i) std::copy_n(from.hessian.row(i) + i, K - i, hessian.row(i) + i);
        support.border(hessian, slope.data() + K);
        factor = hessian;
        for (int64_t i = 0; i < K; ++i) std::copy_n(from.factor.row(i) + i, K - i, factor.row(i) + i);
        if (is_steady_beside(K)) {
            step = slope;
            solve_factorised(factor, step.data());
            correct();
            const double missing = length_of(rest), decrement = Bends::product(slope, step), curvature = decrement - Bends::product(rest, step);
            const double bar = known.lower > line ? best : line;
            if (solved(missing, decrement, curvature) && decrement < bar) {
                const double here = support.reach(step.data()), harmless = harmless_for(bar, decrement);
                narrow(known, missing, decrement, curvature, support.reach_elsewhere(step.data(), length_of_step(), std::min(here, -harmless)));
            }
        }
        support.return_to_maximum();
    }

    // Factorises what there is beside the first rows, whose factor is there already. Whether it has curvature enough.
    bool is_steady_beside(int64_t known) {
        std::vector<double> diagonal;
        for (int64_t i = known; i < factor.size; ++i) diagonal.push_back(factor.row(i)[i]);
        factorise(factor, known);
        for (int64_t i = known; i < factor.size; ++i) {
            const double root = factor.row(i)[i];
            if (!(root * root > kPivot * diagonal[i - known])) return false;
        }
        return true;
    }

    void look_roughly(Enclosed& known, double kept) {
        if (!(kept > kCancelled) || support.left > kLeft * std::max(1.0, support.gained)) return;
        step = slope, rest = slope;
        solve_factorised(from.factor, step.data());
        from.hessian.subtract_product(step.data(), rest.data());
        if (!solved(length_of(rest), 1.0, 1.0)) return;
        const double missing = length_of(rest), sigma = std::sqrt(std::max(0.0, Bends::product(slope, step))) + 1e4 * std::sqrt(support.left);
        const double most = least_above(sigma, kept);
        if (!std::isfinite(most)) return;
        known.upper = std::min(known.upper, support.gained + most + 2.0 * missing * kWay * std::max(1.0, length_of(step)) + charged(support.gained, most));
    }

    // What other rows than T can gain: those that would move too far stay where they are, and the others make up for that.
    double least_above(double sigma, double kept) const {
        double least = kInfinite;
        for (size_t q = 0; q < from.far.size(); q = q < 4 ? q + 1 : q + q / 4) {
            const double left = kept - from.held[q] * (1.0 + kRounding);
            if (!(left > kCancelled)) break;
            least = std::min(least, sigma * sigma / left * from.fit.above(sigma / left, from.far[q]));
        }
        return least;
    }

    void look_closely(Enclosed& known, double line, double best) {
        const int64_t K = from.fit.size(), size = K + support.own();
        hessian.resize(size);
        for (int64_t i = 0; i < K; ++i) std::copy_n(from.hessian.row(i) + i, K - i, hessian.row(i) + i);
        slope.resize(size);
        support.border(hessian, slope.data() + K);
        factor = hessian;
        if (!(factorise_curved(factor) > kPivot)) return;
        step = slope;
        solve_factorised(factor, step.data());
        correct();
        const double missing = length_of(rest), decrement = Bends::product(slope, step), curvature = decrement - Bends::product(rest, step);
        if (!solved(missing, decrement, curvature)) return;
        has_step = true;
        const double length = length_of_step(), here = support.reach(step.data());
        narrow(known, missing, decrement, curvature, std::min(here, -from.fit.kappa * length));
        if (decided(known, line, best)) return;
        const double harmless = harmless_for(std::isfinite(best) ? best : line, decrement);
        narrow(known, missing, decrement, curvature, support.reach_elsewhere(step.data(), length, std::min(here, -harmless)));
        if (decided(known, line, best)) return;
        const double there = support.gained_by(step.data());  // which may be nothing
        if (there > 0) known.lower = std::max(known.lower, there * (1.0 - kRounding) - from.short_of - kRounding);
        if (!decided(known, line, best)) freeze(known, line, best);
    }

    // Where the step takes probabilities below 0, these are set to 0 at a price, and the step is solved again without them; the first
    // step stays.
    void freeze(Enclosed& known, double line, double best) {
        const double target = known.lower > line ? best : line;
        const std::vector<double> first = step;
        double price = 0;
        for (int round = 0; round < kRounds; ++round) {
            price += support.freeze(step.data(), length_of_step(), round == 0 ? -0.7 : -0.95, hessian, slope.data());
            if (!(support.gained + price < target)) break;
            factor = hessian;
            if (!(factorise_curved(factor) > kPivot)) break;
            step = slope;
            solve_factorised(factor, step.data());
            correct();
            const double missing = length_of(rest), decrement = Bends::product(slope, step), curvature = decrement - Bends::product(rest, step);
            if (!solved(missing, decrement, curvature)) break;
            Enclosed found;
            narrow(found, missing, decrement, curvature, support.reach_elsewhere(step.data(), length_of_step(), support.reach(step.data())));
            known.upper = std::min(known.upper, found.upper + price);
            if (std::isfinite(found.upper)) break;
        }
        step = first;
    }

    // How far rows may move without changing the answer.
    double harmless_for(double bar, double decrement) const {
        for (const double far : {0.99, 0.9, 0.7, 0.5, 0.3, 0.1, 0.03})
            if ((support.gained + decrement * P(-far)) * (1.0 + 1e-6) + from.fit.spent < bar) return far;
        return 0.0;
    }

    void narrow(Enclosed& known, double missing, double decrement, double curvature, double low) const {
        const double rounding = charged(support.gained, decrement) + uncertainty();
        const double most = curvature * support.above(low, step.data()) + 2.0 * missing * kWay * std::max(1.0, length_of(step)) + rounding;
        known.upper = std::min(known.upper, support.gained + most);
    }

    // One step of iterative refinement, and what is left of the equations.
    void correct() {
        rest = slope;
        hessian.subtract_product(step.data(), rest.data());
        std::vector<double> more = rest;
        solve_factorised(factor, more.data());
        for (size_t i = 0; i < step.size(); ++i) more[i] += step[i];
        std::vector<double> again = slope;
        hessian.subtract_product(more.data(), again.data());
        if (length_of(again) < length_of(rest)) step.swap(more), rest.swap(again);
    }

    // Of the part of the step that S has, in the metric of the fit on S.
    double length_of_step() const {
        std::vector<double> own(step.begin(), step.begin() + from.fit.size()), product(own.size(), 0.0);
        from.hessian.subtract_product(own.data(), product.data());
        return std::sqrt(std::max(0.0, -Bends::product(own, product)));
    }

    // What rounding of the Hessian and the gradient does to long steps in directions of little curvature.
    double uncertainty() const {
        double spread = 0, reached = 0;
        for (size_t i = 0; i < step.size(); ++i) {
            spread += std::abs(step[i]) * std::sqrt(std::max(0.0, hessian.row(i)[i]));
            reached += std::abs(step[i]);
        }
        return kDigits * (spread * spread + from.fit.total_weight() * reached);
    }
};

}  // namespace fbed
