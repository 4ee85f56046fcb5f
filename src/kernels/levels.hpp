// Categories by their codes: sums over the rows of each level, and the logistic likelihood along the levels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "bounds.hpp"
#include "elementary.hpp"
#include "processors.hpp"

namespace fbed {

// Sums of `Width` columns side by side: an addition waits for the one before it to the same level, but not for its neighbours.
template <int Width, class Code>
FBED_HOT void level_sums_of(const Code* codes, int64_t n, const double* weight, const double* Z, int64_t k, int64_t levels, double* sums,
                            double* out) {
    std::fill(sums, sums + Width * levels, 0.0);
    for (int64_t i = 0; i < n; ++i) {
        double* to = sums + Width * static_cast<int64_t>(codes[i]);
        for (int j = 0; j < Width; ++j) to[j] += weight[i] * Z[j * n + i];
    }
    for (int64_t l = 0; l < levels; ++l)
        for (int j = 0; j < Width; ++j) out[l * k + j] = sums[Width * l + j];
}

// out[level·k + j] = weight_i·Z_ij summed over the rows i of each level, for the columns of Z (column-major). Every row has a level.
template <class Code>
void level_sums(const Code* codes, int64_t n, const double* weight, const double* Z, int64_t k, int64_t levels, double* out) {
    std::vector<double> sums(4 * levels);
    int64_t j = 0;
    for (; j + 4 <= k; j += 4) level_sums_of<4>(codes, n, weight, Z + j * n, k, levels, sums.data(), out + j);
    for (; j < k; ++j) level_sums_of<1>(codes, n, weight, Z + j * n, k, levels, sums.data(), out + j);
}

// Whether all codes are levels.
template <class Code>
FBED_HOT bool are_levels(const Code* codes, int64_t n, int64_t levels) {
    Code least = 0, most = 0;
#pragma omp simd reduction(min : least) reduction(max : most)
    for (int64_t i = 0; i < n; ++i) least = std::min(least, codes[i]), most = std::max(most, codes[i]);
    return n == 0 || (least >= 0 && static_cast<int64_t>(most) < levels);
}

// The same for steps of the levels of `Width` columns side by side.
template <int Width, class Code>
FBED_HOT void add_level_steps_of(const Code* codes, int64_t n, const double* steps, int64_t levels, int64_t columns, double* own, double* out) {
    for (int64_t l = 0; l < levels; ++l)
        for (int j = 0; j < Width; ++j) own[Width * l + j] = steps[l * columns + j];
    for (int64_t i = 0; i < n; ++i) {
        const double* from = own + Width * static_cast<int64_t>(codes[i]);
        for (int j = 0; j < Width; ++j) out[j * n + i] += from[j];
    }
}

// out[column·n + row] += the step of the row's level, from levels × columns.
template <class Code>
void add_level_steps(const Code* codes, int64_t n, const double* steps, int64_t levels, int64_t columns, double* out) {
    std::vector<double> own(4 * levels);
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) add_level_steps_of<4>(codes, n, steps + j, levels, columns, own.data(), out + j * n);
    for (; j < columns; ++j) add_level_steps_of<1>(codes, n, steps + j, levels, columns, own.data(), out + j * n);
}

// out[level·n_others + other] += weight over the rows of every pair of levels of two categories.
template <class Code, class Other>
void pair_sums(const Code* codes, const Other* others, int64_t n_others, int64_t n, const double* weight, double* out) {
    for (int64_t i = 0; i < n; ++i) out[static_cast<int64_t>(codes[i]) * n_others + others[i]] += weight[i];
}

// The state of the rows of a logistic model: 2·weight·loss summed, the weighted residual and curvature, the mean of each row;
// and by how much the row that is closest to the wrong side clears the boundary, and the one that is farthest on its own.
struct LogisticRows {
    double deviance = 0, least = std::numeric_limits<double>::infinity(), most = 0;
};

FBED_HOT inline LogisticRows logistic_rows(const double* eta, const double* y, const double* weight, int64_t n, double* mean,
                                           double* residual, double* curvature) {
    LogisticRows out;
    double sum = 0, least = out.least, most = 0;
#pragma omp simd reduction(+ : sum) reduction(min : least) reduction(max : most)
    for (int64_t i = 0; i < n; ++i) {
        const double sign = y[i] > 0.5 ? 1.0 : -1.0, m = sign * eta[i];
        const double e = exp_of_negative(-std::abs(m)), one = 1.0 / (1.0 + e);
        const double wrong = m >= 0 ? e * one : one;  // probability of the other class
        const double margin = weight[i] > 0 ? m : std::numeric_limits<double>::infinity();
        least = std::min(least, margin);
        most = std::max(most, weight[i] > 0 ? m : 0.0);
        sum += weight[i] * (log1p_of_unit(e) - std::min(m, 0.0));
        mean[i] = sign > 0 ? 1.0 - wrong : wrong;
        residual[i] = weight[i] * sign * wrong;
        curvature[i] = weight[i] * e * one * one;
    }
    out.deviance = 2.0 * sum, out.least = least, out.most = most;
    return out;
}

// The same of a Poisson model with the log mean eta; log_y is that of every count, and anything for none. A row's deviance is
// taken from what its own count would have: sums of large counts would leave nothing of their difference.
FBED_HOT inline double poisson_rows(const double* eta, const double* y, const double* log_y, const double* weight, int64_t n, double* mean,
                                    double* residual, double* curvature) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
        const bool counts = weight[i] > 0;  // a row that does not may have any predictor
        const double e = counts ? eta[i] : 0.0, small = exp_of_negative(-std::abs(e)), m = e > 0 ? 1.0 / small : small;
        mean[i] = m;
        sum += weight[i] * ((m - y[i]) - y[i] * (e - log_y[i]));
        residual[i] = weight[i] * (y[i] - m);
        curvature[i] = weight[i] * m;
    }
    return 2.0 * sum;
}

// Where the likelihood is largest along each level alone, from a linear predictor: shift[level], ±infinity where all rows of
// a level are of one class, 0 where there are none. Safeguarded Newton steps of all levels together: the root of a level's
// score lies between logit(ȳ) − max eta and logit(ȳ) − min eta.
class LevelProfile {
   public:
    LevelProfile(int64_t n, int64_t levels) : n_(n), total_(levels), ones_(levels), low_(levels), high_(levels), score_(levels), bend_(levels), wrong_(n), curve_(n) {}

    template <class Code>
    FBED_HOT void run(const Code* codes, const double* eta, const double* y, const double* weight, double* shift) {
        const int64_t levels = static_cast<int64_t>(total_.size());
        start(codes, eta, y, weight, shift);
        for (int pass = 0; pass < 60; ++pass) {
            look(codes, eta, weight, shift);
            bool moving = false;
            for (int64_t l = 0; l < levels; ++l) {
                if (!std::isfinite(shift[l]) || !(total_[l] > 0)) continue;
                const double slope = ones_[l] - score_[l];
                (slope > 0 ? low_ : high_)[l] = shift[l];
                if (slope * slope <= 1e-12 * bend_[l]) continue;  // what is left is for the steps of the whole model
                double next = shift[l] + slope / bend_[l];
                if (!(next > low_[l] && next < high_[l])) next = 0.5 * (low_[l] + high_[l]);
                moving = moving || std::abs(next - shift[l]) > 1e-7;
                shift[l] = next;
            }
            if (!moving) break;
        }
    }

   private:
    // Sums of weights by level, pure levels, and where each root lies.
    template <class Code>
    void start(const Code* codes, const double* eta, const double* y, const double* weight, double* shift) {
        const double infinity = std::numeric_limits<double>::infinity();
        std::fill(low_.begin(), low_.end(), infinity);
        std::fill(high_.begin(), high_.end(), -infinity);
        std::vector<double> zeros(total_.size());
        for (int64_t i = 0; i < n_; ++i) {
            const auto l = codes[i];
            total_[l] += weight[i];
            (y[i] > 0.5 ? ones_ : zeros)[l] += weight[i];
            if (!(weight[i] > 0)) continue;
            low_[l] = std::min(low_[l], eta[i]);
            high_[l] = std::max(high_[l], eta[i]);
        }
        for (size_t l = 0; l < total_.size(); ++l) {
            const bool none = !(zeros[l] > 0), all = !(ones_[l] > 0);
            shift[l] = none && all ? 0.0 : none ? infinity : all ? -infinity : 0.0;
            const double centre = none || all ? 0.0 : std::log(ones_[l] / zeros[l]);
            const double smallest = low_[l], largest = high_[l];
            low_[l] = centre - largest - 1e-9 * (1.0 + std::abs(centre - largest));
            high_[l] = centre - smallest + 1e-9 * (1.0 + std::abs(centre - smallest));
            if (!none && !all) shift[l] = std::min(std::max(0.0, low_[l]), high_[l]);
        }
    }

    // Expected successes and curvature of every level at the present shifts.
    template <class Code>
    FBED_HOT void look(const Code* codes, const double* eta, const double* weight, const double* shift) {
        for (int64_t i = 0; i < n_; ++i) {
            const double b = shift[codes[i]];
            wrong_[i] = std::isfinite(b) ? eta[i] + b : 0.0;
        }
        double *mean = wrong_.data(), *curve = curve_.data();
#pragma omp simd
        for (int64_t i = 0; i < n_; ++i) {
            const double m = mean[i], e = exp_of_negative(-std::abs(m)), one = 1.0 / (1.0 + e);
            curve[i] = weight[i] * e * one * one;
            mean[i] = weight[i] * (m >= 0 ? one : e * one);
        }
        std::fill(score_.begin(), score_.end(), 0.0);
        std::fill(bend_.begin(), bend_.end(), 0.0);
        for (int64_t i = 0; i < n_; ++i) {
            score_[codes[i]] += mean[i];
            bend_[codes[i]] += curve[i];
        }
    }

    int64_t n_;
    std::vector<double> total_, ones_, low_, high_, score_, bend_, wrong_, curve_;
};

// Least and largest z of a step v of the predictors over the rows that count, 0 included: z is (1 − mean)·v for a success and
// −mean·v for a failure; the largest |v| as well.
struct LevelReach {
    double min = 0, max = 0, largest = 0;
};

FBED_HOT inline LevelReach logistic_reach(const double* mean, const double* v, const double* curvature, int64_t n) {
    double low = 0, high = 0, largest = 0;
#pragma omp simd reduction(min : low) reduction(max : high, largest)
    for (int64_t i = 0; i < n; ++i) {
        const double step = curvature[i] > 0 ? v[i] : 0.0, one = (1.0 - mean[i]) * step, two = -mean[i] * step;
        low = std::min(low, std::min(one, two));
        high = std::max(high, std::max(one, two));
        largest = std::max(largest, std::abs(step));
    }
    return {low, high, largest};
}

// What a column beside a fit tells, given what the model leaves of it under the weights w0, with ratio = w0/w and 0 where a row does
// not count: its slope s, its squares under w0, w0²/w and w, and the extremes of z: the least for the step s/‖x‖²_w0 with the means
// moved by w0 times it, the largest for the step s/‖x‖²_w.
struct CodedLook {
    double slope = 0, norm = 0, dual = 0, own = 0, low = 0, high = 0;
};

FBED_HOT inline CodedLook coded_look(const double* x, const double* residual, const double* w0, const double* w, const double* ratio,
                                     const double* mean, int64_t n) {
    double slope = 0, norm = 0, dual = 0, own = 0, low = 0, high = 0;
#pragma omp simd reduction(+ : slope, norm, dual, own)
    for (int64_t i = 0; i < n; ++i) {
        const double square = x[i] * x[i], first = w0[i] * square;
        slope += residual[i] * x[i];
        norm += first;
        dual += ratio[i] * first;
        own += w[i] * square;
    }
    const double there = norm > 0 ? slope / norm : 0.0, here = own > 0 ? slope / own : 0.0;
#pragma omp simd reduction(min : low) reduction(max : high)
    for (int64_t i = 0; i < n; ++i) {
        const double u = ratio[i] * there * x[i], v = w[i] > 0 ? here * x[i] : 0.0;
        low = std::min(low, std::min((1.0 - mean[i]) * u, -mean[i] * u));
        high = std::max(high, std::max((1.0 - mean[i]) * v, -mean[i] * v));
    }
    return {slope, norm, dual, own, low, high};
}

// Twice the Kullback–Leibler divergence of the means mean + change/weight from the means, summed; infinite where one of them is
// none: no probability where outcomes are `Binary`, negative where they are counts. change is weighted as the residuals are.
template <bool Binary>
class Divergence {
   public:
    explicit Divergence(int64_t n) : up_(n), down_(n) {}

    double of(const double* mean, const double* change, const double* weight) {
        const Near near = close(mean, change, weight);
        if (near.least < -1.0) return std::numeric_limits<double>::infinity();
        double sum = near.sum;
        for (size_t i = 0; near.far && i < up_.size(); ++i) {
            if (std::abs(up_[i]) > kNear) sum += weight[i] * mean[i] * h(up_[i]);
            if (Binary && std::abs(down_[i]) > kNear) sum += weight[i] * (1.0 - mean[i]) * h(down_[i]);
        }
        return 2.0 * sum;
    }

   private:
    static constexpr double kNear = 0.25;
    struct Near {
        double sum = 0, least = 0;
        bool far = false;
    };

    // z²/2·P(z) for |z| <= kNear by its series, to the last digit but one; written out for the sake of vectors.
    static double near_h(double z) {
        double p = 2.0 / (20 * 19);
        p = 2.0 / (19 * 18) - z * p;
        p = 2.0 / (18 * 17) - z * p;
        p = 2.0 / (17 * 16) - z * p;
        p = 2.0 / (16 * 15) - z * p;
        p = 2.0 / (15 * 14) - z * p;
        p = 2.0 / (14 * 13) - z * p;
        p = 2.0 / (13 * 12) - z * p;
        p = 2.0 / (12 * 11) - z * p;
        p = 2.0 / (11 * 10) - z * p;
        p = 2.0 / (10 * 9) - z * p;
        p = 2.0 / (9 * 8) - z * p;
        p = 2.0 / (8 * 7) - z * p;
        p = 2.0 / (7 * 6) - z * p;
        p = 2.0 / (6 * 5) - z * p;
        p = 2.0 / (5 * 4) - z * p;
        p = 2.0 / (4 * 3) - z * p;
        p = 2.0 / (3 * 2) - z * p;
        p = 2.0 / (2 * 1) - z * p;
        return 0.5 * z * z * p;
    }

    FBED_HOT Near close(const double* mean, const double* change, const double* weight) {
        double sum = 0, least = 0, most = 0, *up = up_.data(), *down = down_.data();
        const int64_t n = static_cast<int64_t>(up_.size());
#pragma omp simd reduction(+ : sum) reduction(min : least) reduction(max : most)
        for (int64_t i = 0; i < n; ++i) {
            const bool counts = weight[i] > 0 && change[i] != 0.0;
            const double d = counts ? change[i] / weight[i] : 0.0, m = mean[i];
            const double rest = Binary ? 1.0 - m : 0.0, one = counts ? d / m : 0.0, two = Binary && counts ? -d / rest : 0.0;
            const double first = std::abs(one) <= kNear ? one : 0.0, second = std::abs(two) <= kNear ? two : 0.0;
            up[i] = one, down[i] = two;
            least = std::min(least, std::min(one, two));
            most = std::max(most, std::max(one, two));
            sum += weight[i] * (m * near_h(first) + rest * near_h(second)) + (one - one) + (two - two);
        }
        const bool sound = std::isfinite(sum);  // not where some change is no number, or a mean is at the end of its range
        return {sum, sound ? least : -std::numeric_limits<double>::infinity(), most > kNear || least < -kNear};
    }

    std::vector<double> up_, down_;
};

}  // namespace fbed
