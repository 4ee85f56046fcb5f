// Proportional hazards on rows in order: within a stratum from the latest time to the earliest, so that those at risk at a time
// are the rows so far. A tied set of deaths `closes` at the last row with its time. Efron's terms of a set of d deaths have
// R − f·D in the denominator, f = 0, 1/d, …, with R and D the sums of hazards at risk and dying; d may be a sum of weights that
// is not whole, and then the last term counts for the rest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "elementary.hpp"
#include "processors.hpp"

namespace fbed {

struct RiskRows {
    int64_t n = 0;
    const double* event = nullptr;     // 1 where a row ends with a death
    const int64_t* closes = nullptr;   // number of the tied set that ends with this row, from 1; 0 for none
    const bool* starts = nullptr;      // whether a row is the first of its stratum
};

// A sum that keeps what rounding takes from it: log-likelihoods of a million rows are compared to nine digits of a difference.
struct Sum {
    double value = 0, rest = 0;

    void add(double x) {
        const double t = value + x;
        rest += std::abs(value) >= std::abs(x) ? (value - t) + x : (x - t) + value;
        value = t;
    }
    double total() const { return value + rest; }
};

// How many terms Efron has for d deaths.
inline int64_t n_terms(double d) { return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(d - 1e-9))); }

// A sum of logarithms: factors are multiplied while they fit, their powers of 2 apart.
struct LogSum {
    double product = 1.0;
    int64_t powers = 0, count = 0;
    Sum logs;

    // x must be positive and normal
    void add(double x) {
        uint64_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        powers += static_cast<int64_t>(bits >> 52) - 1023;
        bits = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
        std::memcpy(&x, &bits, sizeof x);
        product *= x;  // between 1 and 2
        if (++count == 64) settle();
    }
    void settle() {
        logs.add(std::log(product));
        product = 1.0, count = 0;
    }
    double total() {
        settle();
        return logs.total() + static_cast<double>(powers) * 0.6931471805599453;
    }
};

constexpr double kFaint = -700.0;         // log of the smallest hazard that is told, in units of the largest
constexpr double kFaintPart = 1e-14;      // of the hazards at risk, that may be of rows whose own is not told

FBED_HOT inline void hazards(int64_t n, const double* eta, const double* a, double top, double* hazard) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) hazard[i] = a[i] * exp_of_negative(std::min(std::max(eta[i] - top, kFaint), 0.0));
}

// What Efron's terms of a tied set say: Σ c/(R − fD), Σ c·f/(R − fD), and the triangle below. Hazards may be so small that squares
// of their inverses are no numbers any more: sums are in units of R.
struct TiedSet {
    double share = 0, own = 0;

    TiedSet(double d, double risk, double dying, double* triangle, Sum& loss) {
        const double part = dying / risk;
        double A = 0, B = 0, C = 0;
        for (int64_t m = 0; m < n_terms(d); ++m) {
            const double f = static_cast<double>(m) / d, c = std::min(d - static_cast<double>(m), 1.0);
            const double inverse = 1.0 / (1.0 - f * part);
            share += c * inverse;
            own += c * f * inverse;
            A += c * inverse * inverse;
            B += c * f * inverse * inverse;
            C += c * f * f * inverse * inverse;
            loss.add(-c * std::log(inverse / risk));
        }
        share /= risk, own /= risk;
        const double root = std::sqrt(A);
        triangle[0] = root / risk;
        triangle[1] = -B / root / risk;
        triangle[2] = std::sqrt(std::max(0.0, C - B * B / A)) / risk;
    }
};

// The hazard of every row times the sum over the tied sets at which it is at risk of what they have to share; of its own set a
// row that dies is short of something.
inline void expected_events(const RiskRows& rows, const double* hazard, const double* share, const double* own, double* expected) {
    double cumulated = 0, current = 0;
    for (int64_t i = rows.n; i-- > 0;) {
        if (rows.closes[i] > 0) cumulated += share[rows.closes[i] - 1], current = own[rows.closes[i] - 1];
        expected[i] = hazard[i] * (cumulated - rows.event[i] * current);
        if (rows.starts[i]) cumulated = 0;
    }
}

// Hazards, expected events and residuals of all rows, and −log-likelihood. Each tied set leaves a 2 × 2 triangle l with
// l l' = sum of c/(R − fD)² [1, −f]'[1, −f]: what its terms take from the information is (l'[S; D])'(l'[S; D]), S and D the sums
// of a column over those at risk and dying, weighted by their hazards. Rows that weigh nothing set no unit. Where a set has nobody
// at risk but rows whose hazards are too small to be told from each other, nobody knows the likelihood: its −log is infinite.
inline double cox_rows(const RiskRows& rows, const double* eta, const double* a, const double* deaths, size_t n_sets, double* hazard,
                       double* expected, double* residual, double* triangle) {
    double top = -INFINITY, dying = 0, faint = 0;
    bool is_told = true;
    Sum loss, risk;
    LogSum logs;
    for (int64_t i = 0; i < rows.n; ++i) top = std::max(top, a[i] > 0.0 ? eta[i] : -INFINITY);
    hazards(rows.n, eta, a, top, hazard);
    std::vector<double> share(n_sets), own(n_sets);
    for (int64_t i = 0; i < rows.n; ++i) {
        if (rows.starts[i]) risk = Sum{}, faint = 0;
        risk.add(hazard[i]);
        if (eta[i] - top < kFaint) faint += hazard[i];
        if (rows.event[i] != 0.0) {
            dying += hazard[i];
            if (a[i] > 0.0) loss.add(-a[i] * (eta[i] - top));
        }
        if (rows.closes[i] == 0) continue;
        const int64_t g = rows.closes[i] - 1;
        const double sum = risk.total();
        is_told = is_told && faint <= kFaintPart * sum;
        if (deaths[g] == 1.0 && sum >= std::numeric_limits<double>::min()) {  // one term
            const double inverse = 1.0 / sum;
            logs.add(sum);
            share[g] = inverse;
            triangle[3 * g] = inverse, triangle[3 * g + 1] = triangle[3 * g + 2] = 0.0;
        } else {
            const TiedSet set(deaths[g], sum, dying, triangle + 3 * g, loss);
            share[g] = set.share, own[g] = set.own;
        }
        dying = 0;
    }
    expected_events(rows, hazard, share.data(), own.data(), expected);
    for (int64_t i = 0; i < rows.n; ++i) residual[i] = rows.event[i] * a[i] - expected[i];
    return is_told ? loss.total() + logs.total() : INFINITY;
}

// Sums of c/(R − fD) and of c·f/(R − fD) over the terms of every tied set: what its time adds to the cumulated hazard, and what
// those who die in it are short of that.
inline void risk_shares(const RiskRows& rows, const double* deaths, const double* hazard, double* share, double* own) {
    double dying = 0;
    Sum risk;
    for (int64_t i = 0; i < rows.n; ++i) {
        if (rows.starts[i]) risk = Sum{};
        risk.add(hazard[i]);
        dying += rows.event[i] * hazard[i];
        if (rows.closes[i] == 0) continue;
        const int64_t g = rows.closes[i] - 1;
        const double d = deaths[g], sum = risk.total();
        share[g] = own[g] = 0;
        for (int64_t m = 0; m < n_terms(d); ++m) {
            const double f = static_cast<double>(m) / d, c = std::min(d - static_cast<double>(m), 1.0);
            share[g] += c / (sum - f * dying);
            own[g] += c * f / (sum - f * dying);
        }
        dying = 0;
    }
}

// How probabilities of those at risk have changed from p₀ to p, term by term: the extremes of p/p₀, and Σ (p − p₁)²/p₀ with p₁ those
// of a third state.
struct RiskChange {
    double least = INFINITY, largest = 0, apart = 0;
};

// Sums over rows of the hazards of three states, and of their products over the hazard of the first.
struct ThreeHazards {
    Sum before, scored, now, both, square, other_square;

    void add(double h0, double h1, double h) {
        before.add(h0), scored.add(h1), now.add(h);
        both.add(h * h1 / h0), square.add(h * h / h0), other_square.add(h1 * h1 / h0);
    }
};

inline RiskChange risk_change(const RiskRows& rows, const double* deaths, const double* before, const double* scored, const double* now) {
    RiskChange out;
    ThreeHazards risk, dying;
    Sum apart;
    double low = INFINITY, high = 0;
    for (int64_t i = 0; i < rows.n; ++i) {
        if (rows.starts[i]) risk = ThreeHazards{}, low = INFINITY, high = 0;
        if (before[i] > 0.0) {
            const double ratio = now[i] / before[i];
            low = std::min(low, ratio), high = std::max(high, ratio);
            risk.add(before[i], scored[i], now[i]);
            if (rows.event[i] != 0.0) dying.add(before[i], scored[i], now[i]);
        } else if (now[i] > 0.0 || scored[i] > 0.0) {
            return {0.0, INFINITY, INFINITY};
        }
        if (rows.closes[i] == 0) continue;
        const double d = deaths[rows.closes[i] - 1];
        for (int64_t m = 0; m < n_terms(d); ++m) {
            const double f = static_cast<double>(m) / d, c = std::min(d - static_cast<double>(m), 1.0);
            const auto rest = [&](Sum ThreeHazards::*sum) { return (risk.*sum).total() - f * (dying.*sum).total(); };
            const double s0 = rest(&ThreeHazards::before), s1 = rest(&ThreeHazards::scored), s = rest(&ThreeHazards::now);
            out.least = std::min(out.least, low * s0 / s), out.largest = std::max(out.largest, high * s0 / s);
            apart.add(c * s0 * (rest(&ThreeHazards::square) / (s * s) - 2.0 * rest(&ThreeHazards::both) / (s * s1) +
                                rest(&ThreeHazards::other_square) / (s1 * s1)));
            apart.add(c * 1e-14);  // of rounding
        }
        dying = ThreeHazards{};
    }
    out.apart = apart.total();
    return out;
}

}  // namespace fbed
