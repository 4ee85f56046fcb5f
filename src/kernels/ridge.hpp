// Logistic regression with a ridge: deviance + Σ λ_k b_k², by damped Newton steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "linear.hpp"
#include "pause.hpp"
#include "rows.hpp"

namespace fbed {

class RidgeLogistic {
   public:
    static constexpr double kJitter = 1e-14;    // relative to the mean curvature; changes the path to the optimum, never the optimum
    static constexpr double kRounding = 1e-12;  // what a step may seem to lose, relative to the value

    // Z is n × r, column after column; `least` is what a row loses at the mean that suits it best.
    RidgeLogistic(const double* Z, int64_t n, int64_t r, const double* weight, const double* y, const double* least, const double* offset)
        : Z_(Z), n_(n), r_(r), a_(weight), y_(y), least_(least), offset_(offset), eta_(n), mean_(n), curvature_(n), residual_(n),
          gradient_(r), step_(r), trial_(r), H_(r * r) {}

    // Until the squared decrement, relative to the value, is `arrived`, or no part of a step from `smallest` on makes the value
    // smaller. `b` is where to begin and where it ends.
    void fit(const double* penalty, double* b, int64_t steps, double arrived, double smallest) {
        double value = at(b, penalty);
        for (int64_t iteration = 0; iteration < steps; ++iteration) {
            look_up();
            const double decrement = newton(b, penalty);
            double size = 1.0, next = value;
            while (true) {
                for (int64_t k = 0; k < r_; ++k) trial_[k] = b[k] + size * step_[k];
                next = at(trial_.data(), penalty);
                if (next <= value + kRounding * std::max(1.0, std::abs(value)) || size < smallest) break;
                size /= 2.0;
            }
            std::copy(trial_.begin(), trial_.end(), b);
            value = next;
            if (!(decrement > arrived * std::max(1.0, std::abs(value))) || size < smallest) return;
        }
    }

   private:
    // The value at some coefficients, and the state of the rows there.
    double at(const double* b, const double* penalty) {
        if (offset_)
            std::copy(offset_, offset_ + n_, eta_.begin());
        else
            std::fill(eta_.begin(), eta_.end(), 0.0);
        add_columns(Z_, n_, r_, b, eta_.data());
        const double loss =
            logistic_state(n_, eta_.data(), y_, a_, least_, mean_.data(), curvature_.data(), residual_.data());
        double value = 2.0 * std::max(loss, 0.0);
        if (std::isnan(loss)) value = std::numeric_limits<double>::infinity();
        for (int64_t k = 0; k < r_; ++k) value += penalty[k] * b[k] * b[k];
        return value;
    }

    // Newton's step, from where the rows are; returns the squared decrement.
    double newton(const double* b, const double* penalty) {
        products(Z_, n_, r_, residual_.data(), gradient_.data());
        gram(Z_, n_, r_, nullptr, curvature_.data(), H_.data());
        double trace = 0, decrement = 0;
        for (int64_t k = 0; k < r_; ++k) {
            gradient_[k] -= penalty[k] * b[k];
            H_[k * r_ + k] += penalty[k];
            trace += H_[k * r_ + k];
        }
        for (int64_t k = 0; k < r_; ++k) H_[k * r_ + k] += kJitter * trace / static_cast<double>(r_) + 1e-300;
        cholesky(H_.data(), r_);
        step_ = gradient_;
        cholesky_solve(H_.data(), r_, step_.data());
        for (int64_t k = 0; k < r_; ++k) decrement += gradient_[k] * step_[k];
        return decrement;
    }

    const double* Z_;
    int64_t n_, r_;
    const double *a_, *y_, *least_, *offset_;
    std::vector<double> eta_, mean_, curvature_, residual_, gradient_, step_, trial_, H_;
};

}  // namespace fbed
