// The information of columns that are mostly 0 in a proportional hazards model, by their entries.
//
// As for pairs of levels (levels_at_risk.hpp), what the tied sets take is summed by parts: a row that joins those at risk adds its
// hazard times the sums of the others so far, for all the sets that are still to come. It does so once for each of its entries, so
// that a row costs its entries times the columns, where sums of all columns cost their square.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "levels_at_risk.hpp"
#include "linear.hpp"
#include "terms.hpp"

namespace fbed {

// What the sets take from all columns but the first, which is constant: half of it in M, the other half in M'; r - 1 rows of M,
// filled up to whole vectors.
class EntriesAtRisk {
    const SparseTerms& z_;
    int64_t stride_;
    std::vector<double> risk_, dying_;  // sums over those at risk, and those who die at the present set
    std::vector<char> dies_;
    std::vector<int64_t> touched_;

   public:
    std::vector<double> M;

    explicit EntriesAtRisk(const SparseTerms& columns)
        : z_(columns), stride_(whole(columns.r - 1)), risk_(stride_, 0.0), dying_(stride_, 0.0), dies_(stride_, 0), M(stride_ * (columns.r - 1), 0.0) {}

    int64_t stride() const { return stride_; }

    FBED_HOT void take(const RiskRows& rows, const double* hazard, const double* triangle) {
        const std::vector<double> weight = sets_to_come(rows, triangle);
        for (int64_t i = 0; i < rows.n; ++i) {
            if (i % kRowsALook == 0) look_up();
            if (rows.starts[i]) std::fill(risk_.begin(), risk_.end(), 0.0);
            if (hazard[i] != 0.0) join(i, hazard[i], weight[i] * hazard[i], rows.event[i] != 0.0);
            if (rows.closes[i] == 0) continue;
            const double* t = triangle + 3 * (rows.closes[i] - 1);
            if (t[1] != 0.0 || t[2] != 0.0) tie(t);
            for (const int64_t m : touched_) dying_[m] = 0.0, dies_[m] = 0;
            touched_.clear();
        }
    }

   private:
    FBED_INLINE void join(int64_t i, double h, double joins, bool dies) {
        const int64_t first = z_.row_start[i], last = z_.row_start[i + 1];
        const auto move = [&] {
            for (int64_t e = first; e < last; ++e)
                if (const int64_t j = z_.column_of[e] - 1; j >= 0) risk_[j] += 0.5 * h * z_.by_row[e];
        };
        move();  // half of itself now: what it has with itself is in M and in M'
        for (int64_t e = first; e < last; ++e)
            if (const int64_t j = z_.column_of[e] - 1; j >= 0 && joins != 0.0) add_row(M.data() + j * stride_, joins * z_.by_row[e], risk_.data(), stride_);
        move();
        for (int64_t e = first; dies && e < last; ++e) {
            const int64_t j = z_.column_of[e] - 1;
            if (j < 0) continue;
            if (!dies_[j]) dies_[j] = 1, touched_.push_back(j);
            dying_[j] += h * z_.by_row[e];
        }
    }

    FBED_INLINE void tie(const double* t) {
        for (const int64_t m : touched_) {
            double* to = M.data() + m * stride_;
            add_row(to, t[0] * t[1] * dying_[m], risk_.data(), stride_);
            add_row(to, 0.5 * (t[1] * t[1] + t[2] * t[2]) * dying_[m], dying_.data(), stride_);
        }
    }
};

}  // namespace fbed
