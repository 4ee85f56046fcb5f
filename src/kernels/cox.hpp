// Proportional hazards on rows in order: within a stratum from the latest time to the earliest, so that those at risk at a time
// are the rows so far. A tied set of deaths `closes` at the last row with its time. Efron's terms of a set of d deaths have
// R − f·D in the denominator, f = 0, 1/d, …, with R and D the sums of hazards at risk and dying; d may be a sum of weights that
// is not whole, and then the last term counts for the rest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

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

// Calls f(fraction, multiplicity) for each of Efron's terms of d deaths.
template <class F>
inline void each_term(double d, F&& f) {
    const int64_t count = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(d - 1e-9)));
    for (int64_t m = 0; m < count; ++m) f(static_cast<double>(m) / d, std::min(d - static_cast<double>(m), 1.0));
}

// Hazards, expected events and residuals of all rows, and −log-likelihood. Each tied set leaves a 2 × 2 triangle l with
// l l' = sum of c/(R − fD)² [1, −f]'[1, −f]: what its terms take from the information is (l'[S; D])'(l'[S; D]), S and D the sums
// of a column over those at risk and dying, weighted by their hazards.
inline double cox_rows(const RiskRows& rows, const double* eta, const double* a, const double* deaths, double* hazard,
                       double* expected, double* residual, double* triangle) {
    double top = -INFINITY, dying = 0;
    Sum loss, risk;
    for (int64_t i = 0; i < rows.n; ++i) top = std::max(top, eta[i]);
    std::vector<double> share, own;
    for (int64_t i = 0; i < rows.n; ++i) {
        if (rows.starts[i]) risk = Sum{};
        const double t = std::max(eta[i] - top, -700.0), h = a[i] * std::exp(t);
        hazard[i] = h;
        risk.add(h);
        dying += rows.event[i] * h;
        loss.add(-rows.event[i] * a[i] * t);
        if (rows.closes[i] == 0) continue;
        const int64_t g = rows.closes[i] - 1;
        double s = 0, sf = 0, A = 0, B = 0, C = 0;
        each_term(deaths[g], [&](double f, double c) {
            const double inverse = 1.0 / (risk.total() - f * dying);
            s += c * inverse;
            sf += c * f * inverse;
            A += c * inverse * inverse;
            B += c * f * inverse * inverse;
            C += c * f * f * inverse * inverse;
            loss.add(-c * std::log(inverse));
        });
        share.push_back(s);
        own.push_back(sf);
        const double root = std::sqrt(A);
        triangle[3 * g] = root;
        triangle[3 * g + 1] = -B / root;
        triangle[3 * g + 2] = std::sqrt(std::max(0.0, C - B * B / A));
        dying = 0;
    }
    double cumulated = 0, current = 0;
    for (int64_t i = rows.n; i-- > 0;) {
        if (rows.closes[i] > 0) cumulated += share[rows.closes[i] - 1], current = own[rows.closes[i] - 1];
        expected[i] = hazard[i] * (cumulated - rows.event[i] * current);
        residual[i] = rows.event[i] * a[i] - expected[i];
        if (rows.starts[i]) cumulated = 0;
    }
    return loss.total();
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
        share[g] = own[g] = 0;
        each_term(deaths[g], [&](double f, double c) {
            share[g] += c / (risk.total() - f * dying);
            own[g] += c * f / (risk.total() - f * dying);
        });
        dying = 0;
    }
}

// l'[S; D] of every tied set that closes in these rows, for `count` columns X (column-major): out has two rows a set, or one
// when there are no ties, column-major. S and D are carried on from block to block.
inline void risk_means(const RiskRows& rows, const double* hazard, const double* triangle, bool tied, const double* X, int64_t count,
                       double* S, double* D, double* out, int64_t out_rows) {
    constexpr int64_t kTogether = 8;  // columns whose sums run side by side: one alone would wait for every addition
    for (int64_t first = 0; first < count; first += kTogether) {
        const int64_t m = std::min(kTogether, count - first);
        double s[kTogether] = {}, d[kTogether] = {};
        const double* x[kTogether];
        for (int64_t j = 0; j < kTogether; ++j) {
            x[j] = X + (first + std::min(j, m - 1)) * rows.n;
            s[j] = S[first + std::min(j, m - 1)], d[j] = D[first + std::min(j, m - 1)];
        }
        int64_t place = 0;
        for (int64_t i = 0; i < rows.n; ++i) {
            const double h = hazard[i], e = rows.event[i] * h;
            if (rows.starts[i])
                for (int64_t j = 0; j < kTogether; ++j) s[j] = 0;
            for (int64_t j = 0; j < kTogether; ++j) s[j] += h * x[j][i];
            if (tied)
                for (int64_t j = 0; j < kTogether; ++j) d[j] += e * x[j][i];
            if (rows.closes[i] == 0) continue;
            const double* l = triangle + 3 * (rows.closes[i] - 1);
            for (int64_t j = 0; j < m; ++j) {
                double* to = out + (first + j) * out_rows + place;
                to[0] = l[0] * s[j] + l[1] * d[j];
                if (tied) to[1] = l[2] * d[j];
            }
            for (int64_t j = 0; j < kTogether; ++j) d[j] = 0;
            place += tied ? 2 : 1;
        }
        for (int64_t j = 0; j < m; ++j) S[first + j] = s[j], D[first + j] = d[j];
    }
}

// What is carried on from block to block of a step: powers of it among those at risk and dying, and its extremes.
constexpr int64_t kCarriedMoments = 12;

// Sums over all terms of c times the second, third and fourth central moment of a step u among those at risk, and the extremes
// of its difference from their mean, for the sets that close in these rows. `carried` is what the rows before have left.
inline void risk_moments(const RiskRows& rows, const double* hazard, const double* deaths, const double* u, double* carried,
                         double* out) {
    double at[5], dead[5], low = 0, high = 0, least = carried[10], most = carried[11];
    std::copy(carried, carried + 5, at);
    std::copy(carried + 5, carried + 10, dead);
    double second = 0, third = 0, fourth = 0;
    for (int64_t i = 0; i < rows.n; ++i) {
        if (rows.starts[i]) {
            std::fill(at, at + 5, 0.0);
            least = INFINITY, most = -INFINITY;
        }
        double power = hazard[i];
        for (int j = 0; j < 5; ++j) {
            at[j] += power;
            dead[j] += rows.event[i] * power;
            power *= u[i];
        }
        least = std::min(least, u[i]);
        most = std::max(most, u[i]);
        if (rows.closes[i] == 0) continue;
        each_term(deaths[rows.closes[i] - 1], [&](double f, double c) {
            const double unit = 1.0 / (at[0] - f * dead[0]);
            double e[5];
            for (int j = 1; j < 5; ++j) e[j] = (at[j] - f * dead[j]) * unit;
            const double mean = e[1], square = mean * mean;
            second += c * std::max(0.0, e[2] - square);
            third += c * (e[3] - 3.0 * mean * e[2] + 2.0 * mean * square);
            fourth += c * std::max(0.0, e[4] - 4.0 * mean * e[3] + 6.0 * square * e[2] - 3.0 * square * square);
            low = std::min(low, least - mean);
            high = std::max(high, most - mean);
        });
        std::fill(dead, dead + 5, 0.0);
    }
    std::copy(at, at + 5, carried);
    std::copy(dead, dead + 5, carried + 5);
    carried[10] = least, carried[11] = most;
    out[0] = second, out[1] = third, out[2] = fourth, out[3] = low, out[4] = high;
}

}  // namespace fbed
