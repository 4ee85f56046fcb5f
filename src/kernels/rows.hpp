// Rows of a generalised linear model: what a linear predictor says of them, and sums over them of what a step changes.
//
// Everything here is a sum, a minimum or a maximum over rows, so that blocks of rows can be added up wherever they lie.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "elementary.hpp"
#include "processors.hpp"

namespace fbed {

// exp(x) to 1 ulp or so, for |x| <= 700; beyond, what it is at the end of that range.
inline double exp_in_range(double x) {
    const double least = x < 0.0 ? x : -x, e = exp_of_negative(least < -700.0 ? -700.0 : least);
    return x < 0.0 ? e : 1.0 / e;
}

// Σ c·x², and the largest |x_i| + size·l_i.
FBED_HOT inline double sum_of_squares(const double* x, int64_t n, const double* c, const double* l, double size, double& reach) {
    double sum = 0, most = 0;
#pragma omp simd reduction(+ : sum) reduction(max : most)
    for (int64_t i = 0; i < n; ++i) {
        sum += c[i] * x[i] * x[i];
        most = std::max(most, std::abs(x[i]) + size * l[i]);
    }
    reach = most;
    return sum;
}

// Mean μ, information a·w and residual a(y − μ) of n rows at their linear predictor; returns half the deviance, Σ a·(loss − least)
// with `least` what the best mean would lose: row by row, since sums of large counts would leave nothing of their difference.
FBED_HOT inline double logistic_state(int64_t n, const double* eta, const double* y, const double* a, const double* least, double* mean,
                                     double* weight, double* residual) {
    double loss = 0;
#pragma omp simd reduction(+ : loss)
    for (int64_t i = 0; i < n; ++i) {
        const double t = eta[i], size = t < 0.0 ? -t : t;
        const double e = exp_of_negative(-size), one = 1.0 / (1.0 + e);
        const double mu = t < 0.0 ? e * one : one;
        mean[i] = mu;
        weight[i] = a[i] * (e * one * one);
        residual[i] = a[i] * (y[i] - mu);
        loss += a[i] * ((log1p_of_unit(e) + (t < 0.0 ? 0.0 : t) - y[i] * t) - least[i]);
    }
    return loss;
}

FBED_HOT inline double poisson_state(int64_t n, const double* eta, const double* y, const double* a, const double* least, double* mean,
                                    double* weight, double* residual) {
    double loss = 0;
#pragma omp simd reduction(+ : loss)
    for (int64_t i = 0; i < n; ++i) {
        const double mu = exp_in_range(eta[i]);
        mean[i] = mu;
        weight[i] = a[i] * mu;
        residual[i] = a[i] * (y[i] - mu);
        loss += a[i] * ((mu - y[i] * eta[i]) - least[i]);
    }
    return loss;
}

// Σ a·μ·z^j for j = 2, 3, 4 and the extremes of z, of a step u of the linear predictor. A success has z = (1 − μ)u and a failure
// −μu; for counts z = u.
struct StepMoments {
    double second = 0, third = 0, fourth = 0, low = 0, high = 0;
};

FBED_HOT inline StepMoments logistic_step(int64_t n, const double* mean, const double* weight, const double* u) {
    double second = 0, third = 0, fourth = 0, low = 0, high = 0;
#pragma omp simd reduction(+ : second, third, fourth) reduction(min : low) reduction(max : high)
    for (int64_t i = 0; i < n; ++i) {
        const double m = mean[i], v = m * (1.0 - m), t = u[i] * u[i] * weight[i];
        const double success = (1.0 - m) * u[i], failure = -m * u[i];
        second += t;
        third += t * u[i] * (1.0 - 2.0 * m);
        fourth += t * u[i] * u[i] * (1.0 - 3.0 * v);
        low = std::min(low, std::min(success, failure));
        high = std::max(high, std::max(success, failure));
    }
    return {second, third, fourth, low, high};
}

FBED_HOT inline StepMoments poisson_step(int64_t n, const double*, const double* weight, const double* u) {
    double second = 0, third = 0, fourth = 0, low = 0, high = 0;
#pragma omp simd reduction(+ : second, third, fourth) reduction(min : low) reduction(max : high)
    for (int64_t i = 0; i < n; ++i) {
        const double t = u[i] * u[i] * weight[i];
        second += t;
        third += t * u[i];
        fourth += t * u[i] * u[i];
        low = std::min(low, u[i]);
        high = std::max(high, u[i]);
    }
    return {second, third, fourth, low, high};
}

}  // namespace fbed
