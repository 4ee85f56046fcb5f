// Brackets of columns beside a fitted model of counts (log link); T are the rows where a column is not 0.
//
// Along x alone the likelihood is largest at some b, and only the means of T differ there from those of the model. One Newton
// step of all coefficients from that point, with gradient r beside the model's columns and ρ beside x, has λ² = rᵀd + ρδ and
// changes the log means by z to first order. Then (see bounded.py)
//
//     2[ℓ(b) − ℓ] + λ²P(z_max)  ≤  LR  ≤  2[ℓ(b) − ℓ] + λ²P(z_min)
//
// whatever b is, the right side where z_min >= −1. Rows are whitened: f_i = R'⁻¹z_i with R'R = ZᵀaμZ, so that the Hessian at b is
// I less terms of T. Idle rows have no count and next to no mean. Their mean is 0 above, where it costs what it was; below, they are
// charged for what a step makes of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "arrays.hpp"
#include "bounds.hpp"
#include "linear.hpp"
#include "pause.hpp"

namespace fbed {

// The rows of a model, whitened, which candidates are asked about beside.
struct CountedRows {
    int64_t n, k, stride;
    std::vector<double> rows;  // filled up to whole vectors
    std::vector<double> weight, mean, y;
    std::vector<char> idle;
    std::vector<double> slope;
    double idle_mean = 0;

    CountedRows(RowMajor F, Vector a, Vector means, Vector outcome, Flags is_idle)
        : n(static_cast<int64_t>(F.shape(0))), k(static_cast<int64_t>(F.shape(1))), stride(whole(k)), rows(n * stride, 0.0),
          weight(a.data(), a.data() + a.shape(0)), mean(means.data(), means.data() + means.shape(0)),
          y(outcome.data(), outcome.data() + outcome.shape(0)), idle(is_idle.data(), is_idle.data() + is_idle.shape(0)), slope(stride, 0.0) {
        const size_t size = static_cast<size_t>(n);
        require(weight.size() == size && mean.size() == size && y.size() == size && idle.size() == size, "sizes");
        nb::gil_scoped_release release;
        for (int64_t i = 0; i < n; ++i) {
            std::copy_n(F.data() + i * k, k, rows.data() + i * stride);
            if (idle[i]) idle_mean += weight[i] * mean[i];
            else add_row(slope.data(), weight[i] * (y[i] - mean[i]), rows.data() + i * stride, stride);
        }
    }

    std::tuple<OutVector, OutVector, OutMatrix> enclose(ColumnMajor X, Vector zero) const;
};

class Counts {
    static constexpr double kSteady = 1e-6;     // pivots of a Hessian that is solved to more digits than `kRounding`
    static constexpr double kRounding = 1e-8, kAlong = 1e-8, kStride = 2.0, kGone = 30.0;
    static constexpr int kSteps = 60;

    const CountedRows& of_;
    int64_t n_, k_, stride_;
    const double *weight_, *mean_, *y_;
    const char* idle_;
    // of the column at hand
    int64_t m_ = 0;
    double b_ = 0, rho_ = 0, own_ = 0, gained_ = 0;
    bool pure_ = false;
    std::vector<int64_t> at_;
    std::vector<double> x_, there_, along_, H_, r_, d_, place_;

   public:
    explicit Counts(const CountedRows& of)
        : of_(of), n_(of.n), k_(of.k), stride_(of.stride), weight_(of.weight.data()), mean_(of.mean.data()), y_(of.y.data()),
          idle_(of.idle.data()), at_(n_), x_(n_), there_(n_), along_(stride_), H_(k_ * k_), r_(stride_), d_(stride_), place_(n_, 0.0) {}

    // The interval for a column, which is `zero` on all rows but T; open where the Hessian does not tell. `end` is where the step leads, k
    // coordinates and the coefficient of x; nothing where there is no step.
    void enclose(const double* column, double zero, double& lower, double& upper, double* end) {
        lower = 0, upper = std::numeric_limits<double>::infinity();
        std::fill(end, end + k_ + 1, 0.0);
        if (!gather(column, zero)) return;
        maximise_along();
        if (!(own_ > 0) && rho_ != 0) return;  // means that are no numbers any more tell nothing of how far to go
        if (!step()) return;
        const double delta = own_ > 0 ? (rho_ - row_product(along_.data(), d_.data(), stride_)) / own_ : 0.0;
        finish(delta, lower, upper);
        std::copy_n(d_.begin(), k_, end);
        end[k_] = pure_ ? gone() : b_ + delta;
    }

   private:
    const double* row(int64_t i) const { return of_.rows.data() + i * stride_; }

    bool gather(const double* column, double zero) {
        m_ = 0;
        bool up = false, down = false, counts = false;
        for (int64_t i = 0; i < n_; ++i) {
            if (column[i] == zero) continue;
            const double x = column[i] - zero;
            at_[m_] = i, x_[m_++] = x;
            up = up || x > 0, down = down || x < 0, counts = counts || y_[i] > 0;
        }
        pure_ = !counts && up != down;
        return m_ > 0;
    }

    // Slope and curvature along x alone; idle rows stay out.
    void look_along() {
        rho_ = own_ = 0;
        for (int64_t q = 0; q < m_; ++q) {
            const int64_t i = at_[q];
            there_[q] = idle_[i] ? 0.0 : mean_[i] * std::exp(b_ * x_[q]);
            rho_ += weight_[i] * x_[q] * (y_[i] - there_[q]);
            own_ += weight_[i] * x_[q] * x_[q] * there_[q];
        }
    }

    double gained_along() const {
        double sum = 0;
        for (int64_t q = 0; q < m_; ++q) {
            const int64_t i = at_[q];
            if (!idle_[i]) sum += weight_[i] * (y_[i] * b_ * x_[q] - mean_[i] * std::expm1(b_ * x_[q]));
        }
        return 2.0 * sum;
    }

    void maximise_along() {
        b_ = 0;
        if (pure_) return leave();
        double widest = 0;
        for (int64_t q = 0; q < m_; ++q) widest = std::max(widest, std::abs(x_[q]));
        look_along();
        for (int step = 0; step < kSteps && own_ > 0 && rho_ * rho_ > kAlong * own_; ++step) {
            b_ += std::clamp(rho_ / own_, -kStride / widest, kStride / widest);
            look_along();
        }
        gained_ = gained_along();
    }

    // No row of T has a count, and x has one sign: the means of T go to 0.
    void leave() {
        rho_ = own_ = gained_ = 0;
        for (int64_t q = 0; q < m_; ++q) {
            there_[q] = 0;
            if (!idle_[at_[q]]) gained_ += 2.0 * weight_[at_[q]] * mean_[at_[q]];
        }
    }

    // Newton's step with x taken out: (I − Σ_T a(μ − μ_b)ff' − cc'/I)d = r − cρ/I, c = Σ_T aμ_b·x·f.
    bool step() {
        std::fill(along_.begin(), along_.end(), 0.0);
        r_ = of_.slope;
        std::fill(H_.begin(), H_.end(), 0.0);
        for (int64_t p = 0; p < k_; ++p) H_[p * k_ + p] = 1.0;
        for (int64_t q = 0; q < m_; ++q) {
            const int64_t i = at_[q];
            if (idle_[i]) continue;
            const double fewer = weight_[i] * (mean_[i] - there_[q]);
            add_row(r_.data(), fewer, row(i), stride_);
            if (there_[q] > 0) add_row(along_.data(), weight_[i] * there_[q] * x_[q], row(i), stride_);
            subtract_square(fewer, row(i));
        }
        if (own_ > 0) {
            add_row(r_.data(), -rho_ / own_, along_.data(), stride_);
            subtract_square(1.0 / own_, along_.data());
        }
        const double plain = least_left();
        if (!(plain * cholesky(H_.data(), k_) > kSteady)) return false;
        d_ = r_;
        cholesky_solve(H_.data(), k_, d_.data());
        return true;
    }

    // What is left of the diagonal, beside what was taken off it and what that was taken off: where x is next to the model's columns on
    // the rows that count, as numbers far from 0 are to the constant, it is rounding of both.
    double least_left() const {
        double least = 1.0;
        for (int64_t p = 0; p < k_; ++p) {
            const double left = H_[p * k_ + p], shared = own_ > 0 ? along_[p] * along_[p] / own_ : 0.0;
            least = std::min(least, left / (1.0 + std::max(left, 0.0) + shared));
        }
        return least;
    }

    // H −= t·ff', of which the lower triangle counts
    FBED_HOT void subtract_square(double t, const double* f) {
        for (int64_t p = 0; p < k_; ++p) {
            double* to = H_.data() + p * k_;
            const double u = t * f[p];
#pragma omp simd
            for (int64_t l = 0; l <= p; ++l) to[l] -= u * f[l];
        }
    }

    // A coefficient at which all means of T are as good as 0.
    double gone() const {
        double least = std::abs(x_[0]);
        for (int64_t q = 1; q < m_; ++q) least = std::min(least, std::abs(x_[q]));
        return std::copysign(kGone / least, -x_[0]);
    }

    void finish(double delta, double& lower, double& upper) {
        const double decrement = row_product(r_.data(), d_.data(), stride_) + (own_ > 0 ? rho_ * rho_ / own_ : 0.0);
        if (!(decrement >= 0) || !std::isfinite(gained_)) return;
        for (int64_t q = 0; q < m_; ++q) place_[at_[q]] = pure_ ? -std::numeric_limits<double>::infinity() : x_[q] * delta;
        double low = 0, high = 0;
        for (int64_t i = 0; i < n_; ++i)
            if (!idle_[i] && std::isfinite(place_[i])) {
                const double z = place_[i] + row_product(row(i), d_.data(), stride_);
                low = std::min(low, z), high = std::max(high, z);
            }
        const double rounding = kRounding * (1.0 + gained_ + decrement);
        lower = std::max(0.0, gained_ + decrement * P(high) - charged(high > 0 ? std::log1p(high) / high : 1.0) - rounding);
        if (low > -1.0) upper = gained_ + decrement * P(low) + 2.0 * of_.idle_mean + rounding;
        for (int64_t q = 0; q < m_; ++q) place_[at_[q]] = 0;
    }

    // What idle rows lose where the others stand at b and go a part of the step.
    double charged(double part) {
        double more = 0;
        for (int64_t q = 0; q < m_; ++q) place_[at_[q]] = pure_ ? place_[at_[q]] : place_[at_[q]] * part + b_ * x_[q];
        for (int64_t i = 0; i < n_; ++i)
            if (idle_[i] && std::isfinite(place_[i])) {
                const double raised = std::expm1(place_[i] + part * row_product(row(i), d_.data(), stride_));
                more += 2.0 * weight_[i] * mean_[i] * std::max(raised, 0.0);
            }
        return more;
    }
};

// Of every column: the interval of its likelihood ratio, and about where its model has its maximum.
inline std::tuple<OutVector, OutVector, OutMatrix> CountedRows::enclose(ColumnMajor X, Vector zero) const {
    const size_t count = X.shape(1);
    require(zero.shape(0) == count && static_cast<int64_t>(X.shape(0)) == n, "sizes");
    double *lower, *upper, *end;
    OutVector low = new_vector(count, lower), high = new_vector(count, upper);
    OutMatrix ends = new_columns(k + 1, count, end);
    nb::gil_scoped_release release;
    Counts counts(*this);
    for (size_t j = 0; j < count; ++j) {
        look_up();
        counts.enclose(X.data() + j * n, zero.data()[j], lower[j], upper[j], end + j * (k + 1));
    }
    return {low, high, ends};
}

}  // namespace fbed
