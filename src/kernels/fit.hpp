// Maximum likelihood of a logistic model that is given as a matrix, by Newton steps that survive separation and outliers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "bounds.hpp"
#include "elementary.hpp"
#include "processors.hpp"
#include "linear.hpp"
#include "logistic.hpp"
#include "pause.hpp"
#include "refine.hpp"
#include "tied.hpp"
#include "whiten.hpp"

namespace fbed {

// Where a Newton fit of the model itself ended.
struct Fitted {
    double deviance = 0, decrement = 0;
    double certain = 0;  // no coefficients have a deviance below this
    bool separated = false;
    int iterations = 0;
};

// A step that has to be cut to less than a thousandth goes wrong in some direction: one that only moves saturated rows,
// whose slope is rounding and whose curvature is nothing, or one that is saturated by an outlier, which hides how far it
// may go. A ridge, relative to each curvature, takes such directions out until the others have done their part.
constexpr double kLeastRidge = 1e-10, kGentle = 1e-13, kSteep = 1e12;

// How much a step may enlarge the linear predictors. Where all rows that a direction moves are saturated, its slope is
// rounding and its curvature nothing: their quotient is any number, and rounding grows with the coefficients.
constexpr double kFurther = 100.0;

// A deviance that falls by less, relative, has not fallen; a fit that promises no more than this to gain may end there.
constexpr double kRounding = 1e-15, kClose = 1e-10;

// A fit that promises to gain more than this part of what it has to spare has not settled yet: looking for a dual point costs
// more than another step. So it does where one was looked for in vain, until a step promises this part of what it did then.
constexpr double kNear = 0.1, kAgain = 0.25;

// Part of what a fit has to spare that rows may hold which it leaves out: those with hardly any deviance have hardly any
// curvature either, and columns that differ in them only would nearly depend on each other.
constexpr double kSpared = 0.25;

// Steps after which a fit looks for a way to infinity: most fits have ended by then.
constexpr int kEarly = 4;

// A column that keeps less than this part of its norm² beside earlier ones moves none of the rows that are looked at.
constexpr double kDependent = 1e-22;

// Coefficients whose pivot is below a part of the curvature do not move when that would gain less than a part of the
// tolerance; their pivot is then this.
constexpr double kDoubtful = 1e-8, kIdle = 1e-2, kFixed = 1e150;

// A pivot below this part of the curvature has few digits.
constexpr double kHidden = 2e-14;

// Maximise the likelihood of beta, eta = Z beta, by damped Newton steps, beside an offset. Z are the terms; of f only n, r, sign, weight
// and offset are read.
template <class Terms>
class Fitter {
   public:
    Fitter(const Null& f, const Terms& terms, double* beta, double* eta, double tolerance, double enough)
        : f_(f), terms_(terms), work_(f, f.n), beta_(beta), eta_(eta), tolerance_(tolerance), enough_(enough), trial_(f.r), whole_(f.r) {}

    // From the best of several starts, one a row.
    Fitted run(const double* starts, size_t count) {
        for (int64_t k = 0; k < f_.r; ++k) whole_[k] = terms_.square(k);
        out_.deviance = std::numeric_limits<double>::infinity();
        size_t best = count;
        for (size_t j = count; j-- > 0;) {  // the best is most often the first: it need not be looked at twice then
            predict_rows(starts + j * f_.r);
            const double here = deviance();
            if (best < count && !(here < out_.deviance)) continue;
            best = j;
            out_.deviance = here;
        }
        std::copy(starts + best * f_.r, starts + (best + 1) * f_.r, beta_);
        if (best > 0) {
            predict_rows(beta_);
            out_.deviance = deviance();
        }
        double promised = 0;  // by the last step without a ridge
        bool done = false;    // the last step costs little and takes the fit from the tolerance to rounding
        for (; out_.iterations < 200 && !out_.separated && !done; ++out_.iterations) {
            look_up();
            if (out_.iterations >= kEarly && only_tied_rows_are_left()) return out_;
            score_rows();
            newton_step();
            const bool sound = out_.decrement >= 0;  // not NaN, nor what rounding leaves of a singular curvature
            if (sound && is_enough()) return out_;
            done = sound && out_.decrement <= tolerance_ && ridge_ < kGentle;
            if (ridge_ < kGentle) promised = sound ? out_.decrement : std::numeric_limits<double>::infinity();
            const double before = out_.deviance;
            if (sound && advance() && before - out_.deviance > kRounding * before) {
                ridge_ = ridge_ > kLeastRidge ? ridge_ * 0.01 : 0.0;
                careful_ = false;
            } else {
                const bool close = sound && out_.decrement <= kClose && ridge_ < kGentle;
                done = done || close;  // rounding hides the rest
                if (ridge_ > kSteep) break;  // not even the gradient leads anywhere
                if (careful_) ridge_ = std::max(kLeastRidge, ridge_ * 1e3);
                careful_ = true;
            }
        }
        out_.decrement = promised;
        if (out_.separated) out_.deviance = 0;
        out_.certain = done || out_.separated ? out_.deviance : 0.0;
        return out_;
    }

   private:
    // Whether the best model is known: it explains every row but those that no model tells apart. Rows as they are stored are
    // equal or not; those of a basis are equal but for rounding.
    bool only_tied_rows_are_left() {
        if constexpr (std::is_same_v<Terms, SparseTerms>) {
            if (f_.offset) return false;
            Tied tied(terms_, f_.sign, f_.weight, beta_, eta_);
            if (!tied.found()) return false;
            std::copy(tied.coefficients.begin(), tied.coefficients.end(), beta_);
            predict_rows(beta_);
            out_.deviance = out_.certain = tied.deviance;
            out_.decrement = 0;
            return true;
        }
        return false;
    }

    void predict(const double* b, double* eta) {
        std::fill(eta, eta + f_.n, 0.0);
        terms_.add(b, eta);
    }

    // The linear predictor, offset and all.
    void predict_rows(const double* b) {
        predict(b, eta_);
        if (f_.offset)
            for (int64_t i = 0; i < f_.n; ++i) eta_[i] += f_.offset[i];
    }

    FBED_HOT double deviance() {
        double sum = 0, least = std::numeric_limits<double>::infinity(), most = 0;
        const double *sign = f_.sign, *eta = eta_, *weight = f_.weight;
#pragma omp simd reduction(+ : sum) reduction(min : least) reduction(max : most)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double m = sign[i] * eta[i];
            least = std::min(least, m);
            most = std::max(most, m);
            sum += weight[i] * loss(m);
        }
        out_.separated = least > kClear * std::max(1.0, most) &&
                         columns_separate(f_, most, [](int64_t) { return true; }, [&](int64_t i) { return eta_[i]; });
        reach_ = std::max(most, -least);
        return 2.0 * sum;
    }

    FBED_HOT void score_rows() {
        double *score = work_.values.data(), *aw = work_.aw.data();
        const double *sign = f_.sign, *eta = eta_, *weight = f_.weight;
#pragma omp simd
        for (int64_t i = 0; i < f_.n; ++i) {
            const double m = sign[i] * eta[i], e = exp_of_negative(-std::abs(m)), one = 1.0 / (1.0 + e);
            const double wrong = m >= 0 ? e * one : one, curvature = e * one * one;
            aw[i] = curvature < 1e-17 ? 0.0 : weight[i] * curvature;  // saturated beyond notice
            score[i] = weight[i] * sign[i] * wrong;
        }
    }

    // Whether the deviance of the best model is certain to be more than enough. Leaving rows out lowers it, and the rest is
    // bounded from below by a feasible dual point: the residuals less their projection on the model, in the metric of the
    // curvature. Rows whose residual would change its side are left out: by Newton's step to begin with, which costs next
    // to nothing and mostly tells that it is too early, then by each projection that was tried.
    bool is_enough() {
        const double to_spare = out_.deviance - enough_;
        if (!(out_.decrement < std::min(kNear * to_spare, kAgain * in_vain_))) return false;
        in_vain_ = out_.decrement;
        std::vector<double> left(f_.n), z;
        std::vector<int64_t> rows = rows_that_stay(left, kSpared * to_spare / static_cast<double>(f_.n));
        for (int attempt = 0; attempt < 4 && !rows.empty(); ++attempt) {
            double kept = 0;
            for (int64_t row : rows) kept += left[row];
            if (kept - out_.decrement <= enough_) return false;
            z.resize(rows.size());
            const double lambda2 = project(rows, z);
            const double least = *std::min_element(z.begin(), z.end());
            if (least >= -1.0) {
                out_.certain = (kept - lambda2 * P(least) * (1.0 + kSlack)) * (1.0 - kSlack) - blurred(rows, lambda2);
                return out_.certain > enough_;
            }
            size_t stay = 0;
            for (size_t i = 0; i < rows.size(); ++i)
                if (z[i] > kNearlyOut) rows[stay++] = rows[i];
            rows.resize(stay);
        }
        return false;
    }

    // What rounding may have made of the deviance of linear predictors far out: it takes them out of the model's span, and the
    // residuals of the dual point, those of the rows less a step of norm² lambda2, are orthogonal to that span only.
    double blurred(const std::vector<int64_t>& rows, double lambda2) const {
        double pull = 0, curvature = 0;
        for (int64_t row : rows) pull += std::abs(work_.values[row]), curvature += work_.aw[row];
        return 2.0 * kBlur * reach_ * (pull + std::sqrt(curvature * lambda2));
    }

    // Rows that stay on their side of Newton's step and have as much left to explain; and what that is for each row.
    FBED_HOT std::vector<int64_t> rows_that_stay(std::vector<double>& left, double least) {
        predict(work_.step.data(), work_.dir.data());
        std::vector<int64_t> rows;
        rows.reserve(f_.n);
        for (int64_t i = 0; i < f_.n; ++i) {
            left[i] = 2.0 * f_.weight[i] * loss(f_.sign[i] * eta_[i]);
            const double wrong = std::abs(work_.values[i]) / f_.weight[i], v = f_.sign[i] * work_.dir[i];
            if (left[i] > least && work_.aw[i] > 0 && std::min(wrong * v, (wrong - 1.0) * v) > kNearlyOut) rows.push_back(i);
        }
        return rows;
    }

    // Squared norm of the projection of the rows' residuals on the model, and the least z of the step along it, row by row.
    FBED_HOT double project(const std::vector<int64_t>& rows, std::vector<double>& z) {
        double lambda2;
        if (terms_.project(rows, work_.aw.data(), work_.values.data(), eta_, z, lambda2)) return lambda2;
        return project_by_basis(rows, z);
    }

    FBED_HOT double project_by_basis(const std::vector<int64_t>& rows, std::vector<double>& z) {
        const size_t m = rows.size(), r = static_cast<size_t>(f_.r);
        std::vector<double> along(m, 0.0), root(m), along_basis(r);
        for (size_t i = 0; i < m; ++i) root[i] = std::sqrt(work_.aw[rows[i]]);
        std::vector<double> columns = terms_.gathered(rows);
        for (size_t k = 0; k < r; ++k)
            for (size_t i = 0; i < m; ++i) columns[k * m + i] *= root[i];
        size_t rank = 0;  // the first columns become an orthonormal basis
        double lambda2 = 0;
        for (size_t k = 0; k < r; ++k) {
            double *left = columns.data() + k * m, *unit = columns.data() + rank * m;
            const double before = dot(left, left, m);
            double after = before;
            for (int pass = 0; pass < 2; ++pass) {
                products(columns.data(), m, rank, left, along_basis.data());
                for (double& c : along_basis) c = -c;
                add_columns(columns.data(), m, rank, along_basis.data(), left);
                const double last = after;
                after = dot(left, left, m);
                if (after > 0.1 * last) break;  // rounding has not grown
            }
            if (!(after > kDependent * before)) continue;
            const double scale = 1.0 / std::sqrt(after);
            double slope = 0;
            for (size_t i = 0; i < m; ++i) {
                unit[i] = left[i] * scale;
                slope += unit[i] * work_.values[rows[i]] / root[i];
            }
            lambda2 += slope * slope;
            for (size_t i = 0; i < m; ++i) along[i] += slope * unit[i];
            ++rank;
        }
        for (size_t i = 0; i < m; ++i) {
            const double v = along[i] / root[i], mu = logistic(eta_[rows[i]]);
            z[i] = std::min((1.0 - mu) * v, -mu * v);
        }
        return lambda2;
    }

    FBED_HOT void newton_step() {
        double *grad = work_.grad.data();
        const double* score = work_.values.data();
        terms_.products(score, grad);
        terms_.gram(work_.aw.data(), work_.hess.data());
        for (int64_t k = 0; k < f_.r; ++k) work_.hess[k * f_.r + k] *= 1.0 + ridge_;
        if (careful_ || !solve(work_.hess.data(), grad, work_.step.data())) solve_with_care(grad, work_.step.data());
        out_.decrement = 0;
        for (int64_t k = 0; k < f_.r; ++k) out_.decrement += grad[k] * work_.step[k];
    }

    // step = H⁻¹ grad by Cholesky. A column that depends on others but for saturated rows has a pivot that is rounding, and
    // the step along it would be any number: where nothing is to be gained from it either, it stays where it is. False where
    // that is not certain.
    FBED_HOT bool solve(const double* H, const double* grad, double* step) {
        const int64_t r = f_.r, stride = whole(r);
        const double most = *std::max_element(work_.aw.begin(), work_.aw.end());
        factor_.assign(r * stride, 0.0);  // the transposed factor, row after row
        slope_.assign(stride, 0.0);
        size_.assign(stride, 0.0);
        double *slope = slope_.data(), *size = size_.data();
        std::copy(grad, grad + r, slope);
        for (int64_t i = 0; i < r; ++i)
            for (int64_t j = 0; j <= i; ++j) factor_[j * stride + i] = H[i * r + j];
        bool certain = true;
        for (int64_t j = 0; j < r; ++j) {
            double* row = factor_.data() + j * stride;
            const double diagonal = H[j * r + j], pivot = row[j];
            const bool nothing = !(diagonal > kNoise * whole_[j] * most);
            const double least = nothing ? blind_curvature(j) : kLifted * diagonal;
            const bool doubtful = nothing || !(pivot > kDoubtful * diagonal), hidden = !(pivot > kHidden * diagonal);
            bool idle = (doubtful && slope[j] * slope[j] <= kIdle * tolerance_ * std::max(pivot, least)) || least > kFixed;
            if (!idle && hidden && !nothing) idle = std::abs(slope[j]) <= 1e-13 * size[j] + 5.0 * kRounding * pull(j);
            certain = certain && (idle || nothing || !hidden);
            const double root = idle ? kFixed : std::sqrt(std::max(pivot, least)), unit = 1.0 / root;
            for (int64_t l = j + 1; l < r; ++l) row[l] *= unit;
            row[j] = root;
            const double own = step[j] = slope[j] * unit;
#pragma omp simd
            for (int64_t l = j + 1; l < r; ++l) {
                slope[l] -= row[l] * own;
                size[l] += std::abs(row[l] * own);
            }
            take_off(factor_.data(), r, stride, j);
        }
        for (int64_t i = r; i-- > 0;) {
            const double* row = factor_.data() + i * stride;
            double s = step[i];
#pragma omp simd reduction(- : s)
            for (int64_t l = i + 1; l < r; ++l) s -= row[l] * step[l];
            step[i] = s / row[i];
        }
        return certain;
    }

    // What the rows pull at a column, all in the same sense: rounding of its slope is a part of this.
    double pull(int64_t k) const {
        const double* score = work_.values.data();
        return terms_.sum(k, [score](int64_t i, double x) { return std::abs(score[i] * x); });
    }

    // Curvature along a direction that moves only rows which are as good as certain. Those on the wrong side pull with all
    // their weight, and nothing shows how far to go: the curvature of the parabola that touches their loss there and is
    // above it everywhere, tanh(m/2)/(2m), tells a way that is not too far. Those on the right side have nothing to gain.
    double blind_curvature(int64_t k) const {
        const double sum = terms_.sum(k, [this](int64_t i, double x) { return blind(i, x); });
        return sum > 0 ? sum : std::numeric_limits<double>::infinity();
    }
    double blind_curvature(const std::vector<double>& direction) const {
        double sum = 0;
        for (int64_t i = 0; i < f_.n; ++i) sum += blind(i, direction[i]);
        return sum > 0 ? sum : std::numeric_limits<double>::infinity();
    }
    double blind(int64_t i, double x) const {
        return f_.sign[i] * eta_[i] < 0 && work_.aw[i] == 0.0 ? x * x * f_.weight[i] / (2.0 + 2.0 * std::abs(eta_[i])) : 0.0;
    }

    // The same from a basis that is orthonormal in the metric of the curvature, however small some curvatures are. Along a
    // direction in which they are, what rounding leaves of a slope would be a long step: such directions stay.
    void solve_with_care(const double* grad, double* step) const {
        const int64_t n = f_.n, r = f_.r;
        const Whitened basis = terms_.whitened(work_.aw.data());
        std::vector<double> size(r);
        for (int64_t k = 0; k < r; ++k) size[k] = pull(k);
        std::fill(step, step + r, 0.0);
        const auto go = [&](const std::vector<double>& directions, int64_t count, int64_t j, double curvature) {
            double along = 0, rounding = 0;
            for (int64_t k = 0; k < r; ++k) {
                const double m = directions[k * count + j];
                along += m * grad[k];
                rounding += kRounding * std::abs(m) * size[k];
            }
            if (std::abs(along) <= rounding) return;
            for (int64_t k = 0; k < r; ++k) step[k] += directions[k * count + j] * along / curvature;
        };
        for (int64_t j = 0; j < basis.kept; ++j) go(basis.M, basis.kept, j, 1.0 + ridge_);
        std::vector<double> direction(r), moved(n);
        for (int64_t j = 0; j < r - basis.kept; ++j) {
            for (int64_t k = 0; k < r; ++k) direction[k] = basis.free[k * (r - basis.kept) + j];
            std::fill(moved.begin(), moved.end(), 0.0);
            terms_.add(direction.data(), moved.data());
            go(basis.free, r - basis.kept, j, blind_curvature(moved) * (1.0 + ridge_));
        }
    }

    double deviance_at(double t) {
        for (int64_t k = 0; k < f_.r; ++k) trial_[k] = beta_[k] + t * work_.step[k];
        predict_rows(trial_.data());
        return deviance();
    }

    bool stay() {
        predict_rows(beta_);
        deviance();
        return false;
    }

    // Halve the step until the deviance falls; false when a thousandth of it does not help. Towards infinity, where rows are
    // being separated, Newton's steps add 1 to a margin at a time and are all alike: there, double them.
    bool advance() {
        const double furthest = kFurther * std::max(1.0, reach_);
        double t = 1.0, now = deviance_at(t);
        if (reach_ > furthest) {
            t = furthest / reach_;
            now = deviance_at(t);
        }
        const double shortest = 1e-3 * t;
        while (!(now <= out_.deviance * (1.0 + 1e-12)) || reach_ > kFurthest) {
            t *= 0.5;
            if (t < shortest) return stay();
            now = deviance_at(t);
        }
        if (t == 1.0 && out_.iterations >= 4 && out_.decrement > 0.1 * last_decrement_) {
            double further = deviance_at(2.0 * t);
            while (further < now && t < 64.0 && reach_ <= kFurthest) {
                t *= 2.0;
                now = further;
                further = deviance_at(2.0 * t);
            }
            now = deviance_at(t);
        }
        last_decrement_ = out_.decrement;
        std::copy(trial_.begin(), trial_.end(), beta_);
        out_.deviance = now;
        return true;
    }

    const Null& f_;
    const Terms& terms_;
    Work work_;
    double *beta_, *eta_;
    double tolerance_, enough_;
    std::vector<double> factor_, slope_, size_;
    std::vector<double> trial_, whole_;  // whole_: norm² of each column, saturated rows and all
    double last_decrement_ = 0, ridge_ = 0;
    double in_vain_ = std::numeric_limits<double>::infinity();  // decrement where a dual point was looked for last
    bool careful_ = false;  // since the last step failed
    double reach_ = 0;  // largest linear predictor, in size, of the model looked at last
    Fitted out_;
};

}  // namespace fbed
