// Rows that a model cannot tell apart: what no coefficients explain.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace fbed {

// Rows that are equal in all columns of a model get the same probability from it, whatever its coefficients, so that its
// deviance is at least that of the model with a probability for each set of equal rows. X is n × k, row-major.
class Patterns {
   public:
    Patterns(const double* X, int64_t n, int64_t k, const double* y, const double* weight)
        : X_(X), n_(n), k_(k), y_(y), weight_(weight), whole_(n, 0), key_(n), group_(n) {
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < k; ++j) whole_[i] += mixed(i, j);
        size_t slots = 4;
        while (slots < 2 * static_cast<size_t>(n)) slots *= 2;
        table_.resize(slots);
    }

    // The least deviance of any model without the columns first..last.
    double deviance_without(int64_t first, int64_t last) {
        std::fill(table_.begin(), table_.end(), -1);
        std::vector<double> ones, zeros;
        for (int64_t i = 0; i < n_; ++i) {
            key_[i] = whole_[i];
            for (int64_t j = first; j < last; ++j) key_[i] -= mixed(i, j);
            int64_t& found = slot_of(i, first, last);
            if (found < 0) {
                found = i;
                group_[i] = static_cast<int64_t>(ones.size());
                ones.push_back(0.0), zeros.push_back(0.0);
            }
            (y_[i] > 0.5 ? ones : zeros)[group_[found]] += weight_[i];
        }
        double out = 0;
        for (size_t g = 0; g < ones.size(); ++g)
            if (ones[g] > 0 && zeros[g] > 0) {
                const double all = ones[g] + zeros[g];
                out += ones[g] * std::log(all / ones[g]) + zeros[g] * std::log(all / zeros[g]);
            }
        return 2.0 * out;
    }

   private:
    // Where the first row that is equal to row i was put, or an empty place. Keys say where to look, values decide.
    int64_t& slot_of(int64_t i, int64_t first, int64_t last) {
        const size_t mask = table_.size() - 1;
        size_t at = key_[i] & mask;
        while (table_[at] >= 0 && !equal(table_[at], i, first, last)) at = (at + 1) & mask;
        return table_[at];
    }

    bool equal(int64_t p, int64_t q, int64_t first, int64_t last) const {
        const double *one = X_ + p * k_, *other = X_ + q * k_;
        return key_[p] == key_[q] && std::equal(one, one + first, other) && std::equal(one + last, one + k_, other + last);
    }

    // A value and its column as one number that looks random (the finaliser of SplitMix64).
    uint64_t mixed(int64_t i, int64_t j) const {
        const double value = X_[i * k_ + j] + 0.0;  // -0 is 0
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        bits += 0x9e3779b97f4a7c15ull * static_cast<uint64_t>(j + 1);
        bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
        bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
        return bits ^ (bits >> 31);
    }

    const double* X_;
    int64_t n_, k_;
    const double *y_, *weight_;
    std::vector<uint64_t> whole_, key_;
    std::vector<int64_t> group_, table_;
};

}  // namespace fbed
