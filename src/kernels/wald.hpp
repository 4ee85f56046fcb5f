// Wald statistics of columns that join a model of two classes, of trials or of counts, each enclosed as far as somebody asks.
//
// On columns B = [Q x̂] that are orthonormal under the curvatures w⁰ of the model's fit, the curvature of the larger model is
// H⁰ = I there. Rows have |w'| ≤ w: where no predictor has moved by more than m₁, H⁰/S ≤ H ≤ S·H⁰ with S = e^m₁. From a point with
// gradient g, the way to the maximum is A⁻¹g under that metric, with
//
//     (1 − e^−m)/(S·m)  ≤  A  ≤  S·(e^m − 1)/m,
//
// as long as no predictor moves by more than m on it. A row moves by b_iᵀA⁻¹g, which is not more than c·M + d·L, where c and d
// are middle and half width of the interval of A⁻¹, M the largest |b_iᵀg| and L = |g|·max|b_i|. Where that is less than m, a
// maximum exists and nobody moves further: on the way there (gradient (1 − t)g at time t) m would have to be passed. So
//
//     e^−m = [1 − S(M + L)/2] / [1 − (L − M)/2S],
//
// if that is above 0, encloses the coefficient, and the information about it is e^±m times that at the point. The same holds
// with S = 1 under the curvature of the point itself, where it is computed. Intervals narrow with the square of the step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "linear.hpp"
#include "pause.hpp"
#include "rows.hpp"

namespace fbed {

struct WaldInterval {
    double lower, upper;
};

// Residual and information of every row at its predictor; returns the sum of the residuals' sizes.
FBED_HOT inline double logistic_scores(int64_t n, const double* eta, const double* y, const double* a, double* residual, double* curvature) {
    double size = 0;
#pragma omp simd reduction(+ : size)
    for (int64_t i = 0; i < n; ++i) {
        const double t = eta[i], e = exp_of_negative(t < 0.0 ? t : -t), one = 1.0 / (1.0 + e);
        const double left = a[i] * (y[i] - (t < 0.0 ? e * one : one));
        residual[i] = left;
        curvature[i] = a[i] * (e * one * one);
        size += std::abs(left);
    }
    return size;
}

FBED_HOT inline double poisson_scores(int64_t n, const double* eta, const double* y, const double* a, double* residual, double* curvature) {
    double size = 0;
#pragma omp simd reduction(+ : size)
    for (int64_t i = 0; i < n; ++i) {
        const double mean = exp_in_range(eta[i]), left = a[i] * (y[i] - mean);
        residual[i] = left;
        curvature[i] = a[i] * mean;
        size += std::abs(left);
    }
    return size;
}

// x times a factor, and the largest h_i + x_i² after that.
FBED_HOT inline double scaled(double* x, int64_t n, double factor, const double* h) {
    double most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; ++i) {
        x[i] *= factor;
        most = std::max(most, h[i] + x[i] * x[i]);
    }
    return most;
}

FBED_HOT inline void times(const double* a, const double* b, int64_t n, double* out) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

// eta += size·move; returns how far it is from where it began.
FBED_HOT inline double advanced(double* eta, int64_t n, double size, const double* move, const double* began) {
    double most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; ++i) {
        eta[i] += size * move[i];
        most = std::max(most, std::abs(eta[i] - began[i]));
    }
    return most;
}

// Pearson's Σ r²/w, infinite where a row is certain of what did not happen.
FBED_HOT inline double pearson(int64_t n, const double* residual, const double* curvature) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += residual[i] == 0.0 ? 0.0 : residual[i] * residual[i] / curvature[i];
    return sum;
}

FBED_HOT inline double largest_size(const double* v, int64_t n) {
    double most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(v[i]));
    return most;
}

enum class Pulled { no, surely, maybe };

// Rows that are separated by less, beside others, are reached too late to be sure of that.
constexpr double kTooClose = 1e-3;

// Whether x alone puts rows on their sides of some value, so that its coefficient is infinite: rows that are likelier the smaller
// their predictor not above it, rows that are likelier the larger it is not below it, all others at it.
inline Pulled pulled_apart(const double* x, const double* y, int64_t n, bool counts) {
    double low[2] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    double high[2] = {-low[0], -low[1]};
    for (int64_t i = 0; i < n; ++i) {
        if (counts || y[i] != 1.0) low[0] = std::min(low[0], x[i]), high[0] = std::max(high[0], x[i]);
        if (y[i] != 0.0) low[1] = std::min(low[1], x[i]), high[1] = std::max(high[1], x[i]);
        if (high[0] > low[1] && high[1] > low[0]) return Pulled::no;
    }
    const bool rises = high[0] <= low[1];
    const double border = 0.5 * (rises ? high[0] + low[1] : high[1] + low[0]);
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double distance = std::abs(x[i] - border);
        most = std::max(most, distance);
        if (distance > 0.0) least = std::min(least, distance);
    }
    return least > kTooClose * most ? Pulled::surely : Pulled::maybe;
}

class WaldModel {
   public:
    static constexpr int kSteps = 12;            // more than a maximum that exists needs
    static constexpr double kOvershoot = 0.5;    // part of its slope with which a step may come down on the other side
    static constexpr double kRounding = 1e-8;    // what intervals are widened by, relative: sums of a million terms lose less
    static constexpr double kNoise = 4e-15;      // rounding of a sum, beside the sum of sizes
    static constexpr double kSolved = 1e-10;     // pivots above this leave steps with digits,
    static constexpr double kInformed = 1e-6;    // and an information with as many as intervals have
    static constexpr double kMuch = 0.5;         // part of a column that is left with all its digits
    static constexpr double kLastDigits = 1e-10; // width of an interval, beside its end, that says nothing any more
    static constexpr double kNear = 1e-3;        // length of a step that is worth to know the leverage of the rows where it begins
    static constexpr double kApart = 1e-9;       // margin of rows, beside the largest predictor, that is more than rounding
    static constexpr double kVanished = 1e-8;    // part of Pearson's sum that is as good as nothing
    static constexpr double kPulledApart = 1e-2; // of an infinite coefficient: 0, and what iterations that end somewhere make of it

    // Q is n × k and orthonormal under the curvatures at eta, offset and all.
    WaldModel(const double* Q, int64_t n, int64_t k, const double* weight, const double* y, const double* eta, const double* offset, bool counts)
        : Q_(Q), n_(n), k_(k), a_(weight), y_(y), began_(eta), offset_(offset), counts_(counts), residual0_(n), curvature0_(n), leverage_(n), residual_(n),
          curvature_(n), x_(n), eta_(n), trial_(n), move_(n), weighted_(n), at_(k + 1), gradient0_(k), row_(k + 1), gradient_(k + 1), cross_(k), step_(k + 1),
          H_((k + 1) * (k + 1)) {
        size0_ = scores(began_, residual0_.data(), curvature0_.data());
        pearson0_ = pearson(n_, residual0_.data(), curvature0_.data());
        products(Q_, n_, k_, residual0_.data(), gradient0_.data());
        for (int64_t i = 0; i < n_; ++i) single_ = single_ && (y_[i] == 0.0 || y_[i] == 1.0);
        for (int64_t j = 0; j < k_; ++j)
            for (int64_t i = 0; i < n_; ++i) leverage_[i] += Q_[j * n_ + i] * Q_[j * n_ + i];
        double most = 0, square = 0;
        for (double h : leverage_) most = std::max(most, h);
        for (double g : gradient0_) square += g * g;
        before_ = std::sqrt(most * square);
    }

    // The statistic of x: an interval that is below the line, or above it and no wider than a part of its end; [0, ∞) where that is
    // not to be had without care.
    WaldInterval enclose(const double* x, double line, double width) {
        const WaldInterval unknown{0.0, std::numeric_limits<double>::infinity()};
        const Pulled pulled = pulled_apart(x, y_, n_, counts_);
        if (pulled != Pulled::no) return pulled == Pulled::surely && line > kPulledApart ? WaldInterval{0.0, kPulledApart} : unknown;
        if (!orthonormal(x)) return unknown;
        std::copy(began_, began_ + n_, eta_.begin());
        std::fill(at_.begin(), at_.end(), 0.0);
        found_ = unknown;
        moved_ = 0;
        for (int step = 0; step < kSteps; ++step) {
            look_up();
            look(step == 0);
            if (is_enough(line, width) && leaves_some(step == 0)) return answer();
            if (!solve(step == 0)) return unknown;
            if (is_enough(line, width) && leaves_some(step == 0)) return answer();
            if (!advance()) return unknown;
            if (line > kPulledApart && is_separated()) return {0.0, kPulledApart};
        }
        return unknown;
    }

   private:
    double scores(const double* eta, double* residual, double* curvature) const {
        return counts_ ? poisson_scores(n_, eta, y_, a_, residual, curvature) : logistic_scores(n_, eta, y_, a_, residual, curvature);
    }

    // x without what Q has of it, of length 1 under the curvatures of the fit.
    bool orthonormal(const double* x) {
        std::copy(x, x + n_, x_.begin());
        times(x_.data(), curvature0_.data(), n_, weighted_.data());
        double own = dot(x_.data(), weighted_.data(), static_cast<size_t>(n_)), left = own;
        for (bool again = true; again;) {  // twice is enough, and once where much is left
            products(Q_, n_, k_, weighted_.data(), cross_.data());
            for (double& c : cross_) c = -c;
            add_columns(Q_, n_, k_, cross_.data(), x_.data());
            times(x_.data(), curvature0_.data(), n_, weighted_.data());
            const double before = left;
            left = dot(x_.data(), weighted_.data(), static_cast<size_t>(n_));
            again = left < kMuch * before;
        }
        if (!(left > kInformed * own) || !std::isfinite(left)) return false;
        largest_ = scaled(x_.data(), n_, 1.0 / std::sqrt(left), leverage_.data());
        longest_ = largest_size(x_.data(), n_);
        return std::isfinite(largest_);
    }

    // What sums over the rows say of the maximum, without the curvature of the model.
    void look(bool first) {
        double size = size0_;
        if (first) {
            std::copy(residual0_.begin(), residual0_.end(), residual_.begin());
            std::copy(gradient0_.begin(), gradient0_.end(), gradient_.begin());
            std::fill(cross_.begin(), cross_.end(), 0.0);
            own_ = 1.0;
        } else {
            size = size_;
            products(Q_, n_, k_, residual_.data(), gradient_.data());
            times(x_.data(), curvature_.data(), n_, weighted_.data());
            products(Q_, n_, k_, weighted_.data(), cross_.data());
            own_ = dot(x_.data(), weighted_.data(), static_cast<size_t>(n_));
        }
        gradient_[k_] = dot(x_.data(), residual_.data(), static_cast<size_t>(n_));
        noise_ = kNoise * size * std::sqrt(largest_);
        double square = 0, lost = 0;
        for (double g : gradient_) square += g * g;
        for (double c : cross_) lost += c * c;
        const double stretch = std::exp(moved_);
        const double length = std::sqrt(square) + noise_, reach = length * std::sqrt(largest_);
        const double furthest = first ? std::abs(gradient_[k_]) * longest_ + before_ + noise_ * std::sqrt(largest_) : reach;
        keep({gradient_[k_], length, 1.0, stretch, std::min(furthest, reach), reach}, own_ - stretch * lost, own_ - lost / stretch);
    }

    // Newton's step, and what the curvature says that belongs to it.
    bool solve(bool first) {
        step_ = gradient_;
        if (first) {  // the curvature is 1
            move_rows();
            return true;
        }
        const int64_t k = k_ + 1;
        gram(Q_, n_, k_, x_.data(), curvature_.data(), H_.data());
        if (!(cholesky(H_.data(), k) > kSolved)) return false;
        cholesky_solve(H_.data(), k, step_.data());
        const double information = H_[k * k - 1] * H_[k * k - 1];  // the last pivot is what the others leave
        if (!(information > kInformed * own_)) return false;
        double decrement = 0;
        for (int64_t j = 0; j < k; ++j) decrement += step_[j] * gradient_[j];
        if (!std::isfinite(decrement)) return false;
        const double stretch = std::exp(0.5 * moved_), length = std::sqrt(std::max(decrement, 0.0)) + stretch * noise_;
        move_rows();
        double reach = length * std::sqrt(largest_) * stretch;
        if (length < kNear && reach > kNear) reach = length * std::sqrt(largest_leverage());
        const double furthest = std::min(reach, largest_size(move_.data(), n_) + stretch * noise_ * std::sqrt(largest_) * stretch);
        keep({step_[k_], length, 1.0 / std::sqrt(information), 1.0, furthest, reach}, information, information);
        return true;
    }

    // How the step changes the predictors.
    void move_rows() {
        for (int64_t i = 0; i < n_; ++i) move_[i] = step_[k_] * x_[i];
        add_columns(Q_, n_, k_, step_.data(), move_.data());
    }

    // The largest zᵀH⁻¹z of a row where the point is.
    double largest_leverage() {
        const int64_t k = k_ + 1;
        double most = 0;
        for (int64_t i = 0; i < n_; ++i) {
            double square = 0;
            for (int64_t j = 0; j < k; ++j) {
                double left = j < k_ ? Q_[j * n_ + i] : x_[i];
                for (int64_t l = 0; l < j; ++l) left -= H_[j * k + l] * row_[l];
                row_[j] = left / H_[j * k + j];
                square += row_[j] * row_[j];
            }
            most = std::max(most, square);
        }
        return most;
    }

    // A step under some metric: what it adds to the coefficient, its length, the most that a step of length 1 adds to the
    // coefficient, S, M and L.
    struct Step {
        double along, length, unit, stretch, furthest, reach;
    };

    // Narrow the interval by a step from a point where the coefficient has so much information, at least and at most.
    void keep(const Step& step, double least, double most) {
        const double part = 1.0 - 0.5 * step.stretch * (step.furthest + step.reach);
        perfect_ = std::numeric_limits<double>::infinity();
        if (!(part > 0.0) || !(least > 0.0)) return;
        const double m = std::max(std::log((1.0 - 0.5 * (step.reach - step.furthest) / step.stretch) / part), 0.0);
        const double low = (m > 1e-9 ? m / std::expm1(m) : 1.0 - 0.5 * m) / step.stretch;
        const double high = (m > 1e-9 ? -m / std::expm1(-m) : 1.0 + 0.5 * m) * step.stretch;
        const double middle = std::abs(at_[k_] + 0.5 * (low + high) * step.along);
        const double half = (0.5 * (high - low) * step.length + noise_) * step.unit;
        const double near = std::max(middle - half, 0.0), far = middle + half;
        perfect_ = std::exp(2.0 * m) * step.stretch * step.length * step.length;
        found_.lower = std::max(found_.lower, near * near * least * std::exp(-m));
        found_.upper = std::min(found_.upper, far * far * most * std::exp(m));
    }

    // Whether the maximum leaves some deviance, or none because it is at infinity. A way to a perfect fit takes all residuals away:
    // Pearson's sum would not be more than e^2m times the squared length of the step. Rounding then says what the deviance is.
    bool leaves_some(bool first) const {
        if (single_ && !counts_) return true;
        const double here = first ? pearson0_ : pearson(n_, residual_.data(), curvature_.data());
        return !(here <= perfect_ + kVanished * pearson0_);
    }

    // What was found, with what rounding may have done; a number where it is known to the last digits.
    WaldInterval answer() const {
        if (found_.upper - found_.lower <= kLastDigits * found_.upper) return {0.5 * (found_.lower + found_.upper), 0.5 * (found_.lower + found_.upper)};
        return {found_.lower * (1.0 - kRounding), found_.upper * (1.0 + kRounding)};
    }

    bool is_enough(double line, double width) const {
        if (!(found_.lower <= found_.upper)) return false;
        if (found_.upper < line * (1.0 - 2.0 * kRounding)) return true;
        return found_.lower > line * (1.0 + 2.0 * kRounding) && found_.upper - found_.lower <= width * found_.upper;
    }

    // Along the step, not so far that the likelihood falls steeply; says whether there is such a place. Rows are scored there.
    bool advance() {
        double promised = 0, size = 1.0;
        for (int64_t j = 0; j <= k_; ++j) promised += step_[j] * gradient_[j];
        for (int time = 0; time < kSteps; ++time) {
            trial_ = eta_;
            const double moved = advanced(trial_.data(), n_, size, move_.data(), began_);
            size_ = scores(trial_.data(), residual_.data(), curvature_.data());
            const double slope = dot(move_.data(), residual_.data(), static_cast<size_t>(n_));
            if (slope >= -kOvershoot * promised) {
                for (int64_t j = 0; j <= k_; ++j) at_[j] += size * step_[j];
                eta_.swap(trial_);
                moved_ = moved;
                return true;
            }
            const double part = promised / (promised - slope);
            size *= part > 0.1 ? part : 0.1;
        }
        return false;
    }

    // Whether the columns put every row on its side, by more than rounding.
    bool is_separated() const {
        if (counts_ || !single_) return false;
        double least = std::numeric_limits<double>::infinity(), most = 1.0;
        for (int64_t i = 0; i < n_; ++i) {
            const double eta = offset_ ? eta_[i] - offset_[i] : eta_[i], margin = y_[i] == 1.0 ? eta : -eta;
            if (!(margin > 0.0)) return false;
            least = std::min(least, margin), most = std::max(most, std::abs(eta_[i]));
        }
        return least > kApart * most;
    }

    const double* Q_;
    int64_t n_, k_;
    const double *a_, *y_, *began_, *offset_;
    bool counts_, single_ = true;
    std::vector<double> residual0_, curvature0_, leverage_, residual_, curvature_, x_, eta_, trial_, move_, weighted_;
    std::vector<double> at_, gradient0_, row_, gradient_, cross_, step_, H_;
    double size0_ = 0, pearson0_ = 0, perfect_ = 0, size_ = 0, before_ = 0, largest_ = 0, longest_ = 0, own_ = 0, noise_ = 0, moved_ = 0;
    WaldInterval found_{0, 0};
};

// Ends of the intervals of Wald statistics of the columns of x; see `WaldModel`.
inline std::tuple<OutVector, OutVector> wald_intervals(ColumnMajor Q, Vector weight, Vector y, Vector eta, bool counts, ColumnMajor x,
                                                       Vector line, double width, MaybeVector offset) {
    const size_t n = Q.shape(0), count = x.shape(1);
    require(weight.shape(0) == n && y.shape(0) == n && eta.shape(0) == n && x.shape(0) == n && (!offset || offset->shape(0) == n), "one value a row");
    require(line.shape(0) == count, "one value a column");
    double *lower, *upper;
    std::tuple<OutVector, OutVector> out{new_vector(count, lower), new_vector(count, upper)};
    nb::gil_scoped_release release;
    WaldModel model(Q.data(), static_cast<int64_t>(n), static_cast<int64_t>(Q.shape(1)), weight.data(), y.data(), eta.data(),
                    offset ? offset->data() : nullptr, counts);
    for (size_t j = 0; j < count; ++j) {
        const WaldInterval found = model.enclose(x.data() + j * n, line.data()[j], width);
        lower[j] = found.lower, upper[j] = found.upper;
    }
    return out;
}

// Which columns of x pull the rows apart, for sure.
inline OutFlags columns_pull_apart(ColumnMajor x, Vector y, bool counts) {
    const size_t n = x.shape(0), count = x.shape(1);
    require(y.shape(0) == n, "one value a row");
    bool* found;
    OutFlags out = new_flags(count, found);
    nb::gil_scoped_release release;
    for (size_t j = 0; j < count; ++j) {
        look_up();
        found[j] = pulled_apart(x.data() + j * n, y.data(), static_cast<int64_t>(n), counts) == Pulled::surely;
    }
    return out;
}

}  // namespace fbed
