// Pairs of levels of two categories in the information of a proportional hazards model, by one addition of a row of sums a row.
//
// What the tied sets take from the information of two columns is, with S and D their sums over those at risk and dying,
//
//     sum over sets of (l₀S + l₁D)(l₀S + l₁D)' + l₂²DD'.
//
// S changes by one level at a time, so that the sum of l₀²SS' is taken by parts: a row that joins those at risk adds its hazard
// times the sums of the others so far, for all the sets that are still to come. Nothing is negative there, and nothing cancels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cox.hpp"
#include "linear.hpp"
#include "pause.hpp"

namespace fbed {

constexpr int64_t kRowsALook = 4096;
constexpr double kSquarable = 1e140;  // numbers up to which products of two, times hazards, are numbers

// Σ l₀² over the sets that a row is at risk at.
FBED_HOT inline std::vector<double> sets_to_come(const RiskRows& rows, const double* triangle) {
    std::vector<double> out(rows.n);
    double sum = 0;
    for (int64_t i = rows.n; i-- > 0;) {
        if (const int64_t g = rows.closes[i] - 1; g >= 0) sum += triangle[3 * g] * triangle[3 * g];
        out[i] = sum;
        if (rows.starts[i]) sum = 0;
    }
    return out;
}

// Sums of hazards over those at risk and dying, by level.
struct LevelsAtRisk {
    std::vector<double> risk, dying;
    std::vector<int64_t> touched;  // levels of those who die at the present set

    explicit LevelsAtRisk(int64_t levels) : risk(levels, 0.0), dying(levels, 0.0) {}

    void die(int64_t level, double hazard) {
        if (hazard == 0.0) return;  // adds nothing, and the next death of the level could not tell that it is there
        if (dying[level] == 0.0) touched.push_back(level);
        dying[level] += hazard;
    }
    void close() {
        for (const int64_t level : touched) dying[level] = 0.0;
        touched.clear();
    }
};

// to += a·from
FBED_INLINE void add_multiple(double a, const std::vector<double>& from, double* to) {
    const double* f = from.data();
    const int64_t n = static_cast<int64_t>(from.size());
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] += a * f[i];
}

// What the sets take from pairs of levels, levels × others; `other_codes` may be `codes`.
template <class Code, class Other>
FBED_HOT void level_pairs_at_risk(const RiskRows& rows, const double* hazard, const double* triangle, const Code* codes, int64_t levels,
                                  const Other* others, int64_t n_others, double* out) {
    const std::vector<double> weight = sets_to_come(rows, triangle);
    LevelsAtRisk a(levels), b(n_others);
    std::vector<double> turned(n_others * levels, 0.0);  // others × levels
    for (int64_t i = 0; i < rows.n; ++i) {
        if (i % kRowsALook == 0) look_up();
        const int64_t k = static_cast<int64_t>(codes[i]), l = static_cast<int64_t>(others[i]);
        if (rows.starts[i]) std::fill(a.risk.begin(), a.risk.end(), 0.0), std::fill(b.risk.begin(), b.risk.end(), 0.0);
        const double h = hazard[i], joins = weight[i] * h;
        add_multiple(joins, b.risk, out + k * n_others);
        add_multiple(joins, a.risk, turned.data() + l * levels);
        out[k * n_others + l] += joins * h;
        a.risk[k] += h, b.risk[l] += h;
        if (rows.event[i] != 0.0) a.die(k, h), b.die(l, h);
        if (rows.closes[i] == 0) continue;
        const double* t = triangle + 3 * (rows.closes[i] - 1);
        if (t[1] != 0.0 || t[2] != 0.0) {
            for (const int64_t m : b.touched) add_multiple(t[0] * t[1] * b.dying[m], a.risk, turned.data() + m * levels);
            for (const int64_t m : a.touched) {
                double* to = out + m * n_others;
                add_multiple(t[0] * t[1] * a.dying[m], b.risk, to);
                for (const int64_t j : b.touched) to[j] += (t[1] * t[1] + t[2] * t[2]) * a.dying[m] * b.dying[j];
            }
        }
        a.close(), b.close();
    }
    for (int64_t k = 0; k < levels; ++k)
        for (int64_t l = 0; l < n_others; ++l) out[k * n_others + l] += turned[l * levels + k];
}

}  // namespace fbed
