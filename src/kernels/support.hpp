// Brackets of a column that is mostly 0, from the rows where it is not.
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
#include "processors.hpp"
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
    double promise = 0;  // about what the statistic is
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

// Maximise the likelihood along x alone: only the rows of T count, by these weights. The gradient falls in b, so its root is
// bracketed. It is known whether x is pure.
FBED_HOT inline void along_support(const Null& f, Support& s, const double* weights, double* buffer) {
    s.gain = 0;
    const int64_t size = whole(s.m);
    double *mean = buffer, *eta = buffer + size, *weight = eta + size, *y = weight + size, *x = y + size;
    s.mean = mean;
    if (s.pure) {
        for (int64_t i = 0; i < s.m; ++i) {
            s.gain += weights[s.rows[i]] * f.dev[s.rows[i]];
            mean[i] = f.sign[s.rows[i]] > 0 ? 1.0 : 0.0;
        }
        return;
    }
    double reach = 0, before = 0;
    for (int64_t i = 0; i < s.m; ++i) {
        const int32_t row = s.rows[i];
        reach = std::max(reach, std::abs(s.x[i]));
        eta[i] = f.eta[row], weight[i] = weights[row], y[i] = f.sign[row] > 0 ? 1.0 : 0.0, x[i] = s.x[i];
        before += weights[row] * f.dev[row];
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

// How far b moves idle rows.
inline double idle_step_along(const Null& f, const Support& s) {
    double most = 0;
    if (!f.has_idle || s.pure) return most;
    for (int64_t i = 0; i < s.m; ++i)
        if (f.a[s.rows[i]] == 0.0) most = std::max(most, std::abs(s.b * s.x[i]));
    return most;
}

// What idle rows of T lose at b; pure ones are explained for good.
inline double lost_along(const Null& f, const Support& s) {
    double lost = 0;
    if (!f.has_idle || s.pure) return lost;
    for (int64_t i = 0; i < s.m; ++i) {
        const int64_t row = s.rows[i];
        if (f.a[row] == 0.0) lost += f.weight[row] * std::max(loss(f.sign[row] * (f.eta[row] + s.b * s.x[i])) - f.dev[row], 0.0);
    }
    return lost;
}

// What x gains alone, without a look at what refitting the model around it can add. Where idle rows would lose by that, or pull
// the other way, with these counted like all others.
inline double gained_alone(const Null& f, const Support& s) {
    constexpr double kLittle = 1e-3;  // of what is gained
    double gain = s.gain, lost = s.conflict ? 0.0 : lost_along(f, s);
    if (s.conflict || lost > kLittle * gain) {
        std::vector<double> buffer(5 * whole(s.m));
        Support all = s;
        all.pure = false;
        along_support(f, all, f.weight, buffer.data());
        gain = all.gain, lost = 0;
    }
    return std::max(2.0 * (gain * (1.0 - kSlack) - lost), 0.0);
}

// 2KL_T + what refitting the model around it can add; needs the rows of T to hold less than all of its information. An
// upper bound below the aim is enough.
FBED_HOT inline Interval bracket_support(const Null& f, Support& s, double aim, double* sum) {
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
        add_row(sum, t, f.row(row), f.stride);
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
    s.promise = gain;
    if (sigma2 > 0) {
        double curvature = sigma2;
        for (int64_t i = 0; i < s.m; ++i) {
            const int64_t row = s.rows[i];
            if (f.a[row] == 0.0) continue;
            const double along = row_product(f.row(row), sum, f.stride), m = s.mean[i];
            curvature -= f.a[row] * (f.w[row] - m * (1.0 - m)) * along * along;
        }
        if (curvature > kCancelled * sigma2) {
            const double z = f.kappa * sigma2 * sigma / curvature;
            s.promise = gain + sigma2 * sigma2 / curvature;
            out.lower = std::max(out.lower, gain + sigma2 * sigma2 / curvature * P(z));
            idle_step = f.idle_kappa * sigma2 * sigma / curvature;
        }
    }
    idle_step += idle_step_along(f, s);
    out.lower = std::max(out.lower * (1.0 - kSlack) - f.idle_loss(idle_step), 0.0);
    if (s.conflict) out.lower = 0.0;
    out.lower = std::min(out.lower, out.upper);
    return out;
}

// Extremes of z of a step along G. |z| is at most |g||e|, so the rows with large norms decide: what has been seen must be at
// least what is left on both sides, unless that is no more than `harmless`.
// False where the rows that are at hand do not decide.
FBED_HOT inline bool look_by_norm(const Null& f, const double* e, double size, double harmless, double& z_min, double& z_max,
                                  double& idle_step) {
    constexpr int64_t kPart = 64;
    double v[kPart];
    const Sorted& s = *f.sorted;
    for (int64_t start = 0; start < s.count; start += kPart) {
        const double rest = s.norm[start] * size;
        if (rest <= std::min(-z_min, z_max) || rest < 1e-3 || rest <= harmless) {
            z_min = std::min(z_min, -rest);
            z_max = std::max(z_max, rest);
            idle_step = std::max(idle_step, rest);
            return true;
        }
        const int64_t m = std::min(kPart, s.length - start);
        const double *a = s.a.data() + start, *mu = s.mu.data() + start;
        double least = 0, most = 0, idle = 0;
#pragma omp simd
        for (int64_t i = 0; i < m; ++i) v[i] = 0.0;
        for (int64_t k = 0; k < f.r; ++k) {
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
    return s.count == f.n;
}

}  // namespace fbed
