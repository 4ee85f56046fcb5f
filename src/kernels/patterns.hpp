// Rows that a model cannot tell apart: what no coefficients explain.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace fbed {

// Rows that are equal in all columns of a model get the same probability from it, whatever its coefficients, so that its
// deviance is at least that of the model with a probability for each set of equal rows. X is n × k, row-major.
//
// Without some columns, sets become one that differ in those only. Most sets have the usual values there: the others are
// looked at, each with the set that it would be if it had them, and with each other. Keys say where to look, values decide.
class Patterns {
   public:
    Patterns(const double* X, int64_t n, int64_t k, const double* y, const double* weight) : X_(X), k_(k) {
        size_t slots = 4;
        while (slots < 2 * static_cast<size_t>(n)) slots *= 2;
        table_.assign(slots, -1);
        for (int64_t i = 0; i < n; ++i) {
            Set row{i, 0, 0.0, 0.0};
            for (int64_t j = 0; j < k; ++j) row.key += mixed(i, j);
            int64_t& found = slot_of(row);
            if (found < 0) {
                found = static_cast<int64_t>(sets_.size());
                sets_.push_back(row);
            }
            (y[i] > 0.5 ? sets_[found].ones : sets_[found].zeros) += weight[i];
        }
        for (const Set& set : sets_) whole_ += left(set.ones, set.zeros);
    }

    // The least deviance of any model without the columns first..last.
    double deviance_without(int64_t first, int64_t last) {
        own_.resize(sets_.size());
        for (size_t s = 0; s < sets_.size(); ++s) {
            own_[s] = 0;
            for (int64_t j = first; j < last; ++j) own_[s] += mixed(sets_[s].row, j);
        }
        const size_t usual = most_usual();
        unusual_.clear();
        for (size_t s = 0; s < sets_.size(); ++s)
            if (own_[s] != own_[usual]) unusual_.push_back({sets_[s].key - own_[s], s});
        std::sort(unusual_.begin(), unusual_.end());
        double out = whole_;
        for (size_t start = 0; start < unusual_.size();) {
            size_t end = start;
            while (end < unusual_.size() && unusual_[end].first == unusual_[start].first) ++end;
            out += made_one(start, end, own_[usual], first, last);
            start = end;
        }
        return 2.0 * out;
    }

   private:
    struct Set {
        int64_t row;  // the first of its rows
        uint64_t key;
        double ones, zeros;
    };

    static double left(double ones, double zeros) {
        if (!(ones > 0) || !(zeros > 0)) return 0.0;
        return ones * std::log((ones + zeros) / ones) + zeros * std::log((ones + zeros) / zeros);
    }

    // A set with the values that most sets have in the columns asked about, if most have the same.
    size_t most_usual() const {
        size_t candidate = 0;
        int64_t votes = 0;
        for (size_t s = 0; s < sets_.size(); ++s) {
            if (votes == 0) candidate = s;
            votes += own_[s] == own_[candidate] ? 1 : -1;
        }
        return candidate;
    }

    // What is lost when unusual sets with the same key elsewhere, and the usual one with that key, cannot be told apart. Sets that
    // are not equal elsewhere, for all that, stay apart: equal ones are taken together one after the other.
    double made_one(size_t start, size_t end, uint64_t usual, int64_t first, int64_t last) {
        double out = 0;
        std::vector<char> done(end - start, 0);
        for (size_t p = start; p < end; ++p) {
            if (done[p - start]) continue;
            const Set& one = sets_[unusual_[p].second];
            double ones = one.ones, zeros = one.zeros, apart = left(ones, zeros);
            const auto add = [&](const Set& other) {
                ones += other.ones, zeros += other.zeros, apart += left(other.ones, other.zeros);
            };
            for (size_t q = p + 1; q < end; ++q) {
                const Set& other = sets_[unusual_[q].second];
                if (done[q - start] || !equal(one.row, other.row, first, last)) continue;
                done[q - start] = 1;
                add(other);
            }
            const uint64_t key = unusual_[p].first + usual;
            for (size_t at = key & (table_.size() - 1); table_[at] >= 0; at = (at + 1) & (table_.size() - 1)) {
                const size_t found = static_cast<size_t>(table_[at]);
                if (sets_[found].key == key && own_[found] == usual && equal(sets_[found].row, one.row, first, last)) add(sets_[found]);
            }
            out += left(ones, zeros) - apart;
        }
        return out;
    }

    // Where the set of a row was put, or an empty place.
    int64_t& slot_of(const Set& row) {
        const size_t mask = table_.size() - 1;
        size_t at = row.key & mask;
        while (table_[at] >= 0 && !(sets_[table_[at]].key == row.key && equal(sets_[table_[at]].row, row.row, k_, k_))) at = (at + 1) & mask;
        return table_[at];
    }

    // Whether rows are equal but for the columns first..last.
    bool equal(int64_t p, int64_t q, int64_t first, int64_t last) const {
        const double *one = X_ + p * k_, *other = X_ + q * k_;
        return std::equal(one, one + first, other) && std::equal(one + last, one + k_, other + last);
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
    int64_t k_;
    double whole_ = 0;  // half the deviance of all sets
    std::vector<Set> sets_;
    std::vector<int64_t> table_;
    std::vector<uint64_t> own_;  // what the columns asked about have in the keys
    std::vector<std::pair<uint64_t, size_t>> unusual_;
};

}  // namespace fbed
