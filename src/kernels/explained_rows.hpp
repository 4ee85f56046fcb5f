// Rows that a model has explained for good.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "linear.hpp"
#include "prepared.hpp"
#include "whiten.hpp"

namespace fbed {

// Coefficients of a direction are tried with this many choices of the rows that have to stay.
constexpr int kAttempts = 4;

// A margin that leaves nothing to explain, with some to spare; and a step after which rounding would begin to show.
constexpr double kFarEnough = 60.0, kTooFar = 1e4;

// Idle rows that one direction of the model moves, each to its own side, moving no other row. Whatever a candidate does to
// those rows, a long enough step along that direction mends it at no cost. The direction is the part of the fit that moves
// idle rows only; rows that it would move to the other side have to stay as well.
struct Secured {
    std::vector<char> rows;
    bool any = false;
    bool all_idle = false;  // and no row had to stay: `basis` is that of the others
    Whitened basis;
    std::vector<double> moved;  // by that direction

    // The curvature of idle rows is 0.
    Secured(const Model& model, const double* sign, std::vector<double> curvature, const std::vector<char>& idle,
            const double* coefficients)
        : rows(model.n, 0), moved(model.n) {
        const int64_t n = model.n, r = model.r;
        std::vector<double> along(r);
        for (int attempt = 0; attempt < kAttempts; ++attempt) {
            basis = model.whitened(curvature.data());
            const int64_t none = r - basis.kept;
            std::fill(along.begin(), along.end(), 0.0);
            for (int64_t j = 0; j < none; ++j) {
                double part = 0;
                for (int64_t k = 0; k < r; ++k) part += basis.free[k * none + j] * coefficients[k];
                for (int64_t k = 0; k < r; ++k) along[k] += basis.free[k * none + j] * part;
            }
            std::fill(moved.begin(), moved.end(), 0.0);
            model.add(along.data(), moved.data());
            double most = 0;
            for (int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(moved[i]));
            const double clear = 1e-6 * most;
            bool stray = false;
            any = false, all_idle = attempt == 0;
            for (int64_t i = 0; i < n; ++i) {
                rows[i] = idle[i] && sign[i] * moved[i] > clear;
                any = any || rows[i];
                all_idle = all_idle && (rows[i] || !idle[i]);
                if (rows[i] || !(std::abs(moved[i]) > 1e-3 * clear)) continue;
                stray = true;
                curvature[i] = 1.0;
            }
            if (!stray) return;
        }
        any = false;
    }

    // Linear predictors a good deal further along the direction: what becomes of the other rows then hardly matters to these.
    void move(const double* sign, std::vector<double>& eta) const {
        double step = 0, most = 0;
        for (size_t i = 0; i < rows.size(); ++i) {
            most = std::max(most, std::abs(moved[i]));
            if (rows[i]) step = std::max(step, (kFarEnough - sign[i] * eta[i]) / (sign[i] * moved[i]));
        }
        step = std::min(step, kTooFar / most);
        for (size_t i = 0; i < rows.size(); ++i)
            if (rows[i]) eta[i] += step * moved[i];
    }
};

}  // namespace fbed
