// What it costs at least to take a column that is mostly 0 out of a fitted logistic model, from the rows where it is not.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "bounds.hpp"
#include "changed_curvature.hpp"
#include "elementary.hpp"
#include "linear.hpp"
#include "logistic.hpp"
#include "pause.hpp"
#include "processors.hpp"
#include "support.hpp"

namespace fbed {

// A row that a column moves, as it is and without the column.
struct MovedRow {
    const double* g;   // in the basis
    double x, without;  // of the column; the linear predictor without it
    double sign, weight;
    double dev = 0, curvature = 0, score = 0;  // half its deviance, weighted curvature and score, as far as the model counts them
    int64_t place = -1;  // among the rows of the model
};

// A part of its coefficient is taken off the rows T of a column, eta_t = eta - t·beta·x, and the rest by a Newton step of all
// coefficients from there, which leads to a model without it: C e = right + theta·q with C the curvature at eta_t, right the
// scores there, q the direction of the coefficient and q'e what is left of it. The means m = mu_t + w_t·Ge solve the equations
// of the model without the column, so that whatever its coefficients
//
//   deviance  >=  deviance(eta_t) + 2(1 - t)·beta·sum_T a(y - m)x - P(z_min)·e'Ce.
//
// Rows that the step takes beyond their side are set to their outcome. Idle rows outside of T are, too; those of T count. A
// column that moves idle or secured rows only has no direction in the basis, and the step is free of it: T are then the rows
// that no other column without one moves, for whose equations the others would have to stay, and beta is any number.
class Removal {
   public:
    static constexpr double kUnknown = -std::numeric_limits<double>::infinity();

    // `q` is the row of the basis that belongs to the column, if it has one; linear predictors are no larger than `reach`.
    Removal(const Null& f, Work& work, const std::vector<MovedRow>& rows, double beta, const double* q, double reach)
        : f_(f), work_(work), rows_(rows), beta_(beta), q_(f.stride, 0.0), e_(f.stride), right_(f.stride), other_(f.stride),
          wrong_(rows.size()), z_(rows.size()), reach_(reach), curvature_(f.r, f.stride, work.curvature.data(), work.hess.data()) {
        for (int64_t k = 0; q && k < f.r; ++k) length_ += q[k] * q[k];
        length_ = std::sqrt(length_);
        for (int64_t k = 0; k < f.r && length_ > 0; ++k) q_[k] = q[k] / length_;
    }

    // More than `enough`, or about as much as can be told. Less than 0 where the model is not where its likelihood is largest.
    double at_least(double enough) {
        double best = kUnknown, promised = kUnknown;
        for (double t = 1.0; t > 1e-2; t *= 0.5) {
            best = std::max(best, with_part(t, enough));
            if (best > enough || promise_ < promised) break;  // what a shorter way promises is less
            promised = promise_;
        }
        return best;
    }

   private:
    double with_part(double t, double enough) {
        promise_ = kUnknown;
        out_of_t_.assign(rows_.size(), 0);
        outside_.clear();
        for (int attempt = 0; attempt < 3; ++attempt) {
            start(t);
            if (!curvature_.factorise()) return kUnknown;
            take_step(t);
            const double here = gained_ + linear(t);
            promise_ = std::max(promise_, here - square_);
            if (!(here - square_ > enough)) return kUnknown;
            const double least = least_z(here, enough), by = P(std::max(least, -1.0)) * square_;
            if (least >= -1.0) return here - by - kSlack * (size_ + by) - f_.idle_deviance - blurred();
            if (!leave_out()) return kUnknown;
        }
        return kUnknown;
    }

    // Where T is after a part of the coefficient is taken off: its deviance, less that of now, the scores and the curvature.
    FBED_HOT void start(double t) {
        std::fill(right_.begin(), right_.end(), 0.0);
        std::copy_n(f_.g0, f_.r, right_.begin());
        curvature_.changes.clear();
        gained_ = size_ = 0;
        for (size_t i = 0; i < rows_.size(); ++i) {
            const MovedRow& row = rows_[i];
            const double m = row.sign * (row.without + (1.0 - t) * beta_ * row.x), e = exp_of_negative(-std::abs(m)), one = 1.0 / (1.0 + e);
            const double wrong = wrong_[i] = m >= 0 ? e * one : one, counts = out_of_t_[i] ? 0.0 : row.weight;
            const double after = counts * (log1p_of_unit(e) - std::min(m, 0.0)), before = row.weight * row.dev;
            gained_ += 2.0 * (after - before);
            size_ += 2.0 * (after + before);
            curvature_.changes.push_back({row.g, row.curvature - counts * e * one * one});
            add_row(right_.data(), counts * row.sign * wrong - row.score, row.g, f_.stride);
        }
        for (int64_t row : outside_) {
            const double *g = f_.row(row), lost = 2.0 * f_.a[row] * f_.dev[row];
            gained_ -= lost, size_ += lost;
            curvature_.changes.push_back({g, f_.a[row] * f_.w[row]});
            add_row(right_.data(), -f_.a[row] * f_.res[row], g, f_.stride);
        }
    }

    // C e = right + theta·q, with what is left of the coefficient along q.
    void take_step(double t) {
        double along = 0, own = 0, pulled = 0, theta = 0;
        curvature_.solve(right_.data(), e_.data());
        if (length_ > 0) {
            curvature_.solve(q_.data(), other_.data());
            for (int64_t k = 0; k < f_.r; ++k) along += q_[k] * e_[k], own += q_[k] * other_[k];
            theta = (-(1.0 - t) * beta_ / length_ - along) / own;
        }
        for (int64_t k = 0; k < f_.r; ++k) e_[k] += theta * other_[k], pulled += (right_[k] + theta * q_[k]) * e_[k];
        for (int64_t k = f_.r; k < f_.stride; ++k) e_[k] = 0.0;
        square_ = std::max(pulled, 0.0);
    }

    // 2(1 - t)·beta·sum_T a(y - m)x, and z of the rows of T.
    FBED_HOT double linear(double t) {
        double sum = 0, size = 0;
        for (size_t i = 0; i < rows_.size(); ++i) {
            z_[i] = 0.0;
            if (out_of_t_[i]) continue;
            const MovedRow& row = rows_[i];
            const double wrong = wrong_[i], v = row.sign * row_product(row.g, e_.data(), f_.stride);
            const double term = row.weight * row.sign * wrong * (1.0 - (1.0 - wrong) * v) * row.x;
            sum += term, size += std::abs(term);
            z_[i] = std::min(wrong * v, (wrong - 1.0) * v);
        }
        const double by = 2.0 * (1.0 - t) * beta_;
        size_ += std::abs(by) * size;
        return by * sum;
    }

    // Rows with small norms that may move as far as they like leave enough, or all rows are looked at.
    double least_z(double here, double enough) {
        double least = 0, most = 0, idle = 0, harmless = 0;
        for (double z : z_) least = std::min(least, z);
        for (double z : {1.0, 0.5, 0.2})
            if (here - P(-z) * square_ > enough && harmless == 0.0) harmless = z;
        if (!(least >= -1.0)) harmless = 0.0;
        looked_at_all_ = !look_by_norm(f_, e_.data(), std::sqrt(row_product(e_.data(), e_.data(), f_.stride)), harmless, least, most, idle);
        if (!looked_at_all_ && least >= -1.0) return least;
        return look_at_all();
    }

    FBED_HOT double look_at_all() {
        double *v = work_.dir.data(), *z = work_.values.data(), least = 0;
        const double *a = f_.a, *mu = f_.mu;
        std::fill(v, v + f_.n, 0.0);
        f_.add(e_.data(), v);
        for (const MovedRow& row : rows_)
            if (row.place >= 0) v[row.place] = 0.0;
        for (int64_t row : outside_) v[row] = 0.0;
#pragma omp simd reduction(min : least)
        for (int64_t i = 0; i < f_.n; ++i) {
            z[i] = a[i] > 0 ? std::min((1.0 - mu[i]) * v[i], -mu[i] * v[i]) : 0.0;
            least = std::min(least, z[i]);
        }
        looked_at_all_ = true;
        for (double own : z_) least = std::min(least, own);
        return least;
    }

    // Whether there are rows that have to be, and few enough.
    bool leave_out() {
        if (!looked_at_all_) look_at_all();
        size_t before = outside_.size(), own = 0;
        for (size_t i = 0; i < rows_.size(); ++i)
            if (!out_of_t_[i] && z_[i] < kNearlyOut) out_of_t_[i] = 1, ++own;
        for (int64_t row = 0; row < f_.n; ++row)
            if (work_.values[row] < kNearlyOut) outside_.push_back(row);
        return (own > 0 || outside_.size() > before) && static_cast<int64_t>(outside_.size()) <= f_.r;
    }

    // Far out, rounding has taken linear predictors out of the model's span.
    FBED_HOT double blurred() const {
        double pull = 0;
        for (int64_t i = 0; i < f_.n; ++i) pull += f_.a[i] * std::abs(f_.res[i]);
        for (const MovedRow& row : rows_) pull += row.weight;
        return 4.0 * f_.blur * reach_ * pull;
    }

    const Null& f_;
    Work& work_;
    const std::vector<MovedRow>& rows_;
    double beta_, length_ = 0;
    std::vector<double> q_, e_, right_, other_, wrong_, z_;
    double reach_;
    ChangedCurvature curvature_;
    std::vector<char> out_of_t_;    // rows of T that are set to their outcome
    std::vector<int64_t> outside_;  // and others
    double gained_ = 0, square_ = 0, size_ = 0, promise_ = 0;
    bool looked_at_all_ = false;
};

}  // namespace fbed
