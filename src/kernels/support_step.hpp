// Brackets of a column that is mostly 0, from Newton's step where it fits best alone, and from another one after it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "bounds.hpp"
#include "changed_curvature.hpp"
#include "elementary.hpp"
#include "linear.hpp"
#include "logistic.hpp"
#include "processors.hpp"
#include "support.hpp"

namespace fbed {

// The bracket of `bracket_support` from the exact Newton step at (0, b): C = I - sum_T a(w0 - w_b)gg' - cc'/I_b is the curvature there. The step, on G
// and, last, on x, is left in `step`.
class SupportStep {
   public:
    SupportStep(const Null& f, const Support& s, Work& work)
        : f_(f), s_(s), work_(work), gone_(s.m, 0), z_(s.m, 0.0), curvature_(f.r, f.stride, work.curvature.data(), work.hess.data()) {}

    bool usable = false;  // whether there is such a step

    // `sum` is what `bracket_support` has left; the aim is an upper bound that would settle it.
    FBED_HOT Interval bracket(const double* sum, double aim) {
        Interval out{2.0 * s_.gain, std::numeric_limits<double>::infinity()};
        slope_ = s_.slope;
        usable = collect() && solve(sum);
        if (!usable) return out;
        Extremes z = on_support();
        own_rows_stay_ = z.min >= -1.0;
        const double spare = own_rows_stay_ ? harmless(aim) : 0.0;
        if (!look_by_norm(f_, work_.step.data(), size(), spare, z.min, z.max, idle_step_)) look_at_all(z);
        const double sure = (2.0 * s_.gain + P(z.max) * decrement_) * (1.0 - kSlack) - f_.idle_loss(idle_step_);
        all_stay_ = z.min >= -1.0;
        if (all_stay_) out.upper = f_.clip((2.0 * s_.gain + P(z.min) * decrement_) * (1.0 + kSlack));
        out.lower = s_.conflict ? 0.0 : std::min(std::max(sure, 0.0), out.upper);
        return out;
    }

    // Whether the step promises a statistic below the aim.
    bool promises(double aim) const { return usable && f_.clip(2.0 * s_.gain + decrement_) < aim; }

    // The same from where the step leads, by another step with the curvature of the first: weights that are not those of the
    // rows any more are exact in a dual point as long as its equations have them, too.
    Interval again() {
        looked_at_all_ = false;
        const double gained = evaluate_after_step(), lost = idle_loss_after_step();
        pull_.assign(f_.stride, 0.0);
        f_.products(work_.values.data(), pull_.data());
        take_second_step(slope_after_step());
        const double attained = (base() + 2.0 * gained) * (1.0 - kSlack) - 2.0 * lost - 2.0 * f_.blur * reach_ * score_size();
        Interval out{s_.conflict ? 0.0 : std::max(attained, 0.0), upper_after_second_step(base() + 2.0 * gained)};
        out.lower = std::min(out.lower, out.upper);
        return out;
    }

    // Upper bound by the step of the model without the rows that a step takes beyond their side: they are set to their
    // outcome, which gains what they have left. The first step is left as it was.
    double without_rows(const double* sum, double aim) {
        constexpr double none = std::numeric_limits<double>::infinity();
        // with many columns to refit, a refinement costs less than trying without rows of T
        if (!usable || all_stay_ || !(own_rows_stay_ || f_.sparse) || !promises(aim)) return none;
        const std::vector<double> first = work_.step;
        const double decrement = decrement_;
        left_.assign(sum, sum + f_.stride);
        double cost = 0, upper = none;
        if (!looked_at_all_) least_z();
        for (int attempt = 0; attempt < 3; ++attempt) {
            cost += leave_out_rows_beyond();
            if (!(2.0 * s_.gain + cost + decrement_ < aim)) break;
            if (!collect() || !solve(left_.data())) break;
            const double least = std::min(on_support().min, least_z());
            if (!(least >= -1.0)) continue;
            upper = f_.clip((2.0 * s_.gain + cost + P(least) * decrement_) * (1.0 + kSlack));
            break;
        }
        work_.step = first;
        decrement_ = decrement;
        return upper;
    }

   private:
    // What C differs in from I: the rows of T, whose curvature is another at b and none where they are left out, other rows that
    // are left out, and c. False when every row of T is saturated, and yet they disagree.
    FBED_HOT bool collect() {
        const int64_t stride = f_.stride;
        double* c = work_.theta.data();
        std::fill(c, c + stride, 0.0);
        own_ = 0;
        curvature_.changes.clear();
        bool some = false;
        for (int64_t i = 0; i < s_.m; ++i) {
            const int64_t row = s_.rows[i];
            if (f_.a[row] == 0.0) continue;
            const double wb = gone_[i] ? 0.0 : s_.mean[i] * (1.0 - s_.mean[i]), q = f_.a[row] * wb * s_.x[i];
            curvature_.changes.push_back({f_.row(row), f_.a[row] * (f_.w[row] - wb)});
            some = some || !gone_[i];
            if (q == 0.0) continue;
            add_row(c, q, f_.row(row), stride);
            own_ += q * s_.x[i];
        }
        for (int64_t row : outside_) curvature_.changes.push_back({f_.row(row), f_.a[row] * f_.w[row]});
        moves_ = !s_.pure && own_ > 0;
        if (moves_) curvature_.changes.push_back({c, 1.0 / own_});
        return s_.pure || moves_ || !some;
    }

    // C e = right, where right = -sum - c·slope/I_b; sets the decrement.
    bool solve(const double* sum) {
        const int64_t r = f_.r;
        double *e = work_.step.data(), *right = work_.theta_from.data();
        const double* c = work_.theta.data();
        const double slope = moves_ ? slope_ / own_ : 0.0;
        std::fill(work_.step.begin(), work_.step.end(), 0.0);
        std::fill(right, right + f_.stride, 0.0);
        for (int64_t k = 0; k < r; ++k) right[k] = -sum[k] - c[k] * slope;
        if (!curvature_.factorise()) return false;
        curvature_.solve(right, e);
        double along = 0;
        decrement_ = slope * slope * own_;
        for (int64_t k = 0; k < r; ++k) {
            decrement_ += right[k] * e[k];
            along += c[k] * e[k];
        }
        e[r] = moves_ ? slope - along / own_ : 0.0;
        return true;
    }

    // What x gains on rows that no step moves.
    double base() const { return s_.pure ? 2.0 * s_.gain : 0.0; }

    // The log-likelihood that the step gains over active rows, those of a pure T apart; means, curvatures and scores there.
    FBED_HOT double evaluate_after_step() {
        double *v = work_.v.data(), *mean = work_.mu.data(), *curvature = work_.w.data(), *score = work_.values.data();
        double *active = work_.kept.data(), *left = work_.left.data();
        const double *sign = f_.sign, *eta = f_.eta, *dev = f_.dev;
        std::fill(v, v + f_.n, 0.0);
        f_.add(work_.step.data(), v);
        std::copy_n(f_.a, f_.n, active);
        for (int64_t i = 0; i < s_.m; ++i) {
            if (s_.pure)
                active[s_.rows[i]] = v[s_.rows[i]] = 0.0;
            else
                v[s_.rows[i]] += (s_.b + work_.step[f_.r]) * s_.x[i];
        }
        double gain = 0, most = 0;
#pragma omp simd reduction(+ : gain) reduction(max : most)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double m = sign[i] * (eta[i] + v[i]), e = exp_of_negative(-std::abs(m)), one = 1.0 / (1.0 + e);
            const double right = m >= 0 ? one : e * one, wrong = m >= 0 ? e * one : one;
            mean[i] = sign[i] > 0 ? right : wrong;
            curvature[i] = right * wrong;
            score[i] = active[i] * sign[i] * wrong;
            left[i] = log1p_of_unit(e) - std::min(m, 0.0);
            gain += active[i] * (dev[i] - left[i]);
            most = std::max(most, std::abs(m));
        }
        reach_ = most;
        return gain;
    }

    // What idle rows lose by the step; those of a pure T are explained whatever it does.
    double idle_loss_after_step() const {
        if (!f_.has_idle) return 0.0;
        double lost = 0;
        for (int64_t i = 0; i < f_.n; ++i)
            if (f_.a[i] == 0.0) lost += f_.weight[i] * (work_.left[i] - f_.dev[i]);
        for (int64_t i = 0; i < s_.m && s_.pure; ++i)
            if (f_.a[s_.rows[i]] == 0.0) lost -= f_.weight[s_.rows[i]] * (work_.left[s_.rows[i]] - f_.dev[s_.rows[i]]);
        return std::max(lost, 0.0);
    }

    double score_size() const {
        double sum = 0;
        for (int64_t i = 0; i < f_.n; ++i) sum += std::abs(work_.values[i]);
        return sum;
    }

    double slope_after_step() const {
        double slope = 0;
        for (int64_t i = 0; moves_ && i < s_.m; ++i) slope += work_.values[s_.rows[i]] * s_.x[i];
        return slope;
    }

    // How far a step with the curvature of the first moves every row; their scores on G are in `pull_`.
    void take_second_step(double slope) {
        const double* c = work_.theta.data();
        const double by = moves_ ? slope / own_ : 0.0;
        double *right = work_.theta_from.data(), *v = work_.dir.data(), along = 0;
        std::fill(right, right + f_.stride, 0.0);
        for (int64_t k = 0; k < f_.r; ++k) right[k] = pull_[k] - c[k] * by;
        filled_.assign(f_.stride, 0.0);
        curvature_.solve(right, filled_.data());
        for (int64_t k = 0; k < f_.r; ++k) along += c[k] * filled_[k];
        const double last = moves_ ? by - along / own_ : 0.0;
        std::fill(v, v + f_.n, 0.0);
        f_.add(filled_.data(), v);
        for (int64_t i = 0; i < s_.m; ++i) {  // in units of the curvature that other rows have
            const int64_t row = s_.rows[i];
            const double own = s_.pure ? 0.0 : s_.mean[i] * (1.0 - s_.mean[i]);
            v[row] = f_.a[row] > 0 && f_.w[row] > 0 ? (v[row] + last * s_.x[i]) * own / f_.w[row] : 0.0;
        }
    }

    FBED_HOT double upper_after_second_step(double gained) const {
        const double *a = work_.kept.data(), *w0 = f_.w, *v = work_.dir.data(), *mean = work_.mu.data(), *w = work_.w.data(), *score = work_.values.data();
        double least = 0, sum = 0, pull = 0;
#pragma omp simd reduction(min : least) reduction(+ : sum, pull)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double shift = a[i] > 0 ? w0[i] * v[i] : 0.0;
            least = std::min(least, std::min(shift / std::max(mean[i], 1e-300), -shift / std::max(1.0 - mean[i], 1e-300)));
            sum += a[i] * shift * shift / std::max(w[i], 1e-300);
            pull += std::abs(score[i]) + a[i] * std::abs(shift);
        }
        if (!(least >= -1.0) || !std::isfinite(sum)) return std::numeric_limits<double>::infinity();
        return f_.clip(gained + P(least) * sum * (1.0 + kSlack) + 2.0 * f_.blur * reach_ * pull) * (1.0 + 1e-12);
    }

    double size() const {
        return std::sqrt(std::inner_product(work_.step.begin(), work_.step.begin() + f_.r, work_.step.begin(), 0.0));
    }

    // How far rows may move and leave the upper bound below the aim; 0 where it is not going to be there.
    double harmless(double aim) const {
        for (double z : {1.0, 0.5, 0.2})
            if (f_.clip((2.0 * s_.gain + P(-z) * decrement_) * (1.0 + kSlack)) < aim) return z;
        return 0.0;
    }

    // Extremes of z on the rows of T that stay; pure ones are at their outcome for good.
    FBED_HOT Extremes on_support() {
        Extremes z;
        const double last = work_.step[f_.r];
        filled_.assign(f_.stride, 0.0);
        std::copy_n(work_.step.data(), f_.r, filled_.data());
        idle_step_ = 0;
        for (int64_t i = 0; i < s_.m && !s_.pure; ++i) {
            if (gone_[i]) continue;
            const int64_t row = s_.rows[i];
            const double v = row_product(f_.row(row), filled_.data(), f_.stride) + last * s_.x[i], m = s_.mean[i];
            if (f_.a[row] == 0.0) {
                idle_step_ = std::max(idle_step_, std::abs(v) + std::abs(s_.b * s_.x[i]));
            } else {
                z_[i] = std::min((1.0 - m) * v, -m * v);
                z.min = std::min(z.min, z_[i]);
                z.max = std::max(z.max, std::max((1.0 - m) * v, -m * v));
            }
        }
        return z;
    }

    // Rows that come near 0 in the dual point are left out of it; returns what they have left.
    double leave_out_rows_beyond() {
        double cost = 0;
        for (int64_t i = 0; i < s_.m && !s_.pure; ++i) {
            const int64_t row = s_.rows[i];
            if (gone_[i] || f_.a[row] == 0.0 || !(z_[i] < kNearlyOut)) continue;
            const double y = f_.sign[row] > 0 ? 1.0 : 0.0, pull = f_.a[row] * (y - s_.mean[i]);
            gone_[i] = 1;
            cost += 2.0 * f_.a[row] * loss(f_.sign[row] * (f_.eta[row] + s_.b * s_.x[i]));
            slope_ -= pull * s_.x[i];
            add_row(left_.data(), pull, f_.row(row), f_.stride);
        }
        const double* z = work_.values.data();
        for (int64_t row = 0; row < f_.n; ++row) {
            if (!(z[row] < kNearlyOut)) continue;
            outside_.push_back(row);
            cost += 2.0 * f_.a[row] * f_.dev[row];
            add_row(left_.data(), f_.a[row] * f_.res[row], f_.row(row), f_.stride);
        }
        return cost;
    }

    // Extremes of z of all rows but those of T.
    FBED_HOT void look_at_all(Extremes& z) {
        z.min = std::min(z.min, least_z());
        looked_at_all_ = true;
        const double *a = f_.a, *mu = f_.mu, *v = work_.dir.data();
        double most = 0, idle = 0;
#pragma omp simd reduction(max : most, idle)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double step = a[i] > 0 ? v[i] : 0.0;
            most = std::max(most, std::max((1.0 - mu[i]) * step, -mu[i] * step));
            idle = std::max(idle, std::abs(v[i] - step));
        }
        z.max = std::max(z.max, most);
        idle_step_ = std::max(idle_step_, idle);
    }

    // z of all rows but those of T, which are looked at by themselves, and those that are left out; returns the least.
    FBED_HOT double least_z() {
        double *v = work_.dir.data(), *z = work_.values.data(), least = 0;
        const double *a = f_.a, *mu = f_.mu;
        std::fill(v, v + f_.n, 0.0);
        f_.add(work_.step.data(), v);
        for (int64_t i = 0; i < s_.m; ++i) v[s_.rows[i]] = 0.0;
        for (int64_t row : outside_) v[row] = 0.0;
#pragma omp simd reduction(min : least)
        for (int64_t i = 0; i < f_.n; ++i) {
            z[i] = a[i] > 0 ? std::min((1.0 - mu[i]) * v[i], -mu[i] * v[i]) : 0.0;
            least = std::min(least, z[i]);
        }
        return least;
    }

    const Null& f_;
    const Support& s_;
    Work& work_;
    double own_ = 0, slope_ = 0, decrement_ = 0, idle_step_ = 0;
    double reach_ = 0;  // largest linear predictor, in size
    bool moves_ = false, looked_at_all_ = false, own_rows_stay_ = false, all_stay_ = false;
    std::vector<char> gone_;  // rows of T that are left out
    std::vector<double> z_;   // of the rows of T
    std::vector<int64_t> outside_;  // other rows that are left out
    ChangedCurvature curvature_;
    std::vector<double> left_, filled_, pull_;
};

}  // namespace fbed
