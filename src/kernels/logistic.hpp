// Certified intervals for the likelihood-ratio statistic of adding one column to a fitted logistic model.
//
// The fitted model comes as a `Null`: linear predictor eta, weights a, and a matrix G whose columns span the model and are
// orthonormal in the metric of the curvature, G'diag(a·w)G = I. Rows with a = 0 are left out of every sum: they are the
// saturated rows, whose whole remaining deviance (`idle_deviance`) is added to upper bounds instead.
//
// Every upper bound is the value of a feasible dual point, every lower bound a likelihood that some coefficients attain,
// so an interval is right whatever the quality of the step that produced it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "bounds.hpp"
#include "columns.hpp"
#include "elementary.hpp"
#include "processors.hpp"
#include "linear.hpp"
#include "terms.hpp"

namespace fbed {

struct Interval {
    double lower = 0, upper = 0;
};

// Least and largest z of a step, 0 included.
struct Extremes {
    double min = 0, max = 0;
};

// What the caller wants to know about a statistic. Refinement goes on until one of these holds:
// it is below `critical` for sure; or above it for sure and, when resolving, below `floor` or known to `precision`.
struct Question {
    double critical = 0;
    double floor = 0;
    bool resolve = false;
    bool refine = true;  // whether to go beyond brackets at all
    bool spare_wide = false;  // whether to leave columns with many entries to others
    double bar = std::numeric_limits<double>::infinity();  // who may reach the best so far is looked at a little closer
    double leader = 0;  // the largest lower bound so far
    static constexpr double precision = 1e-10;

    // An upper bound below this settles it.
    double aim() const { return std::max(critical * (1.0 - 1e-9), resolve ? floor : 0.0); }

    // Who promises far less than the best so far has need of a closer look only when he comes to be ranked.
    bool contends(const Interval& v, double promise) const { return v.upper >= bar && v.lower > critical && promise > 0.5 * bar; }

    // A look that goes no further than brackets asks who passes; about those who may be best it asks more, and about those who
    // gain so little that they may be in the span of the model.
    bool quickly_passed(double lower) const {
        return !refine && !resolve && lower > std::max(critical * (1.0 + 2e-9), 1e-3) && lower < 0.7 * leader;
    }

    bool settled(const Interval& v) const {
        if (v.upper <= critical * (1.0 - 1e-9) || (resolve && v.upper < floor)) return true;
        if (v.upper - v.lower <= precision * std::max(v.lower, 1e-3)) return true;
        if (v.lower <= critical * (1.0 + 2e-9)) return false;
        return !resolve;
    }
};

// Rounding in the sums behind a bound, relative; see docs on floating point. Applied to every bracket from formulas.
constexpr double kSlack = 1e-9;

// Rows, those with the largest norm in G first, or the first of them; columns are filled up to whole vectors.
struct Sorted {
    int64_t count = 0, length = 0;
    std::vector<double> T, a, mu, norm;
};

// Rounding in a linear predictor, beside the largest one.
constexpr double kBlur = 2e-15;

struct Null {
    int64_t n = 0, r = 0;
    double blur = kBlur;  // more where columns of the model are next to others: their basis has rounding of what they share
    int64_t stride = 0;           // r, filled up to whole vectors
    const double* G = nullptr;    // n × stride, row-major: what one row has in all columns; see `row`
    const double* T = nullptr;    // the same column after column: sums over all rows
    const SparseBasis* sparse = nullptr;  // or what they are made of, where the model's columns are mostly 0,
    const RowsOnDemand* demanded = nullptr;  // and its rows
    const double* a = nullptr;    // weight of each active row, 0 for idle ones
    const double* sign = nullptr;  // +1 where y = 1, -1 where y = 0
    const double* eta = nullptr;
    const double* offset = nullptr;  // the part of eta that no coefficient moves; none where it is 0
    const double* mu = nullptr;
    const double* w = nullptr;    // mu(1 - mu)
    const double* res = nullptr;  // y - mu
    const double* dev = nullptr;  // log(1 + exp(-sign·eta)): half a row's deviance
    const double* weight = nullptr;  // weight of every row, idle or not
    double deviance = 0;       // all rows
    double idle_deviance = 0;  // idle rows
    const double* g0 = nullptr;  // G'a(y - mu): what the fit itself left, 0 when it is exact and no row is idle
    double inexact = 0;          // N² = |g0|²
    double kappa = 0;          // largest row norm of G among active rows
    double idle_kappa = 0;     // and among idle ones
    const double* norm = nullptr;  // row norms of G
    const Sorted* sorted = nullptr;
    bool has_idle = false;     // and what becomes of them matters

    // What the idle rows can lose in a step that moves their linear predictor by at most u: log(1 + exp(u - m)) is at most
    // exp(u) times log(1 + exp(-m)).
    double idle_loss(double u) const { return has_idle ? idle_deviance * std::exp(std::min(u, 700.0)) : 0.0; }

    // What a row has in all columns.
    const double* row(int64_t i) const { return demanded ? demanded->row(i) : G + i * stride; }

    // G'v and += Gc over all rows.
    void products(const double* v, double* out) const { sparse ? sparse->products(v, out) : fbed::products(T, n, r, v, out); }
    void add(const double* c, double* out) const { sparse ? sparse->add(c, out) : add_columns(T, n, r, c, out); }

    // The same of the columns that are quickest to work with, and [G x]'c[G x] of those.
    void term_products(const double* v, double* out) const { sparse ? sparse->terms.products(v, out) : fbed::products(T, n, r, v, out); }
    void add_terms(const double* c, double* out) const { sparse ? sparse->terms.add(c, out) : add_columns(T, n, r, c, out); }
    void gram_of_terms(const double* x, const double* c, double* H) const {
        sparse ? sparse->terms.gram(c, H, x) : fbed::gram(T, n, r, x, c, H);
    }

    double clip(double upper) const { return std::min(upper + idle_deviance, deviance); }
};

inline double logistic(double t) {
    const double e = exp_of_negative(-std::abs(t)), one = 1.0 / (1.0 + e);
    return t >= 0 ? one : e * one;
}

// log(1 + exp(-m)) for a margin m
inline double loss(double m) { return log1p_of_unit(exp_of_negative(-std::abs(m))) - std::min(m, 0.0); }

// What rows have left to explain, 2a·loss, with linear predictors eta: that of every row, or, after a step back, the sum.
FBED_HOT inline void row_deviances(int64_t n, const double* weight, const double* y, const double* eta, double* out) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = 2.0 * weight[i] * loss((2.0 * y[i] - 1.0) * eta[i]);
}

FBED_HOT inline double deviance_after(int64_t n, const double* weight, const double* y, const double* eta, const double* step) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += 2.0 * weight[i] * loss((2.0 * y[i] - 1.0) * (eta[i] - step[i]));
    return sum;
}

// A margin that is positive beside the largest one, not by rounding: two rows that are equal but for their class have
// margins of ±0, and no model separates them.
constexpr double kClear = 1e-9;

// Whether the columns alone put every row that counts on its side: only what they do goes on for ever, the offset does not.
template <class Counts, class Eta>
bool columns_separate(const Null& f, double most, Counts&& counts, Eta&& eta) {
    if (!f.offset) return true;  // eta itself has been looked at
    for (int64_t i = 0; i < f.n; ++i)
        if (counts(i) && !(f.sign[i] * (eta(i) - f.offset[i]) > kClear * std::max(1.0, most))) return false;
    return true;
}

// No linear predictor goes beyond this. Rows of a basis are right to 1e-16: larger coefficients would separate two rows that
// are equal but for their class by what rounding has made of them. Outliers on their way to probability 1 stay below.
constexpr double kFurthest = 1e13;

// Bracket from the score statistic and the extremes of z, with fourth moments where they help.
inline Interval bracket(const Null& f, double score, double z_min, double z_max, double s3, double s4, double idle_step) {
    Interval out;
    const double left_over = f.kappa * std::sqrt(f.inexact);  // the fit's own step moves no row by more
    z_min -= left_over;
    out.lower = score * P(z_max);
    double upper = std::numeric_limits<double>::infinity();
    if (z_min >= -1.0) upper = (score + f.inexact) * P(z_min);
    if (s4 > 0) {
        out.lower = std::max(out.lower, score - s3 / 3.0 - s4 * E4(z_max));
        if (z_min >= -1.0 && left_over < 1e-9) upper = std::min(upper, score - s3 / 3.0 + s4 * P4(z_min));
    }
    out.lower = std::max(out.lower * (1.0 - kSlack) - 2.0 * f.inexact - f.idle_loss(idle_step), 0.0);
    out.upper = f.clip(std::isfinite(upper) ? upper * (1.0 + kSlack) : upper);
    out.lower = std::min(out.lower, out.upper);
    return out;
}

// A dual point takes a row to 0 at z = -1: rows that come near are left out of it, since the next may take them beyond.
constexpr double kNearlyOut = -0.7;

// Scratch space of one thread.
struct Work {
    std::vector<double> x, v, mu, w, dir, margin, theta, grad, step, hess, values, aw, left, kept, score, from, theta_from, column, buffer,
        curvature;
    std::vector<int32_t> support;
    // columns have `all_rows` rows, of which the model may know fewer
    Work(const Null& f, int64_t all_rows)
        : x(f.n), v(f.n), mu(f.n), w(f.n), dir(f.n), margin(f.n), theta(whole(f.r + 1)), grad(whole(f.r + 1)), step(whole(f.r + 1)),
          hess((f.r + 1) * whole(f.r + 1)), values(f.n), aw(f.n), left(f.n), kept(f.n), score(f.n),
          from(f.n), theta_from(whole(f.r + 1)), column(all_rows), buffer(5 * (f.n + kLanes)), curvature(f.r * f.stride), support(all_rows) {}
};

// x -= G(G'aw x), twice: the second pass removes what rounding left of the first. Returns sum a w x².
FBED_HOT inline double orthogonalise(const Null& f, double* x, double* c, double* weighted) {
    double norm = 0;
    for (int pass = 0; pass < 2; ++pass) {
#pragma omp simd
        for (int64_t i = 0; i < f.n; ++i) weighted[i] = f.a[i] * f.w[i] * x[i];
        f.products(weighted, c);
        for (int64_t k = 0; k < f.r; ++k) c[k] = -c[k];
        f.add(c, x);
    }
#pragma omp simd reduction(+ : norm)
    for (int64_t i = 0; i < f.n; ++i) norm += f.a[i] * f.w[i] * x[i] * x[i];
    return norm;
}

// Bracket of a column that is orthogonal to G already.
FBED_HOT inline Interval bracket_column(const Null& f, const double* x, double norm) {
    double u = 0;
#pragma omp simd reduction(+ : u)
    for (int64_t i = 0; i < f.n; ++i) u += f.a[i] * f.res[i] * x[i];
    const double delta = u / norm;
    double z_min = 0, z_max = 0, s3 = 0, s4 = 0;
#pragma omp simd reduction(min : z_min) reduction(max : z_max) reduction(+ : s3, s4)
    for (int64_t i = 0; i < f.n; ++i) {
        const double t = f.a[i] > 0 ? x[i] * delta : 0.0, m = f.mu[i];
        const double one = (1.0 - m) * t, zero = -m * t;
        z_min = std::min(z_min, std::min(one, zero));
        z_max = std::max(z_max, std::max(one, zero));
        const double aw = f.a[i] * f.w[i], t2 = t * t;
        s3 += aw * (1.0 - 2.0 * m) * t2 * t;
        s4 += aw * (1.0 - 3.0 * f.w[i]) * t2 * t2;
    }
    double idle_step = 0;
    if (f.has_idle)
        for (int64_t i = 0; i < f.n; ++i)
            if (f.a[i] == 0.0) idle_step = std::max(idle_step, std::abs(x[i] * delta));
    return bracket(f, u * delta, z_min, z_max, s3, s4, idle_step);
}

}  // namespace fbed
