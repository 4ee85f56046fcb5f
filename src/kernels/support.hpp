// Brackets of a column that is mostly 0, from the rows where it is not.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "bounds.hpp"
#include "elementary.hpp"
#include "hot.hpp"
#include "linear.hpp"
#include "logistic.hpp"

namespace fbed {

// A sparse column before it is orthogonalised: entries on the rows T, zero elsewhere.
struct Support {
    int64_t m = 0;
    const int32_t* rows = nullptr;
    const double* x = nullptr;
    bool pure = false;      // one sign on rows of one class: the likelihood rises for ever along it
    bool conflict = false;  // pure on the active rows only: some idle row of T pulls the other way
    double gain = 0;        // log-likelihood gained along x alone
    double b = 0;
    double slope = 0;  // of the log-likelihood at b, 0 but for rounding
    const double* mean = nullptr;  // at b, row by row of T
};

inline void look_for_purity(const Null& f, Support& s) {
    bool positive = false, negative = false, idle_positive = false, idle_negative = false;
    for (int64_t i = 0; i < s.m; ++i) {
        const double side = s.x[i] * f.sign[s.rows[i]];
        const bool idle = f.a[s.rows[i]] == 0.0;
        (idle ? idle_positive : positive) |= side > 0;
        (idle ? idle_negative : negative) |= side < 0;
    }
    s.pure = positive != negative;
    s.conflict = f.has_idle && s.pure && ((positive && idle_negative) || (negative && idle_positive));
}

// Maximise the likelihood along x alone: only the rows of T count. The gradient falls in b, so its root is bracketed.
FBED_HOT inline void along_support(const Null& f, Support& s, double* buffer) {
    look_for_purity(f, s);
    s.gain = 0;
    const int64_t size = whole(s.m);
    double *mean = buffer, *eta = buffer + size, *weight = eta + size, *y = weight + size, *x = y + size;
    s.mean = mean;
    if (s.pure) {
        for (int64_t i = 0; i < s.m; ++i) {
            s.gain += f.a[s.rows[i]] * f.dev[s.rows[i]];
            mean[i] = f.sign[s.rows[i]] > 0 ? 1.0 : 0.0;
        }
        return;
    }
    double reach = 0, before = 0;
    for (int64_t i = 0; i < s.m; ++i) {
        const int32_t row = s.rows[i];
        reach = std::max(reach, std::abs(s.x[i]));
        eta[i] = f.eta[row], weight[i] = f.a[row], y[i] = f.sign[row] > 0 ? 1.0 : 0.0, x[i] = s.x[i];
        before += f.a[row] * f.dev[row];
    }
    for (int64_t i = s.m; i < size; ++i) eta[i] = weight[i] = y[i] = x[i] = 0.0;
    double b = 0, low = -std::numeric_limits<double>::infinity(), high = -low, stride = 4.0 / reach;
    for (int it = 0; it < 200; ++it) {
        double g = 0, h = 0;
#pragma omp simd reduction(+ : g, h)
        for (int64_t i = 0; i < size; ++i) {
            const double m = logistic(eta[i] + b * x[i]);
            g += weight[i] * (y[i] - m) * x[i];
            h += weight[i] * m * (1.0 - m) * x[i] * x[i];
        }
        s.slope = g;
        if (g * g <= 1e-24 * h) break;
        (g > 0 ? low : high) = b;
        // A saturated outlier hides how far the other rows want to go: strides double until the root is enclosed.
        const double d = h > 0 ? g / h : std::copysign(std::numeric_limits<double>::infinity(), g);
        double next = b + std::clamp(d, -stride, stride);
        if (std::abs(d) >= stride) stride *= 2.0;
        if (next <= low || next >= high) next = 0.5 * (low + high);
        if (next == b) break;
        b = next;
    }
    s.b = b;
    double after = 0;
#pragma omp simd reduction(+ : after)
    for (int64_t i = 0; i < size; ++i) {
        const double t = eta[i] + b * x[i];
        mean[i] = logistic(t);
        after += weight[i] * loss((2.0 * y[i] - 1.0) * t);
    }
    s.gain = before - after;
}

// A difference of sums that has kept less than this part of them has lost more digits than kSlack forgives.
constexpr double kCancelled = 1e-5;

// 2KL_T + what refitting the model around it can add; needs the rows of T to hold less than all of its information. An
// upper bound below the aim is enough.
FBED_HOT inline Interval bracket_support(const Null& f, const Support& s, double aim, double* sum) {
    const int64_t r = f.r;
    std::fill(sum, sum + f.stride, 0.0);
    for (int64_t k = 0; k < r; ++k) sum[k] = -f.g0[k];
    double leverage = 0, own = 0;
    for (int64_t i = 0; i < s.m; ++i) {
        const int64_t row = s.rows[i];
        if (f.a[row] == 0.0) continue;
        const double mean = s.mean[i];
        const double t = f.a[row] * (mean - f.mu[row]);
        own += f.a[row] * mean * (1.0 - mean) * s.x[i] * s.x[i];
        leverage += f.a[row] * f.w[row] * f.norm[row] * f.norm[row];
        add_row(sum, t, f.G + row * f.stride, f.stride);
    }
    double sigma2 = 0;
    for (int64_t k = 0; k < r; ++k) sigma2 += sum[k] * sum[k];
    const double sigma = std::sqrt(sigma2), gain = 2.0 * s.gain;
    Interval out{gain, std::numeric_limits<double>::infinity()};
    if (1.0 - leverage > kCancelled && std::abs(s.slope) <= 1e-11 * std::sqrt(own * (1.0 - leverage))) {
        const double z = -f.kappa * sigma / (1.0 - leverage);
        if (z >= -1.0) out.upper = gain + P(z) * sigma2 / (1.0 - leverage);
    }
    out.upper = f.clip(std::isfinite(out.upper) ? out.upper * (1.0 + kSlack) : out.upper);
    if (out.upper < aim)  // all that matters
        return {f.has_idle || s.conflict ? 0.0 : std::min(std::max(gain * (1.0 - kSlack), 0.0), out.upper), out.upper};
    double idle_step = 0;
    if (sigma2 > 0) {
        double curvature = sigma2;
        for (int64_t i = 0; i < s.m; ++i) {
            const int64_t row = s.rows[i];
            if (f.a[row] == 0.0) continue;
            const double along = row_product(f.G + row * f.stride, sum, f.stride), m = s.mean[i];
            curvature -= f.a[row] * (f.w[row] - m * (1.0 - m)) * along * along;
        }
        if (curvature > kCancelled * sigma2) {
            const double z = f.kappa * sigma2 * sigma / curvature;
            out.lower = std::max(out.lower, gain + sigma2 * sigma2 / curvature * P(z));
            idle_step = f.idle_kappa * sigma2 * sigma / curvature;
        }
    }
    double along_idle = 0;
    if (f.has_idle && !s.pure)
        for (int64_t i = 0; i < s.m; ++i)
            if (f.a[s.rows[i]] == 0.0) along_idle = std::max(along_idle, std::abs(s.b * s.x[i]));
    idle_step += along_idle;
    out.lower = std::max(out.lower * (1.0 - kSlack) - f.idle_loss(idle_step), 0.0);
    if (s.conflict) out.lower = 0.0;
    out.lower = std::min(out.lower, out.upper);
    return out;
}

// Extremes of z of a step along G. |z| is at most |g||e|, so the rows with large norms decide: what has been seen must be at
// least what is left on both sides.
FBED_HOT inline void look_by_norm(const Null& f, const double* e, double size, double& z_min, double& z_max, double& idle_step) {
    constexpr int64_t kPart = 64;
    double v[kPart];
    const Sorted& s = *f.sorted;
    for (int64_t start = 0; start < f.n; start += kPart) {
        const double rest = s.norm[start] * size;
        if (rest <= std::min(-z_min, z_max) || rest < 1e-3) {
            z_min = std::min(z_min, -rest);
            z_max = std::max(z_max, rest);
            idle_step = std::max(idle_step, rest);
            return;
        }
        const int64_t m = std::min(kPart, s.length - start);
        const double *a = s.a.data() + start, *mu = s.mu.data() + start;
        double least = 0, most = 0, idle = 0;
#pragma omp simd
        for (int64_t i = 0; i < m; ++i) v[i] = 0.0;
        for (int64_t i = 0; f.sparse && i < std::min(m, f.n - start); ++i)
            v[i] = row_product(f.G + s.order[start + i] * f.stride, e, f.stride);
        for (int64_t k = 0; !f.sparse && k < f.r; ++k) {
            const double *t = s.T.data() + k * s.length + start, ek = e[k];
#pragma omp simd
            for (int64_t i = 0; i < m; ++i) v[i] += ek * t[i];
        }
#pragma omp simd reduction(min : least) reduction(max : most, idle)
        for (int64_t i = 0; i < m; ++i) {
            const double step = a[i] > 0 ? v[i] : 0.0, one = (1.0 - mu[i]) * step, zero = -mu[i] * step;
            least = std::min(least, std::min(one, zero));
            most = std::max(most, std::max(one, zero));
            idle = std::max(idle, std::abs(v[i] - step));
        }
        z_min = std::min(z_min, least);
        z_max = std::max(z_max, most);
        idle_step = std::max(idle_step, idle);
    }
}

// The same from the exact Newton step at (0, b): C = I - sum_T a(w0 - w_b)gg' - cc'/I_b is the curvature there. The step, on G
// and, last, on x, is left in `step`.
class SupportStep {
   public:
    SupportStep(const Null& f, const Support& s, Work& work) : f_(f), s_(s), work_(work) {}

    bool usable = false;  // whether there is such a step

    // `sum` is what `bracket_support` has left; the aim is an upper bound that would settle it.
    FBED_HOT Interval bracket(double* sum, double aim) {
        Interval out{2.0 * s_.gain, std::numeric_limits<double>::infinity()};
        usable = is_small() ? solve_small(sum) : curvature() && solve(sum);
        if (!usable) return out;
        Extremes z = on_support();
        const bool own_rows_stay = z.min >= -1.0;
        look_by_norm(f_, work_.step.data(), size(), z.min, z.max, idle_step_);
        const double sure = (2.0 * s_.gain + P(z.max) * decrement_) * (1.0 - kSlack) - f_.idle_loss(idle_step_);
        if (z.min >= -1.0)
            out.upper = (2.0 * s_.gain + P(z.min) * decrement_) * (1.0 + kSlack);
        else if (own_rows_stay)
            out.upper = without_rows(sum, aim);
        out.upper = f_.clip(out.upper);
        out.lower = s_.conflict ? 0.0 : std::min(std::max(sure, 0.0), out.upper);
        return out;
    }

   private:
    // Few rows, all of them at their outcome for good: C is I but for as many directions.
    bool is_small() const { return s_.pure && 2 * s_.m <= f_.r; }

    // The step from a system of a row for each row of T: C = I - B'B, and C⁻¹ = I + B'(I - BB')⁻¹B.
    FBED_HOT bool solve_small(const double* sum) {
        const int64_t stride = f_.stride;
        double *B = work_.curvature.data(), *A = work_.hess.data(), *e = work_.step.data(), *right = work_.theta_from.data();
        double* along = work_.theta.data();
        int64_t m = 0;
        for (int64_t i = 0; i < s_.m; ++i) {
            const int64_t row = s_.rows[i];
            if (f_.a[row] == 0.0) continue;
            std::fill_n(B + m * stride, stride, 0.0);
            add_row(B + m * stride, std::sqrt(f_.a[row] * f_.w[row]), f_.G + row * stride, stride);
            ++m;
        }
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j <= i; ++j) A[i * m + j] = (i == j) - row_product(B + i * stride, B + j * stride, stride);
        if (cholesky(A, m) <= 0.0) return false;
        for (int64_t i = 0; i < m; ++i)
            if (A[i * m + i] * A[i * m + i] < kCancelled) return false;
        std::fill(work_.step.begin(), work_.step.end(), 0.0);
        for (int64_t k = 0; k < stride; ++k) e[k] = right[k] = -sum[k];
        for (int64_t i = 0; i < m; ++i) along[i] = row_product(B + i * stride, right, stride);
        cholesky_solve(A, m, along);
        for (int64_t i = 0; i < m; ++i) add_row(e, along[i], B + i * stride, stride);
        decrement_ = row_product(right, e, stride);
        return true;
    }

    // C with rows filled up to whole vectors; false when every row of T is saturated, and yet they disagree.
    FBED_HOT bool curvature() {
        const int64_t r = f_.r, stride = f_.stride;
        double *C = work_.curvature.data(), *c = work_.theta.data();
        std::fill(C, C + r * stride, 0.0);
        std::fill(c, c + stride, 0.0);
        for (int64_t k = 0; k < r; ++k) C[k * stride + k] = 1.0;
        for (int64_t i = 0; i < s_.m; ++i) {
            const int64_t row = s_.rows[i];
            if (f_.a[row] == 0.0) continue;
            const double wb = s_.mean[i] * (1.0 - s_.mean[i]), q = f_.a[row] * wb * s_.x[i];
            take_row(row, f_.a[row] * (f_.w[row] - wb));
            add_row(c, q, f_.G + row * stride, stride);
            own_ += q * s_.x[i];
        }
        moves_ = !s_.pure && own_ > 0;
        for (int64_t p = 0; moves_ && p < r; ++p) add_row(C + p * stride, -c[p] / own_, c, whole(p + 1));
        return s_.pure || moves_;
    }

    // C -= t·gg', the lower triangle
    FBED_INLINE void take_row(int64_t row, double t) {
        const double* g = f_.G + row * f_.stride;
        for (int64_t p = 0; p < f_.r; ++p) add_row(work_.curvature.data() + p * f_.stride, -t * g[p], g, whole(p + 1));
    }

    // The step and its decrement; false where C is next to singular: the refinement takes more care.
    bool solve(const double* sum) {
        const int64_t r = f_.r;
        double *H = work_.hess.data(), *e = work_.step.data(), *right = work_.theta_from.data();
        const double* c = work_.theta.data();
        for (int64_t p = 0; p < r; ++p) std::copy_n(work_.curvature.data() + p * f_.stride, p + 1, H + p * r);
        if (cholesky(H, r) <= 0.0) return false;
        for (int64_t k = 0; k < r; ++k)
            if (H[k * r + k] * H[k * r + k] < kCancelled) return false;
        const double slope = moves_ ? s_.slope / own_ : 0.0;
        std::fill(work_.step.begin(), work_.step.end(), 0.0);
        for (int64_t k = 0; k < r; ++k) e[k] = right[k] = -sum[k] - c[k] * slope;
        cholesky_solve(H, r, e);
        double along = 0;
        decrement_ = slope * slope * own_;
        for (int64_t k = 0; k < r; ++k) {
            decrement_ += right[k] * e[k];
            along += c[k] * e[k];
        }
        e[r] = moves_ ? slope - along / own_ : 0.0;
        return true;
    }

    double size() const {
        return std::sqrt(std::inner_product(work_.step.begin(), work_.step.begin() + f_.r, work_.step.begin(), 0.0));
    }

    // Extremes of z on the rows of T; pure ones are at their outcome for good.
    FBED_HOT Extremes on_support() {
        Extremes z;
        const double *e = work_.step.data(), last = e[f_.r];
        idle_step_ = 0;
        for (int64_t i = 0; i < s_.m && !s_.pure; ++i) {
            const int64_t row = s_.rows[i];
            const double v = row_product(f_.G + row * f_.stride, e, f_.stride) + last * s_.x[i], m = s_.mean[i];
            if (f_.a[row] == 0.0) {
                idle_step_ = std::max(idle_step_, std::abs(v) + std::abs(s_.b * s_.x[i]));
            } else {
                z.min = std::min(z.min, std::min((1.0 - m) * v, -m * v));
                z.max = std::max(z.max, std::max((1.0 - m) * v, -m * v));
            }
        }
        return z;
    }

    // Upper bound by the step of the model without the rows that a step takes beyond their side: they are set to their
    // outcome, which gains what they have left.
    double without_rows(const double* sum, double aim) {
        const std::vector<double> first = work_.step;
        std::vector<double> left(sum, sum + f_.stride);
        std::vector<int64_t> out;
        double cost = 0, upper = std::numeric_limits<double>::infinity();
        if (is_small()) curvature();
        for (int attempt = 0; attempt < 3; ++attempt) {
            const size_t before = out.size();
            find_rows_beyond(out);
            for (size_t i = before; i < out.size(); ++i) cost += 2.0 * f_.a[out[i]] * f_.dev[out[i]];
            if (!(2.0 * s_.gain + cost + decrement_ < aim)) break;
            for (size_t i = before; i < out.size(); ++i) {
                const int64_t row = out[i];
                take_row(row, f_.a[row] * f_.w[row]);
                add_row(left.data(), f_.a[row] * f_.res[row], f_.G + row * f_.stride, f_.stride);
            }
            if (!solve(left.data())) break;
            const double own = on_support().min, least = std::min(own, least_z(out));
            if (least >= -1.0) upper = (2.0 * s_.gain + cost + P(least) * decrement_) * (1.0 + kSlack);
            if (least >= -1.0 || own < -1.0) break;
        }
        work_.step = first;
        return upper;
    }

    // z of all rows but those of T, which are looked at by themselves, and those that are left out; returns the least.
    FBED_HOT double least_z(const std::vector<int64_t>& out) {
        double *v = work_.dir.data(), *z = work_.values.data(), least = 0;
        const double *a = f_.a, *mu = f_.mu;
        std::fill(v, v + f_.n, 0.0);
        f_.add(work_.step.data(), v);
        for (int64_t i = 0; i < s_.m; ++i) v[s_.rows[i]] = 0.0;
        for (int64_t row : out) v[row] = 0.0;
#pragma omp simd reduction(min : least)
        for (int64_t i = 0; i < f_.n; ++i) {
            z[i] = a[i] > 0 ? std::min((1.0 - mu[i]) * v[i], -mu[i] * v[i]) : 0.0;
            least = std::min(least, z[i]);
        }
        return least;
    }

    void find_rows_beyond(std::vector<int64_t>& out) {
        if (out.empty()) least_z(out);  // otherwise it has just been asked for
        const double* z = work_.values.data();
        for (int64_t i = 0; i < f_.n; ++i)
            if (z[i] < kNearlyOut) out.push_back(i);
    }

    const Null& f_;
    const Support& s_;
    Work& work_;
    double own_ = 0, decrement_ = 0, idle_step_ = 0;
    bool moves_ = false;
};

}  // namespace fbed
