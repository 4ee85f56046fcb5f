// One candidate, refined until a question about its statistic is answered.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "bounds.hpp"
#include "elementary.hpp"
#include "processors.hpp"
#include "linear.hpp"
#include "logistic.hpp"
#include "pause.hpp"

namespace fbed {

// Newton's steps are halved as often as this: a saturated outlier has no curvature to show that a step goes too far.
constexpr double kShortest = 1e-12;

// Steps of a refinement.
constexpr int kMost = 60;

// What rows that are left out must leave of each direction, beside rounding.
constexpr double kLeast = 1e-4;

// One candidate on its way to a decision: eta + v, v = G theta + b x. Without x only theta moves. Where the model's columns are
// mostly 0, theta is theirs, and G stands for them.
class Refinement {
   public:
    Refinement(const Null& f, Work& work, const double* a, const double* x, double norm, double base_gain)
        : f_(f), k_(work), a_(a), x_(x), norm_(norm), base_(base_gain), blur_(f.blur) {
        std::fill(k_.theta.begin(), k_.theta.end(), 0.0);
        std::fill(k_.v.begin(), k_.v.end(), 0.0);
        size_ = x ? f.r + 1 : f.r;
    }

    // Where x is what the model has left of a column that was so many times as long, it has as much more of its rounding.
    void allow_for_rounding(double times) { blur_ = std::max(blur_, kBlur * times); }

    // Start at v = b·x, which has been found already; x need not be orthogonal to G then.
    void start_at(double b) {
        k_.theta[f_.r] = b;
        for (int64_t i = 0; i < f_.n; ++i) k_.v[i] = b * x_[i];
        started_ = true;
    }

    // And go on by a step that has been found already, if it leads above the log-likelihood that is gained here.
    void try_step(const std::vector<double>& step, double gained) {
        f_.sparse ? f_.sparse->on_terms(step.data(), k_.step.data()) : (void)std::copy_n(step.begin(), f_.r, k_.step.begin());
        if (x_) k_.step[f_.r] = step[f_.r];
        direction();
        remember();
        value_ = at(1.0);
        if (!(value_ >= gained)) value_ = at(0.0);
        started_ = evaluated_ = true;
    }

    Interval run(const Question& question, const Interval& known) {
        Interval out = known;
        if (x_ && !started_) start_along_x();
        double value = evaluated_ ? value_ : evaluate();
        bool stale = !started_ && a_ == f_.a;
        for (int iteration = 0; iteration < kMost; ++iteration) {
            look_up();
            iterations = iteration;
            if (separated_) return {f_.deviance, f_.deviance};
            out.lower = std::max(out.lower, std::min(attained(value), out.upper));
            if (!question.resolve && question.settled(out)) return out;
            gradient();
            double gap = stale ? stale_gap() : newton_gap(out, value);
            gap += blurred(k_.values.data(), stale ? f_.w : k_.w.data(), a_);
            if (stale && gap == std::numeric_limits<double>::infinity()) {
                out.upper = std::min(out.upper, std::max(out.lower, stale_upper_without_rows(value, question.aim())));
                if (question.settled(out)) return out;
            }
            stale = false;
            if (!std::isfinite(decrement_)) return out;  // no step could be found: the caller fits the model instead
            if (gap < std::numeric_limits<double>::infinity())
                out.upper = std::min(out.upper, f_.clip(base_ + 2.0 * value + gap) * (1.0 + 1e-12));
            out.upper = std::max(out.upper, out.lower);
            if (question.settled(out) || is_stuck(iteration)) return out;
            const bool last = decrement_ <= 1e-13 * std::max(1.0, out.lower);
            if (last || gap == std::numeric_limits<double>::infinity()) {
                const double without = upper_without_rows(value, last ? std::numeric_limits<double>::infinity() : question.aim());
                out.upper = std::min(out.upper, std::max(out.lower, without));
                if (last || question.settled(out)) return out;
            }
            value = advance(value);
            if (lost_) return out;
        }
        return out;
    }

    int iterations = 0;

    // The linear predictor where the refinement ended.
    void predictor(double* out) const {
        for (int64_t i = 0; i < f_.n; ++i) out[i] = f_.eta[i] + k_.v[i];
    }

   private:
    // Newton's steps gain less and less, towards a maximum and towards infinity alike. Those that do not go in a direction
    // that rounding hides; the caller fits the model instead.
    bool is_stuck(int iteration) {
        const double before = recent_[iteration % 3];
        recent_[iteration % 3] = decrement_;
        return iteration >= 12 && decrement_ > 0.5 * before;
    }

    // 1-D Newton on b: the best start that costs no product with G.
    FBED_HOT void start_along_x() {
        const double *eta = f_.eta, *sign = f_.sign, *a = a_, *x = x_;
        double b = 0, low = -std::numeric_limits<double>::infinity(), high = -low;
        double reach = 0;
        for (int64_t i = 0; i < f_.n; ++i)
            if (a_[i] > 0) reach = std::max(reach, std::abs(x_[i]));
        for (int it = 0; it < 8; ++it) {
            double g = 0, h = 0;
#pragma omp simd reduction(+ : g, h)
            for (int64_t i = 0; i < f_.n; ++i) {
                const double m = logistic(eta[i] + b * x[i]);
                const double y = sign[i] > 0 ? 1.0 : 0.0;
                g += a[i] * (y - m) * x[i];
                h += a[i] * m * (1.0 - m) * x[i] * x[i];
            }
            (g > 0 ? low : high) = b;
            double d = g / std::max(h, 1e-300);
            d = std::clamp(d, -4.0 / reach, 4.0 / reach);
            double next = b + d;
            if (next <= low || next >= high) next = 0.5 * (low + high);
            const bool done = g * g <= 1e-6 * h;
            b = next;
            if (done) break;
        }
        k_.theta[f_.r] = b;
        for (int64_t i = 0; i < f_.n; ++i) k_.v[i] = b * x_[i];
    }

    // mu, w at eta + v; returns the gain in log-likelihood over the active rows.
    FBED_HOT double evaluate() {
        double gain = 0, least = std::numeric_limits<double>::infinity(), most = 0;
        const double *sign = f_.sign, *eta = f_.eta, *dev = f_.dev, *a = a_, *null_a = f_.a;
        double *margin = k_.margin.data(), *mu = k_.mu.data(), *w = k_.w.data(), *aw = k_.aw.data(), *score = k_.values.data(), *left = k_.left.data();
        const double* v = k_.v.data();
        const bool watch_idle = f_.has_idle;
#pragma omp simd reduction(+ : gain) reduction(min : least) reduction(max : most)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double m = sign[i] * (eta[i] + v[i]);
            const double e = exp_of_negative(-std::abs(m)), one = 1.0 / (1.0 + e);
            const double right = m >= 0 ? one : e * one, wrong = m >= 0 ? e * one : one;
            margin[i] = m;
            mu[i] = sign[i] > 0 ? right : wrong;
            w[i] = right * wrong;
            aw[i] = a[i] * right * wrong;
            score[i] = a[i] * sign[i] * wrong;  // a (y - mu)
            left[i] = log1p_of_unit(e) - std::min(m, 0.0);
            gain += a[i] * (dev[i] - left[i]);
            // rows left out by this candidate, or secured, are explained whatever theta is
            const bool counts = a[i] > 0 || (null_a[i] == 0.0 && watch_idle);
            least = std::min(least, counts ? m : least);
            most = std::max(most, m);
        }
        separated_ = least > kClear * std::max(1.0, most) &&
                     columns_separate(
                         f_, most, [&](int64_t i) { return a_[i] > 0 || (null_a[i] == 0.0 && watch_idle); },
                         [&](int64_t i) { return eta[i] + v[i]; });
        reach_ = std::max(most, -least);
        return gain;
    }

    // What the coefficients attain over all rows: the idle rows may have lost something. Far out, rounding tells rows apart
    // that are equal but for their class, and what it seems to gain by that is taken off.
    double attained(double gain) const {
        double lost = 0, pull = 0;
        for (int64_t i = 0; i < f_.n; ++i) pull += std::abs(k_.values[i]);
        gain -= pull * blur_ * reach_;
        if (f_.has_idle) {
            for (int64_t i = 0; i < f_.n; ++i)
                if (f_.a[i] == 0.0 && a_[i] == 0.0) lost += f_.weight[i] * (k_.left[i] - f_.dev[i]);
        }
        return base_ + 2.0 * gain - 2.0 * std::max(lost, 0.0);
    }

    // A dual point bounds the likelihood of every model in the span of the columns. Far out, rounding has taken the linear predictor
    // out of that span, and its own likelihood is off by as much as this, times the residuals of the dual point. `weight`·c is what
    // the step moves the rows by.
    double blurred(const double* score, const double* c, const double* weight) const {
        double pull = 0;
        for (int64_t i = 0; i < f_.n; ++i) pull += std::abs(score[i]) + (weight ? weight[i] : 1.0) * c[i] * std::abs(k_.dir[i]);
        return 2.0 * blur_ * reach_ * pull;
    }

    // Rows that do not count have score 0.
    FBED_HOT void gradient() {
        f_.term_products(k_.values.data(), k_.grad.data());
        double along = 0;
        if (x_) {
            const double* score = k_.values.data();
#pragma omp simd reduction(+ : along)
            for (int64_t i = 0; i < f_.n; ++i) along += score[i] * x_[i];
        }
        k_.grad[f_.r] = along;
    }

    FBED_HOT void direction() {
        double* dir = k_.dir.data();
        const double* d = k_.step.data();
        if (x_) {
#pragma omp simd
            for (int64_t i = 0; i < f_.n; ++i) dir[i] = d[f_.r] * x_[i];
        } else {
            std::fill(dir, dir + f_.n, 0.0);
        }
        f_.add_terms(d, dir);
    }

    // Dual point mu + w0·dir with the weights of the null fit: exact, because [G x] is orthogonal in those weights.
    FBED_HOT double stale_gap() {
        const int64_t r = f_.r;
        if (f_.sparse) {
            f_.sparse->on_basis(k_.grad.data(), k_.step.data());
            const std::vector<double> along(k_.step.begin(), k_.step.begin() + r);
            f_.sparse->on_terms(along.data(), k_.step.data());
        } else {
            std::copy_n(k_.grad.begin(), r, k_.step.begin());
        }
        k_.step[r] = x_ ? k_.grad[r] / norm_ : 0.0;
        decrement_ = 0;
        for (int64_t k = 0; k < size_; ++k) decrement_ += k_.grad[k] * k_.step[k];
        direction();
        const double *a = a_, *w0 = f_.w, *dir = k_.dir.data(), *mu = k_.mu.data(), *w = k_.w.data();
        double z_min = 0, sum = 0;
#pragma omp simd reduction(min : z_min) reduction(+ : sum)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double shift = a[i] > 0 ? w0[i] * dir[i] : 0.0;
            z_min = std::min(z_min, std::min(shift / std::max(mu[i], 1e-300), -shift / std::max(1.0 - mu[i], 1e-300)));
            sum += a[i] * shift * shift / std::max(w[i], 1e-300);
        }
        return z_min >= -1.0 && std::isfinite(sum) ? P(z_min) * sum * (1.0 + kSlack) : std::numeric_limits<double>::infinity();
    }

    // The same without rows that a step takes beyond their side: they are set to their outcome, and what is left of [G x] is
    // orthogonal but for these few, as long as they are few. Given up where not even the promise of a step would take the
    // bound below the aim. The step itself is left as it was.
    double stale_upper_without_rows(double value, double aim) {
        constexpr double none = std::numeric_limits<double>::infinity();
        const std::vector<double> grad(k_.grad), step(k_.step), dir(k_.dir);
        const double decrement = decrement_;
        std::vector<int64_t> out;
        double upper = none, cost = 0;
        std::vector<double>&kept = k_.kept, &score = k_.score;
        for (int64_t i = 0; i < f_.n; ++i) kept[i] = a_[i] > 0 ? 1.0 : 0.0, score[i] = k_.values[i];
        for (int attempt = 0; attempt < 3; ++attempt) {
            const size_t before = out.size();
            for (int64_t i = 0; i < f_.n; ++i)
                if (kept[i] > 0 && !(stale_z(i) >= kNearlyOut)) {
                    out.push_back(i);
                    cost += 2.0 * a_[i] * k_.left[i];
                    kept[i] = score[i] = 0.0;
                }
            const bool small = 2 * out.size() <= static_cast<size_t>(f_.r) && out.size() > before;
            if (!small || !(base_ + 2.0 * value + cost + decrement_ < aim) || !step_without(out)) break;
            double least = 0, sum = 0;
            for (int64_t i = 0; i < f_.n; ++i) {
                if (!(kept[i] > 0)) continue;
                const double shift = f_.w[i] * k_.dir[i];
                least = std::min(least, stale_z(i));
                sum += a_[i] * shift * shift / std::max(k_.w[i], 1e-300);
            }
            if (!(least >= -1.0)) continue;
            if (std::isfinite(sum)) upper = f_.clip(base_ + 2.0 * value + cost + P(least) * sum * (1.0 + kSlack) + blurred(score.data(), f_.w, a_));
            break;
        }
        k_.grad = grad, k_.step = step, k_.dir = dir;
        decrement_ = decrement;
        return upper;
    }

    // What the stale step does to a row beside what it has left.
    double stale_z(int64_t i) const {
        const double shift = f_.w[i] * k_.dir[i];
        return std::min(shift / std::max(k_.mu[i], 1e-300), -shift / std::max(1.0 - k_.mu[i], 1e-300));
    }

    // The step of the scores without some rows, of which those in `score` are 0: [G x] loses what these have of it. False where
    // that is next to everything in some direction.
    FBED_HOT bool step_without(const std::vector<int64_t>& rows) {
        const int64_t m = static_cast<int64_t>(rows.size()), r = f_.r, size = whole(r + 1);
        std::vector<double> B(m * size, 0.0), A(m * m), right(size, 0.0), along(m);
        const double unit = x_ ? 1.0 / std::sqrt(norm_) : 0.0;
        f_.products(k_.score.data(), right.data());
        right[r] = x_ ? unit * std::inner_product(k_.score.begin(), k_.score.begin() + f_.n, x_, 0.0) : 0.0;
        for (int64_t i = 0; i < m; ++i) {
            const double root = std::sqrt(a_[rows[i]] * f_.w[rows[i]]), *g = f_.row(rows[i]);
            for (int64_t k = 0; k < r; ++k) B[i * size + k] = root * g[k];
            if (x_) B[i * size + r] = root * unit * x_[rows[i]];
            for (int64_t j = 0; j <= i; ++j) A[i * m + j] = (i == j ? 1.0 : 0.0) - row_product(B.data() + i * size, B.data() + j * size, size);
            along[i] = row_product(B.data() + i * size, right.data(), size);
        }
        const std::vector<double> pull(along);
        for (int64_t i = 0; i < m; ++i)
            if (!(A[i * m + i] > kLeast)) return false;
        if (!(cholesky(A.data(), m) > kLeast)) return false;
        cholesky_solve(A.data(), m, along.data());
        decrement_ = row_product(right.data(), right.data(), size);
        for (int64_t i = 0; i < m; ++i) {
            decrement_ += along[i] * pull[i];
            add_row(right.data(), along[i], B.data() + i * size, size);
        }
        for (int64_t i = 0; i < f_.n; ++i) k_.dir[i] = x_ ? right[r] * unit * x_[i] : 0.0;
        f_.add(right.data(), k_.dir.data());
        return true;
    }

    // d = H⁻¹g for the curvature c of the rows, into `step` and `dir`; sets `decrement_` = g'd and `missing_`, the norm in
    // H⁻¹ of g - Hd. Where columns nearly depend on each other, g - Hd is computed row by row and the step corrected.
    FBED_HOT void solve(const double* c) {
        f_.gram_of_terms(x_, c, k_.hess.data());
        bool blind = false;  // a slope where nothing shows how far to go
        for (int64_t k = 0; k < size_; ++k) blind |= !(k_.hess[k * size_ + k] > 0) && k_.grad[k] != 0;
        const double weakest = cholesky(k_.hess.data(), size_);
        std::copy(k_.grad.begin(), k_.grad.begin() + size_, k_.step.begin());
        cholesky_solve(k_.hess.data(), size_, k_.step.data());
        direction();
        missing_ = 0;
        for (int round = 0; weakest < kSound && round < 4; ++round) {
            std::vector<double> left(size_), more, bent(f_.n);
            for (int64_t i = 0; i < f_.n; ++i) bent[i] = c[i] * k_.dir[i];
            f_.term_products(bent.data(), left.data());
            if (x_) left[f_.r] = std::inner_product(bent.begin(), bent.end(), x_, 0.0);
            for (int64_t k = 0; k < size_; ++k) left[k] = k_.grad[k] - left[k];
            more = left;
            cholesky_solve(k_.hess.data(), size_, more.data());
            double norm = 0, total = 0;
            for (int64_t k = 0; k < size_; ++k) {
                norm += left[k] * more[k];
                total += k_.grad[k] * k_.step[k];
            }
            missing_ = std::sqrt(std::max(norm, 0.0));
            if (norm <= 1e-20 * total || round == 3) break;
            for (int64_t k = 0; k < size_; ++k) k_.step[k] += more[k];
            direction();
        }
        decrement_ = 0;
        for (int64_t k = 0; k < size_; ++k) decrement_ += k_.grad[k] * k_.step[k];
        if (!(decrement_ >= 0)) decrement_ = std::numeric_limits<double>::infinity();  // rounding has made this no step
        if (blind) missing_ = std::numeric_limits<double>::infinity();
    }

    // Extremes of z: the largest over all rows, since the step moves them all, the least over those that c counts, since
    // the others stay where they are in the dual point. What the step misses could move row i by `missing_`/sqrt(a w).
    FBED_HOT Extremes extremes(const double* c) const {
        const double *a = a_, *mu = k_.mu.data(), *dir = k_.dir.data(), missing = missing_;
        double least = 0, most = 0;
#pragma omp simd reduction(min : least) reduction(max : most)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double step = a[i] > 0 ? dir[i] : 0.0, one = (1.0 - mu[i]) * step, zero = -mu[i] * step;
            most = std::max(most, std::max(one, zero));
            const double extra = missing * std::max(mu[i], 1.0 - mu[i]) * std::sqrt(1.0 / c[i]);
            least = std::min(least, c[i] > 0 ? std::min(one, zero) - (missing > 0 ? extra : 0.0) : 0.0);
        }
        return {least, most};
    }

    // (lambda + missing)²·P(z_min) bounds what a feasible dual point leaves. `missing_` is measured with lifted pivots: where
    // it is not small, a direction that rounding hides may hold more.
    double certified_gap(const Extremes& z) const {
        const double lambda = std::sqrt(decrement_), all = lambda + missing_;
        const bool hidden = missing_ > 1e-2 * lambda && missing_ > 1e-6;
        if (!(z.min >= -1.0) || !std::isfinite(all) || hidden) return std::numeric_limits<double>::infinity();
        return all * all * P(z.min) * (1.0 + kSlack);
    }

    // Newton step on the current weights; lambda²·P(z_min) bounds what is left, lambda²·P(z_max) is certain to come.
    double newton_gap(Interval& out, double value) {
        solve(k_.aw.data());
        const Extremes z = extremes(k_.aw.data());
        if (!f_.has_idle && missing_ == 0.0) {  // the step not yet taken would attain this much; idle rows could lose in it
            const double sure = base_ + 2.0 * value + decrement_ * P(z.max) * (1.0 - kSlack);
            out.lower = std::max(out.lower, std::min(out.upper, sure * (1.0 - 1e-12)));
        }
        return certified_gap(z);
    }

    // Rows that the step takes beyond their side, and those that are as good as explained, are set to their outcome; the rest
    // is bounded by its own Newton decrement. Given up where not even the step's own promise would take the bound below the
    // aim. Whatever comes of it, the step itself is left as it was.
    double upper_without_rows(double value, double aim) {
        constexpr double none = std::numeric_limits<double>::infinity();
        const auto promises = [&](double cost) { return base_ + 2.0 * value + cost + 2.0 * decrement_ < aim; };
        if (!promises(0.0)) return none;
        std::vector<double>&kept = k_.kept, &score = k_.score;
        std::copy(k_.aw.begin(), k_.aw.end(), kept.begin());
        double cost = leave_rows_out(kept.data());
        if (!promises(cost)) return none;
        const std::vector<double> grad(k_.grad), step(k_.step), dir(k_.dir);
        const double decrement = decrement_, missing = missing_;
        double upper = none;
        for (int attempt = 0; attempt < 3 && promises(cost); ++attempt) {
            for (int64_t i = 0; i < f_.n; ++i) score[i] = kept[i] > 0 ? k_.values[i] : 0.0;
            f_.term_products(score.data(), k_.grad.data());
            k_.grad[f_.r] = x_ ? std::inner_product(score.begin(), score.end(), x_, 0.0) : 0.0;
            solve(kept.data());
            const double gap = certified_gap(extremes(kept.data())) + blurred(score.data(), kept.data(), nullptr);
            if (gap < none) {
                upper = f_.clip(base_ + 2.0 * value + cost + gap);
                break;
            }
            cost = leave_rows_out(kept.data());
        }
        k_.grad = grad, k_.step = step, k_.dir = dir;
        decrement_ = decrement, missing_ = missing;
        return upper;
    }

    // The curvature of rows that may not stay becomes 0; returns what all rows left out so far have left to explain.
    FBED_HOT double leave_rows_out(double* kept) const {
        const double *a = a_, *mu = k_.mu.data(), *dir = k_.dir.data(), *left = k_.left.data();
        double cost = 0;
#pragma omp simd reduction(+ : cost)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double deviance = 2.0 * a[i] * left[i], z = std::min((1.0 - mu[i]) * dir[i], -mu[i] * dir[i]);
            const double stay = (deviance >= 1e-9 ? 1.0 : 0.0) * (z > kNearlyOut ? 1.0 : 0.0);
            kept[i] = kept[i] * stay;
            cost += kept[i] > 0 ? 0.0 : deviance;
        }
        return cost;
    }

    // Take the step, halved until the likelihood rises. Towards infinity, where rows are being separated, steps are all alike
    // and each adds 1 to a margin: there, double them. A step that leads nowhere, however short, is not taken: bounds are sums
    // that would cancel there.
    double advance(double value) {
        remember();
        double t = 1.0, now = at(t);
        const auto fails = [&] { return !(now >= value - 1e-12 * std::abs(value) - 1e-14) || reach_ > kFurthest; };
        while (fails() && t > kShortest) {
            t *= 0.5;
            now = at(t);
        }
        if (fails()) {
            lost_ = true;
            return at(0.0);
        }
        if (t == 1.0 && iterations >= 3 && decrement_ > 0.1 * last_decrement_) {
            while (t < 64.0 && !separated_) {
                const double further = at(2.0 * t);
                if (!(further > now) || reach_ > kFurthest) {
                    now = at(t);
                    break;
                }
                t *= 2.0;
                now = further;
            }
        }
        last_decrement_ = decrement_;
        return now;
    }

    double at(double t) {
        move(t);
        return evaluate();
    }

    // Steps are measured from where they begin: a wrong one may be so long that its way back would leave rounding behind.
    void remember() {
        k_.from = k_.v;
        k_.theta_from = k_.theta;
    }

    void move(double t) {
        for (int64_t k = 0; k < size_; ++k) k_.theta[k] = k_.theta_from[k] + t * k_.step[k];
        for (int64_t i = 0; i < f_.n; ++i) k_.v[i] = k_.from[i] + t * k_.dir[i];
    }

    const Null& f_;
    Work& k_;
    const double* a_;
    const double* x_;
    double norm_, base_;
    int64_t size_;
    double decrement_ = 0, missing_ = 0, last_decrement_ = 0;
    double reach_ = 0;              // largest linear predictor, in size
    double blur_;                   // and rounding in it
    double recent_[3] = {0, 0, 0};  // decrements of the last iterations
    double value_ = 0;              // log-likelihood gained, where it has been evaluated
    bool separated_ = false, started_ = false, evaluated_ = false, lost_ = false;
};

}  // namespace fbed
