// How often the riskier of two rows that can be compared is the one that fares worse, for several weightings at a time.
//
//   won = sum w_i w_j [1(r_i > r_j) + ½·1(r_i = r_j)],  all = sum w_i w_j   over pairs in which i has its event before j's time
//
// Rows come latest first. Those that are there already are the ones that outlived the next; a tree over the ranks of their
// risks (Fenwick's) tells how many of them have less risk, so that a weighting costs n·log n and not n².
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "processors.hpp"

namespace fbed {

class Concordance {
   public:
    static constexpr int64_t kTogether = 8;  // weightings

    // Rows that are censored at the time of an event outlived it. A risk that is not a number exceeds none, and none exceeds it.
    Concordance(const double* time, const bool* event, const double* risk, int64_t n) : n_(n), order_(n), rank_(n, 0), event_(event, event + n) {
        std::iota(order_.begin(), order_.end(), int64_t{0});
        std::vector<int64_t> by_risk;
        for (int64_t i : order_)
            if (!std::isnan(risk[i])) by_risk.push_back(i);
        std::sort(by_risk.begin(), by_risk.end(), [risk](int64_t i, int64_t j) { return risk[i] < risk[j]; });
        for (size_t k = 0; k < by_risk.size(); ++k) {
            n_ranks_ += k == 0 || risk[by_risk[k]] != risk[by_risk[k - 1]];
            rank_[by_risk[k]] = n_ranks_;
        }
        std::sort(order_.begin(), order_.end(), [time](int64_t i, int64_t j) { return time[i] > time[j]; });
        for (int64_t k = 0; k < n; ++k)
            if (k + 1 == n || time[order_[k]] != time[order_[k + 1]]) ends_.push_back(k + 1);
        tree_.resize((n_ranks_ + 1) * kTogether);
        level_.resize((n_ranks_ + 1) * kTogether);
    }

    // Weights are n × kTogether, row-major; won and all have a number a weighting.
    FBED_HOT void count(const double* weights, double* won, double* all) {
        constexpr int64_t L = kTogether;
        std::fill(tree_.begin(), tree_.end(), 0.0);
        std::fill(level_.begin(), level_.end(), 0.0);
        double there[L] = {};
        std::fill(won, won + L, 0.0);
        std::fill(all, all + L, 0.0);
        int64_t start = 0;
        for (int64_t end : ends_) {
            for (int64_t k = start; k < end; ++k)
                if (!event_[order_[k]]) put(order_[k], weights, there);
            for (int64_t k = start; k < end; ++k)
                if (event_[order_[k]]) compare(order_[k], weights, there, won, all);
            for (int64_t k = start; k < end; ++k)
                if (event_[order_[k]]) put(order_[k], weights, there);
            start = end;
        }
    }

   private:
    void put(int64_t row, const double* weights, double* there) {
        constexpr int64_t L = kTogether;
        const double* w = weights + row * L;
        for (int64_t l = 0; l < L; ++l) there[l] += w[l];
        if (rank_[row] == 0) return;
        double* level = level_.data() + rank_[row] * L;
        for (int64_t l = 0; l < L; ++l) level[l] += w[l];
        for (int64_t k = rank_[row]; k <= n_ranks_; k += k & -k) {
            double* node = tree_.data() + k * L;
            for (int64_t l = 0; l < L; ++l) node[l] += w[l];
        }
    }

    void compare(int64_t row, const double* weights, const double* there, double* won, double* all) const {
        constexpr int64_t L = kTogether;
        const double* w = weights + row * L;
        double less[L] = {};
        if (rank_[row] > 0) {
            const double* level = level_.data() + rank_[row] * L;
            for (int64_t l = 0; l < L; ++l) less[l] = 0.5 * level[l];
            for (int64_t k = rank_[row] - 1; k > 0; k -= k & -k) {
                const double* node = tree_.data() + k * L;
                for (int64_t l = 0; l < L; ++l) less[l] += node[l];
            }
        }
        for (int64_t l = 0; l < L; ++l) {
            won[l] += w[l] * less[l];
            all[l] += w[l] * there[l];
        }
    }

    int64_t n_, n_ranks_ = 0;
    std::vector<int64_t> order_, rank_, ends_;
    std::vector<char> event_;
    std::vector<double> tree_, level_;
};

}  // namespace fbed
