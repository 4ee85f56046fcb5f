// The curvature of a model in a basis where it was I, after some rows have changed theirs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "linear.hpp"
#include "processors.hpp"

namespace fbed {

// A difference of sums that has kept less than this part of them has lost more digits than kSlack forgives.
constexpr double kCancelled = 1e-5;

// C = I - sum t·gg' and systems with it. Rows g are filled up to whole vectors, and stay where they are. The scratch space is
// somebody else's: r × stride for `rows`, (r + 1) × whole(r + 1) for `factor`.
class ChangedCurvature {
   public:
    struct Change {
        const double* g;
        double t;
    };
    std::vector<Change> changes;

    ChangedCurvature(int64_t r, int64_t stride, double* rows, double* factor) : r_(r), stride_(stride), rows_(rows), factor_(factor) {}

    // False where C is next to singular: a refinement takes more care. Few changes make a small system.
    bool factorise() {
        is_small_ = 3 * changes.size() <= 2 * static_cast<size_t>(r_);
        return is_small_ ? factorise_small() : factorise_whole();
    }

    // C e = right, both filled up to whole vectors.
    void solve(const double* right, double* e) {
        if (is_small_) return solve_small(right, e);
        std::copy_n(right, r_, e);
        cholesky_solve(factor_, r_, e);
    }

   private:
    FBED_HOT bool factorise_whole() {
        double *C = rows_, *H = factor_;
        std::fill(C, C + r_ * stride_, 0.0);
        for (int64_t k = 0; k < r_; ++k) C[k * stride_ + k] = 1.0;
        subtract_changes(C);  // from the lower triangle
        for (int64_t p = 0; p < r_; ++p) std::copy_n(C + p * stride_, p + 1, H + p * r_);
        if (cholesky(H, r_) <= 0.0) return false;
        for (int64_t k = 0; k < r_; ++k)
            if (H[k * r_ + k] * H[k * r_ + k] < kCancelled) return false;
        return true;
    }

    // Four changes at a time, side by side, so that C is read and written a quarter as often.
    FBED_INLINE void subtract_changes(double* C) {
        constexpr size_t kTogether = 4;
        together_.resize(kTogether * stride_);
        for (size_t first = 0; first < changes.size(); first += kTogether) {
            double by[kTogether] = {};
            for (size_t q = 0; q < kTogether; ++q) {
                const Change& change = changes[std::min(first + q, changes.size() - 1)];
                by[q] = first + q < changes.size() ? change.t : 0.0;
                std::copy_n(change.g, stride_, together_.data() + q * stride_);
            }
            for (int64_t p = 0; p < r_; ++p) {
                double t[kTogether];
                for (size_t q = 0; q < kTogether; ++q) t[q] = by[q] * together_[q * stride_ + p];
                subtract_rows(C + p * stride_, t, together_.data(), stride_, whole(p + 1));
            }
        }
    }

    // C = I - B'SB with a row of B for each change and S = ±1, so that C⁻¹ = I + B'(S - BB')⁻¹B. Rows that have gained curvature,
    // S = -1, come first: a factor without pivots is sound then, and the pivots of the others are positive as C is.
    FBED_HOT bool factorise_small() {
        double *B = rows_, *A = factor_;
        small_.clear();
        int64_t m = 0;
        const auto put = [&](const Change& change, double side) {
            std::fill_n(B + m * stride_, stride_, 0.0);
            add_row(B + m * stride_, std::sqrt(std::abs(change.t)), change.g, stride_);
            small_.push_back(side);
            ++m;
        };
        for (const Change& change : changes)
            if (change.t < 0) put(change, -1.0);
        for (const Change& change : changes)
            if (change.t > 0) put(change, 1.0);
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j <= i; ++j)
                A[i * m + j] = (i == j ? small_[i] : 0.0) - row_product(B + i * stride_, B + j * stride_, stride_);
        for (int64_t i = 0; i < m; ++i) {  // A = LDL', L in place of A; a row is LD until it is divided
            for (int64_t j = 0; j < i; ++j) {
                double before = 0;
#pragma omp simd reduction(+ : before)
                for (int64_t l = 0; l < j; ++l) before += A[i * m + l] * A[j * m + l];
                A[i * m + j] -= before;
            }
            for (int64_t j = 0; j < i; ++j) {
                A[i * m + j] /= A[j * m + j];
                A[i * m + i] -= A[i * m + j] * A[i * m + j] * A[j * m + j];
            }
            if (!(small_[i] * A[i * m + i] > kCancelled)) return false;
        }
        return true;
    }

    FBED_HOT void solve_small(const double* right, double* e) {
        const int64_t m = static_cast<int64_t>(small_.size());
        const double *B = rows_, *A = factor_;
        along_.resize(m);
        for (int64_t i = 0; i < m; ++i) {
            along_[i] = row_product(B + i * stride_, right, stride_);
            for (int64_t j = 0; j < i; ++j) along_[i] -= A[i * m + j] * along_[j];
        }
        for (int64_t i = m; i-- > 0;) {
            along_[i] /= A[i * m + i];
            for (int64_t j = i + 1; j < m; ++j) along_[i] -= A[j * m + i] * along_[j];
        }
        std::copy_n(right, stride_, e);
        for (int64_t i = 0; i < m; ++i) add_row(e, along_[i], B + i * stride_, stride_);
    }

    int64_t r_, stride_;
    double *rows_, *factor_;
    bool is_small_ = false;
    std::vector<double> small_, along_, together_;
};

}  // namespace fbed
