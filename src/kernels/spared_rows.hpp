// Rows that may be left out at a price.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace fbed {

// The rows that have least, all of which have no more than `spared` together; of equals the first. By powers of 2, so that only
// the last few have to be sorted.
inline std::vector<int64_t> least_rows(const double* left, int64_t n, double spared) {
    static constexpr int kLowest = -60, kHighest = 20, kParts = kHighest - kLowest + 1;
    const auto part_of = [](double v) { return v > 0 ? std::clamp(std::ilogb(v), kLowest, kHighest) - kLowest : 0; };
    std::array<double, kParts> sum{};
    for (int64_t i = 0; i < n; ++i) sum[part_of(left[i])] += left[i];
    int last = 0;
    double all = 0;
    for (; last < kParts && all + sum[last] <= spared; ++last) all += sum[last];
    std::vector<int64_t> rows, doubtful;
    for (int64_t i = 0; i < n; ++i) {
        const int part = part_of(left[i]);
        if (part < last) rows.push_back(i);
        if (part == last) doubtful.push_back(i);
    }
    std::stable_sort(doubtful.begin(), doubtful.end(), [left](int64_t i, int64_t j) { return left[i] < left[j]; });
    for (int64_t i : doubtful) {
        all += left[i];
        if (!(all <= spared)) break;
        rows.push_back(i);
    }
    return rows;
}

}  // namespace fbed
