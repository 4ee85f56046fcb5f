// Upper bounds on the statistic of a column from Newton's first step with it: its score, and how far the step moves every row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "bounds.hpp"
#include "linear.hpp"
#include "logistic.hpp"
#include "processors.hpp"
#include "refine.hpp"
#include "support.hpp"

namespace fbed {

// A column that keeps no more than this part of its norm² is no other than the model, if its equation is met as well as this.
constexpr double kNothing = 1e-10, kMet = 1e-12;

// x is what the model explains of it, Gc, and a rest that is orthogonal to the model. The step moves rows by v = G·along + own·x.
class ScoreStep {
   public:
    // A column that is 0 but on its support.
    ScoreStep(const Null& f, Work& work, const Support& s) : f_(f), v_(work.dir.data()), x_(work.x.data()), support_(&s), c_(f.stride, 0.0) {
        project();
    }

    // A column that is orthogonal to the model, with what is left of its norm².
    ScoreStep(const Null& f, Work& work, double rest) : f_(f), v_(work.dir.data()), x_(work.x.data()), c_(f.stride, 0.0), total_(rest), rest_(rest) {
        for (int64_t i = 0; i < f.n; ++i) slope_ += f.a[i] * f.res[i] * x_[i];
    }

    // Infinite where it is not below the aim, as soon as that is known.
    double upper(double aim) {
        if (!promises(aim)) return kNone;
        move(c_, -slope_ / rest_, slope_ / rest_);
        const double high = at_once();
        return high < aim ? high : without_rows(aim);
    }

    // The same without rows that the step takes beyond their side: they are set to their outcome, which costs what they have left.
    // The rest of the step is another then; few rows make a small system.
    double without_rows(double aim) {
        if (!promises(aim)) return kNone;
        if (support_) spread();
        std::vector<int64_t> out;
        double cost = 0, decrement = slope_ * slope_ / rest_;
        for (int attempt = 0; attempt < 3; ++attempt) {
            const size_t before = out.size();
            for (int64_t i = 0; i < f_.n; ++i)
                if (z(i) < kNearlyOut) {
                    out.push_back(i);
                    cost += 2.0 * f_.a[i] * f_.dev[i];
                }
            if (out.size() == before || static_cast<int64_t>(out.size()) > f_.r) return kNone;
            if (!(f_.clip(cost + decrement) < aim) || !step_without(out, decrement)) return kNone;
            double least = 0;
            for (int64_t i = 0; i < f_.n; ++i) least = std::min(least, z(i));
            if (least >= -1.0) return f_.clip((cost + P(least) * decrement) * (1.0 + kSlack));
        }
        return kNone;
    }

    // Rows by which the last step moves: for a column that is orthogonal to the model, the first one.
    void take_first_step() {
        const double own = slope_ / rest_;
        for (int64_t i = 0; i < f_.n; ++i) v_[i] = own * x_[i];
    }

   private:
    static constexpr double kNone = std::numeric_limits<double>::infinity();

    bool promises(double aim) const {
        return rest_ > kCancelled * total_ && f_.clip((slope_ * slope_ / rest_ + f_.inexact) * (1.0 + kSlack)) < aim;
    }

    void project() {
        is_quick_by_terms() ? project_by_terms() : project_by_rows();
        rest_ = total_;
        for (int64_t k = 0; k < f_.r; ++k) {
            rest_ -= c_[k] * c_[k];
            slope_ -= c_[k] * f_.g0[k];  // what the fit itself has left is no merit of x
        }
    }

    bool is_quick_by_terms() const { return f_.sparse && support_->m * f_.stride > f_.n + f_.sparse->terms.stored() + f_.r * f_.r; }

    FBED_HOT void project_by_rows() {
        const Support& s = *support_;
        double* c = c_.data();
        for (int64_t i = 0; i < s.m; ++i) {
            const int64_t row = s.rows[i];
            const double t = f_.a[row] * f_.w[row] * s.x[i];
            slope_ += f_.a[row] * f_.res[row] * s.x[i];
            total_ += t * s.x[i];
            add_row(c, t, f_.row(row), f_.stride);
        }
    }

    void project_by_terms() {
        const Support& s = *support_;
        std::fill(v_, v_ + f_.n, 0.0);
        for (int64_t i = 0; i < s.m; ++i) {
            const int64_t row = s.rows[i];
            const double t = f_.a[row] * f_.w[row] * s.x[i];
            slope_ += f_.a[row] * f_.res[row] * s.x[i];
            total_ += t * s.x[i];
            v_[row] = t;
        }
        f_.products(v_, c_.data());
    }

    // x side by side with all rows.
    void spread() {
        std::fill(x_, x_ + f_.n, 0.0);
        for (int64_t i = 0; i < support_->m; ++i) x_[support_->rows[i]] = support_->x[i];
    }

    void move(const std::vector<double>& along, double times, double own) {
        std::vector<double> scaled(along);
        for (double& value : scaled) value *= times;
        std::fill(v_, v_ + f_.n, 0.0);
        f_.add(scaled.data(), v_);
        if (support_)
            for (int64_t i = 0; i < support_->m; ++i) v_[support_->rows[i]] += own * support_->x[i];
        else
            for (int64_t i = 0; i < f_.n; ++i) v_[i] += own * x_[i];
    }

    FBED_HOT double at_once() const {
        const double *a = f_.a, *mean = f_.mu, *curvature = f_.w, *v = v_;
        double least = 0, s3 = 0, s4 = 0;
#pragma omp simd reduction(min : least) reduction(+ : s3, s4)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double t = a[i] > 0 ? v[i] : 0.0, m = mean[i], aw = a[i] * curvature[i], t2 = t * t;
            least = std::min(least, std::min((1.0 - m) * t, -m * t));
            s3 += aw * (1.0 - 2.0 * m) * t2 * t;
            s4 += aw * (1.0 - 3.0 * curvature[i]) * t2 * t2;
        }
        return bracket(f_, slope_ * slope_ / rest_, least, 0.0, s3, s4, 0.0).upper;
    }

    double z(int64_t i) const { return f_.a[i] > 0 ? std::min((1.0 - f_.mu[i]) * v_[i], -f_.mu[i] * v_[i]) : 0.0; }

    // The step of all rows but some, which do not move: G and the rest of x, in units of its norm, lose what these have of them.
    // False where that is next to everything in some direction, unless x is no other than the model on the other rows.
    FBED_HOT bool step_without(const std::vector<int64_t>& rows, double& decrement) {
        const int64_t m = static_cast<int64_t>(rows.size()), r = f_.r, stride = f_.stride;
        const double unit = 1.0 / std::sqrt(rest_);
        std::vector<double> B(m * stride, 0.0), A(m * m), step(stride, 0.0), pull(m), own(m), along(m);
        std::copy_n(f_.g0, r, step.data());
        double slope = slope_ * unit, left = 1.0;
        for (int64_t i = 0; i < m; ++i) {
            const int64_t row = rows[i];
            const double *g = f_.row(row), value = unit * (x_[row] - row_product(g, c_.data(), stride));
            const double score = f_.a[row] * f_.res[row], root = std::sqrt(f_.a[row] * f_.w[row]);
            add_row(step.data(), -score, g, stride);
            add_row(B.data() + i * stride, root, g, stride);
            slope -= score * value;
            own[i] = along[i] = root * value;
        }
        for (int64_t i = 0; i < m; ++i) {
            const double* b = B.data() + i * stride;
            for (int64_t j = 0; j <= i; ++j) A[i * m + j] = (i == j ? 1.0 : 0.0) - row_product(b, B.data() + j * stride, stride);
            if (!(A[i * m + i] > kLeast)) return false;
            pull[i] = row_product(b, step.data(), stride);
        }
        if (!(cholesky(A.data(), m) > kLeast)) return false;
        std::vector<double> solved(pull);
        cholesky_solve(A.data(), m, solved.data());
        cholesky_solve(A.data(), m, along.data());
        decrement = row_product(step.data(), step.data(), stride);
        for (int64_t i = 0; i < m; ++i) {
            decrement += solved[i] * pull[i];
            slope += own[i] * solved[i];
            left -= own[i] * along[i];
        }
        const bool depends = left <= kNothing;
        if (!depends && !(left > kLeast)) return false;
        const double by = depends ? 0.0 : slope / left;
        decrement += by * slope;
        for (int64_t i = 0; i < m; ++i) add_row(step.data(), solved[i] + by * along[i], B.data() + i * stride, stride);
        add_row(step.data(), -by * unit, c_.data(), stride);
        move(step, 1.0, by * unit);
        for (int64_t row : rows) v_[row] = 0.0;
        return !depends || is_met(rows);
    }

    // Whether what is left of the scores of the rows but some is orthogonal to x.
    bool is_met(const std::vector<int64_t>& rows) const {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < f_.n; ++i) {
            const double score = f_.a[i] * f_.res[i] * x_[i];
            sum += score - f_.a[i] * f_.w[i] * v_[i] * x_[i];
            size += std::abs(score);
        }
        for (int64_t row : rows) sum -= f_.a[row] * f_.res[row] * x_[row];
        return std::abs(sum) <= kMet * size;
    }

    const Null& f_;
    double *v_, *x_;
    const Support* support_ = nullptr;
    std::vector<double> c_;  // G'aw x
    double slope_ = 0, total_ = 0, rest_ = 0;
};

}  // namespace fbed
