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

public:
    Fitted fit;
    Symmetric hessian, factor;
    std::vector<double> gradient, leverage, plain;  // plain: factor of the products of the columns of S
    double short_of = 0;                            // what the fit is short of its maximum, at most
    bool usable = false;

    template <class... Arguments>
    explicit LookedFrom(Arguments&&... arguments) : fit(std::forward<Arguments>(arguments)...) {
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
    }
};

template <class Fitted, class Support>
class ClassLooks {
    static constexpr double kRounding = 1e-8, kWay = 1e4, kDigits = 1e-15, kLeft = 1e-17, kCancelled = 1e-4, kPivot = 1e-8;

    const LookedFrom<Fitted>& from;
    Support support;
    Symmetric hessian, factor;
    std::vector<double> slope, step, rest;

public:
    explicit ClassLooks(const LookedFrom<Fitted>& shared) : from(shared), support(shared.fit) {}

    // An interval for a column with these values in rows that have a weight; `known` is what is known of it. It is narrowed until
    // it is clear of the line, or below `best`.
    Enclosed look(const std::vector<int32_t>& rows, const std::vector<double>& x, int64_t count, double line, double best, Enclosed known) {
        if (count == 0 || !support.take(rows, x, count)) return known;
        slope = from.gradient;
        support.move_slope(slope.data());
        known.lower = std::max(known.lower, support.certain * (1.0 - kRounding) - from.short_of - kRounding);
        look_roughly(known);
        if (!decided(known, line, best)) look_closely(known, line, best);
        return known;
    }

private:
    static bool decided(const Enclosed& known, double line, double best) {
        return known.upper <= line || (known.lower > line && known.upper < best);
    }

    double charged(double gained, double promised) const { return kRounding * (1.0 + std::abs(gained) + promised) + from.fit.spent; }

    void look_roughly(Enclosed& known) {
        double taken = 0;
        for (int64_t q = 0; q < support.row_count(); ++q) taken += from.leverage[support.row(q)];
        const double kept = 1.0 - taken * (1.0 + kRounding);
        if (!(kept > kCancelled) || support.left > kLeft * std::max(1.0, support.gained)) return;
        step = slope, rest = slope;
        solve_factorised(from.factor, step.data());
        from.hessian.subtract_product(step.data(), rest.data());
        const double missing = length_of(rest), sigma = std::sqrt(std::max(0.0, Bends::product(slope, step))) + 1e4 * std::sqrt(support.left);
        const double most = sigma * sigma / kept * from.fit.above(sigma / kept);
        if (!std::isfinite(most)) return;
        known.upper = std::min(known.upper, support.gained + most + 2.0 * missing * kWay * std::max(1.0, length_of(step)) + charged(support.gained, most));
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
        if (!(std::isfinite(decrement) && std::isfinite(missing) && curvature >= 0)) return;
        double low = 0, high = 0;
        support.reach(step.data(), low, high);
        const double furthest = from.fit.kappa * length_of_step();
        narrow(known, missing, decrement, curvature, std::min(low, -furthest));
        if (decided(known, line, best)) return;
        support.reach_elsewhere(step.data(), low, high);
        narrow(known, missing, decrement, curvature, low);
        if (decided(known, line, best)) return;
        const double there = support.gained_by(step.data());  // which may be nothing
        if (there > 0) known.lower = std::max(known.lower, there * (1.0 - kRounding) - from.short_of - kRounding);
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
