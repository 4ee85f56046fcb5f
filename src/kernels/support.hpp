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
    const int64_t whole = (s.m + kLanes - 1) / kLanes * kLanes;
    double *mean = buffer, *eta = buffer + whole, *weight = eta + whole, *y = weight + whole, *x = y + whole;
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
    for (int64_t i = s.m; i < whole; ++i) eta[i] = weight[i] = y[i] = x[i] = 0.0;
    double b = 0, low = -std::numeric_limits<double>::infinity(), high = -low, stride = 4.0 / reach;
    for (int it = 0; it < 200; ++it) {
        double g = 0, h = 0;
#pragma omp simd reduction(+ : g, h)
        for (int64_t i = 0; i < whole; ++i) {
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
    for (int64_t i = 0; i < whole; ++i) {
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
    for (int64_t k = 0; k < r; ++k) sum[k] = -f.g0[k];
    double leverage = 0, own = 0;
    for (int64_t i = 0; i < s.m; ++i) {
        const int64_t row = s.rows[i];
        if (f.a[row] == 0.0) continue;
        const double* g = f.G + row * r;
        const double mean = s.mean[i];
        const double t = f.a[row] * (mean - f.mu[row]);
        own += f.a[row] * mean * (1.0 - mean) * s.x[i] * s.x[i];
        leverage += f.a[row] * f.w[row] * f.norm[row] * f.norm[row];
#pragma omp simd
        for (int64_t k = 0; k < r; ++k) sum[k] += t * g[k];
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
            const double* g = f.G + row * r;
            double along = 0;
#pragma omp simd reduction(+ : along)
            for (int64_t k = 0; k < r; ++k) along += g[k] * sum[k];
            const double m = s.mean[i];
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

// The same from the exact Newton step at (0, b): C = I - sum_T a(w0 - w_b)gg' - cc'/I_b is the curvature there, and the
// extremes of the step are found by looking at every row. `step` receives the step on G and, last, on x.
FBED_HOT inline Interval bracket_support_sharply(const Null& f, const Support& s, const double* sum, Work& work, bool& usable) {
    const int64_t r = f.r;
    double* C = work.hess.data();
    double* e = work.step.data();
    double* c = work.theta.data();
    const double* mean = s.mean;
    std::fill(C, C + r * r, 0.0);
    std::fill(c, c + r + 1, 0.0);
    for (int64_t k = 0; k < r; ++k) C[k * r + k] = 1.0;
    double own = 0;
    for (int64_t i = 0; i < s.m; ++i) {
        const int64_t row = s.rows[i];
        if (f.a[row] == 0.0) continue;
        const double wb = mean[i] * (1.0 - mean[i]);
        const double* g = f.G + row * r;
        const double t = f.a[row] * (f.w[row] - wb), q = f.a[row] * wb * s.x[i];
        for (int64_t p = 0; p < r; ++p) {
            const double tg = t * g[p];
            double* out = C + p * r;
#pragma omp simd
            for (int64_t k = 0; k <= p; ++k) out[k] -= tg * g[k];
            c[p] += q * g[p];
        }
        own += q * s.x[i];
    }
    const bool moves = !s.pure && own > 0;
    usable = false;
    Interval out{2.0 * s.gain, std::numeric_limits<double>::infinity()};
    if (!s.pure && !moves) return out;  // every row of T is saturated, and yet they disagree
    if (moves)
        for (int64_t p = 0; p < r; ++p)
            for (int64_t k = 0; k <= p; ++k) C[p * r + k] -= c[p] * c[k] / own;
    if (cholesky(C, r) <= 0.0) return out;
    for (int64_t k = 0; k < r; ++k)
        if (C[k * r + k] * C[k * r + k] < kCancelled) return out;  // next to singular: the refinement takes more care
    usable = true;
    const double slope = moves ? s.slope / own : 0.0;
    for (int64_t k = 0; k < r; ++k) e[k] = -sum[k] - c[k] * slope;
    double decrement = slope * slope * own, along = 0;
    std::vector<double> right(e, e + r);
    cholesky_solve(C, r, e);
    for (int64_t k = 0; k < r; ++k) {
        decrement += right[k] * e[k];
        along += c[k] * e[k];
    }
    e[r] = moves ? slope - along / own : 0.0;
    double z_min = 0, z_max = 0, idle_step = 0, size = 0;
    for (int64_t k = 0; k < r; ++k) size += e[k] * e[k];
    size = std::sqrt(size);
    auto look = [&](int64_t row, double v, double m) {
        if (f.a[row] == 0.0) {
            idle_step = std::max(idle_step, std::abs(v));
            return;
        }
        const double one = (1.0 - m) * v, zero = -m * v;
        z_min = std::min(z_min, std::min(one, zero));
        z_max = std::max(z_max, std::max(one, zero));
    };
    auto along_model = [&](int64_t row) {
        const double* g = f.G + row * r;
        double v = 0;
#pragma omp simd reduction(+ : v)
        for (int64_t k = 0; k < r; ++k) v += g[k] * e[k];
        return v;
    };
    if (!s.pure)  // pure rows are at their outcome for good
        for (int64_t i = 0; i < s.m; ++i) look(s.rows[i], along_model(s.rows[i]) + e[r] * s.x[i], mean[i]);
    // |z| is at most |g||e|, so the rows with large norms decide; those of T, seen above, are merely bounded once more.
    // What has been seen must be at least what is left on both sides.
    for (int64_t q = 0; q < f.n; ++q) {
        const int64_t row = f.by_norm[q];
        const double bound = f.norm[row] * size;
        if (bound <= std::min(-z_min, z_max) || bound < 1e-3) {
            z_min = std::min(z_min, -bound);
            z_max = std::max(z_max, bound);
            idle_step = std::max(idle_step, bound);
            break;
        }
        look(row, along_model(row), f.mu[row]);
    }
    double along_idle = 0;
    if (f.has_idle && !s.pure)
        for (int64_t i = 0; i < s.m; ++i)
            if (f.a[s.rows[i]] == 0.0) along_idle = std::max(along_idle, std::abs(s.b * s.x[i]));
    out.lower = (2.0 * s.gain + P(z_max) * decrement) * (1.0 - kSlack) - f.idle_loss(idle_step + along_idle);
    if (z_min >= -1.0) out.upper = (2.0 * s.gain + P(z_min) * decrement) * (1.0 + kSlack);
    out.upper = f.clip(out.upper);
    out.lower = s.conflict ? 0.0 : std::min(std::max(out.lower, 0.0), out.upper);
    return out;
}

}  // namespace fbed
