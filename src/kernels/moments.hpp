// Centre, scale and extremes of columns.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "processors.hpp"
#include "sums.hpp"

namespace fbed {

// What one pass over a column tells: the search never has to look at a column again to centre or scale it.
struct Moments {
    double center = 0, scale = 0, min = 0, max = 0;
    int64_t not_finite = 0, not_zero = 0;
};

// A column whose spread is below this part of its size holds rounding, not information.
constexpr double kInformation = 1e-13;

// Values as their moments are summed: the least one is subtracted first, since what a large mean leaves of the digits must not be
// rounded away. The range is then divided out: 1e200 is a legitimate value, its square is not.
struct Units {
    double safe = 1, base = 0, range = 1, unit = 1;

    Units() = default;
    Units(double low, double high)
        : safe(std::max(std::abs(low), std::abs(high)) > 1e300 ? 0.25 : 1.0),  // the range itself must not overflow
          base(safe * low), range(safe * high - base), unit(1.0 / range) {}
};

// Extremes and number of values that are not 0; `check` is NaN as soon as one value is not finite.
FBED_HOT inline void look(const double* values, int64_t m, double& low, double& high, double& not_zero, double& check) {
    constexpr int64_t parts = 16;  // of each of four
    double least[parts], most[parts], count[parts] = {}, sum[parts] = {};
    std::fill(least, least + parts, low);
    std::fill(most, most + parts, high);
    const auto take = [&](int64_t k, double v) {
        least[k] = v < least[k] ? v : least[k];
        most[k] = v > most[k] ? v : most[k];
        sum[k] += v * 0.0;
        count[k] += v != 0.0 ? 1.0 : 0.0;
    };
    int64_t i = 0;
    for (; i + parts <= m; i += parts)
#pragma omp simd
        for (int64_t k = 0; k < parts; ++k) take(k, values[i + k]);
    for (; i < m; ++i) take(0, values[i]);
    not_zero = check = 0;
    for (int64_t k = 0; k < parts; ++k) {
        low = std::min(low, least[k]);
        high = std::max(high, most[k]);
        not_zero += count[k];
        check += sum[k];
    }
}

// sum of weights·(values - base)·unit; without weights all of them are 1
FBED_HOT inline double weighted_sum(const double* values, const double* weights, int64_t m, double safe, double base, double unit) {
    if (weights == nullptr) return sum_in_parts(m, [=](int64_t i) { return (safe * values[i] - base) * unit; });
    return sum_in_parts(m, [=](int64_t i) { return weights[i] * ((safe * values[i] - base) * unit); });
}

// sum of weights·((values - base)·unit - center)²
FBED_HOT inline double weighted_spread(const double* values, const double* weights, int64_t m, double safe, double base, double unit,
                                       double center) {
    const auto off = [=](int64_t i) { return (safe * values[i] - base) * unit - center; };
    if (weights == nullptr) return sum_in_parts(m, [=](int64_t i) { return off(i) * off(i); });
    return sum_in_parts(m, [=](int64_t i) { return weights[i] * off(i) * off(i); });
}

// Takes note of the extremes; whether there is more to be known.
inline bool has_range(Moments& out, double low, double high) {
    out.min = low;
    out.max = high;
    out.center = low;
    return low != high;
}

inline void set_moments(Moments& out, const Units& u, double center, double spread, double total_weight) {
    const double scale = std::sqrt(spread / total_weight) * u.range, size = std::max(std::abs(out.min), std::abs(out.max));
    out.center = (u.base + center * u.range) / u.safe;
    out.scale = scale <= kInformation * size * u.safe ? 0.0 : scale / u.safe;
}

// Weighted mean and standard deviation of values[0..m) plus (n - m) zeros.
inline Moments moments(const double* values, const double* weights, const int32_t* rows, int64_t m, int64_t n,
                       double total_weight) {
    Moments out;
    if (n == 0) return out;
    const bool has_zeros = m < n;
    double low = has_zeros ? 0.0 : std::numeric_limits<double>::infinity();
    double high = has_zeros ? 0.0 : -std::numeric_limits<double>::infinity();
    double check = 0, not_zero = 0;
    look(values, m, low, high, not_zero, check);
    out.not_zero = static_cast<int64_t>(not_zero);
    if (check != 0.0 || std::isnan(check)) {
        for (int64_t i = 0; i < m; ++i) out.not_finite += !std::isfinite(values[i]);
        return out;
    }
    if (!has_range(out, low, high)) return out;
    const Units u(low, high);
    const double zero = -u.base * u.unit;
    double sum = 0, stored = 0;
    if (rows == nullptr) {
        sum = weighted_sum(values, weights, m, u.safe, u.base, u.unit);
        stored = total_weight;
    } else {
        for (int64_t i = 0; i < m; ++i) {
            sum += weights[rows[i]] * ((u.safe * values[i] - u.base) * u.unit);
            stored += weights[rows[i]];
        }
    }
    const double zeros = std::max(total_weight - stored, 0.0), center = (sum + zeros * zero) / total_weight;
    double spread = zeros * (zero - center) * (zero - center);
    if (rows == nullptr) {
        spread += weighted_spread(values, weights, m, u.safe, u.base, u.unit, center);
    } else {
        for (int64_t i = 0; i < m; ++i) {
            const double d = (u.safe * values[i] - u.base) * u.unit - center;
            spread += weights[rows[i]] * d * d;
        }
    }
    set_moments(out, u, center, spread, total_weight);
    return out;
}

}  // namespace fbed
