// The same of columns that lie across rows: all columns of a tile at once, a row after the other.
#pragma once

#include "columns.hpp"
#include "moments.hpp"

namespace fbed {

// Some rows of a few columns that lie side by side.
struct Panel {
    const double* x;
    int64_t stride, rows, width;
    const double* weights;  // of these rows; without them all are 1
};

FBED_HOT inline void look_across(const Panel panel, double* low, double* high, double* not_zero, double* check) {
    const int64_t width = panel.width;
    for (int64_t i = 0; i < panel.rows; ++i) {
        const double* row = panel.x + i * panel.stride;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) {
            const double v = row[j];
            low[j] = v < low[j] ? v : low[j];
            high[j] = v > high[j] ? v : high[j];
            check[j] += v * 0.0;
            not_zero[j] += v != 0.0 ? 1.0 : 0.0;
        }
    }
}

FBED_HOT inline void sum_across(const Panel panel, const double* safe, const double* base, const double* unit, double* sum) {
    const int64_t width = panel.width;
    for (int64_t i = 0; i < panel.rows; ++i) {
        const double* row = panel.x + i * panel.stride;
        const double weight = panel.weights != nullptr ? panel.weights[i] : 1.0;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) sum[j] += weight * ((safe[j] * row[j] - base[j]) * unit[j]);
    }
}

FBED_HOT inline void spread_across(const Panel panel, const double* safe, const double* base, const double* unit, const double* center,
                                   double* sum) {
    const int64_t width = panel.width;
    for (int64_t i = 0; i < panel.rows; ++i) {
        const double* row = panel.x + i * panel.stride;
        const double weight = panel.weights != nullptr ? panel.weights[i] : 1.0;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) {
            const double d = (safe[j] * row[j] - base[j]) * unit[j] - center[j];
            sum[j] += weight * d * d;
        }
    }
}

// Moments of columns of a matrix whose rows lie in one piece, some columns at a time.
class MomentsAcross {
   public:
    static constexpr int64_t kWidth = 512;

    // Without weights all of them are 1.
    MomentsAcross(const Dense& m, const double* weights, double total) : m_(m), weights_(weights), total_(total) {}

    // Of the columns first..first + width.
    void find(int64_t first, int64_t width, Moments* out) {
        first_ = first, width_ = width;
        look(out);
        total(center_, [this](const Panel& panel, double* sum) { sum_across(panel, safe_, base_, unit_, sum); });
        for (int64_t j = 0; j < width; ++j) center_[j] /= total_;
        total(spread_, [this](const Panel& panel, double* sum) { spread_across(panel, safe_, base_, unit_, center_, sum); });
        for (int64_t j = 0; j < width; ++j)
            if (units_[j].unit != 0) set_moments(out[j], units_[j], center_[j], spread_[j], total_);
    }

   private:
    static constexpr int64_t kRows = 64;  // of a panel

    void look(Moments* out) {
        double low[kWidth], high[kWidth], not_zero[kWidth] = {}, check[kWidth] = {};
        std::fill(low, low + width_, std::numeric_limits<double>::infinity());
        std::fill(high, high + width_, -std::numeric_limits<double>::infinity());
        each_panel([&](const Panel& panel) { look_across(panel, low, high, not_zero, check); });
        for (int64_t j = 0; j < width_; ++j) {
            out[j].not_zero = static_cast<int64_t>(not_zero[j]);
            const bool finite = check[j] == 0.0;
            if (!finite) out[j].not_finite = count_not_finite(first_ + j);
            const bool varies = finite && has_range(out[j], low[j], high[j]);
            units_[j] = varies ? Units(low[j], high[j]) : Units{};
            if (!varies) units_[j].unit = 0;
            safe_[j] = units_[j].safe, base_[j] = units_[j].base, unit_[j] = units_[j].unit;
        }
    }

    int64_t count_not_finite(int64_t column) const {
        int64_t count = 0;
        m_.at(column, [&](auto* x) {
            for (int64_t i = 0; i < m_.n; ++i) count += !std::isfinite(static_cast<double>(x[i * m_.row_stride]));
        });
        return count;
    }

    // Sums of panels first: a sum of millions of rows would lose digits.
    template <class Add>
    void total(double* sum, Add&& add) {
        std::fill(sum, sum + width_, 0.0);
        each_panel([&](const Panel& panel) {
            double part[kWidth] = {};
            add(panel, part);
            for (int64_t j = 0; j < width_; ++j) sum[j] += part[j];
        });
    }

    // The rows where they lie, or as float64 if they are something else.
    template <class Visit>
    void each_panel(Visit&& visit) {
        for (int64_t i = 0; i < m_.n; i += kRows) {
            const int64_t rows = std::min(kRows, m_.n - i);
            const double* weights = weights_ != nullptr ? weights_ + i : nullptr;
            m_.at(first_, [&](auto* x) {
                const auto* start = x + i * m_.row_stride;
                if constexpr (std::is_same_v<decltype(start), const double*>)
                    if (m_.column_stride == 1) return visit(Panel{start, m_.row_stride, rows, width_, weights});
                values_.resize(kRows * kWidth);
                for (int64_t r = 0; r < rows; ++r)
                    for (int64_t j = 0; j < width_; ++j)
                        values_[r * kWidth + j] = static_cast<double>(start[r * m_.row_stride + j * m_.column_stride]);
                visit(Panel{values_.data(), kWidth, rows, width_, weights});
            });
        }
    }

    const Dense& m_;
    const double* weights_;
    double total_;
    int64_t first_ = 0, width_ = 0;
    Units units_[kWidth];
    double safe_[kWidth], base_[kWidth], unit_[kWidth], center_[kWidth], spread_[kWidth];
    std::vector<double> values_;
};

}  // namespace fbed
