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
#include "hot.hpp"

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
    static constexpr double precision = 1e-10;

    // An upper bound below this settles it.
    double aim() const { return std::max(critical * (1.0 - 1e-9), resolve ? floor : 0.0); }

    bool settled(const Interval& v) const {
        if (v.upper <= critical * (1.0 - 1e-9)) return true;
        if (v.upper - v.lower <= precision * std::max(v.lower, 1e-3)) return true;
        if (v.lower <= critical * (1.0 + 2e-9)) return false;
        return !resolve || v.upper < floor;
    }
};

// Rounding in the sums behind a bound, relative; see docs on floating point. Applied to every bracket from formulas.
constexpr double kSlack = 1e-9;

struct Null {
    int64_t n = 0, r = 0;
    const double* G = nullptr;    // n × r, row-major: what one row has in all columns
    const double* T = nullptr;    // the same column after column: sums over all rows
    const double* a = nullptr;    // weight of each active row, 0 for idle ones
    const double* sign = nullptr;  // +1 where y = 1, -1 where y = 0
    const double* eta = nullptr;
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
    const int32_t* by_norm = nullptr;  // rows, those with the largest norm in G first
    const double* norm = nullptr;      // row norms of G
    bool has_idle = false;     // and what becomes of them matters

    // What the idle rows can lose in a step that moves their linear predictor by at most u: log(1 + exp(u - m)) is at most
    // exp(u) times log(1 + exp(-m)).
    double idle_loss(double u) const { return has_idle ? idle_deviance * std::exp(std::min(u, 700.0)) : 0.0; }

    double clip(double upper) const { return std::min(upper + idle_deviance, deviance); }
};

inline double logistic(double t) {
    const double e = exp_of_negative(-std::abs(t)), one = 1.0 / (1.0 + e);
    return t >= 0 ? one : e * one;
}

// log(1 + exp(-m)) for a margin m
inline double loss(double m) { return log1p_of_unit(exp_of_negative(-std::abs(m))) - std::min(m, 0.0); }

// A margin that is positive beside the largest one, not by rounding: two rows that are equal but for their class have
// margins of ±0, and no model separates them.
constexpr double kClear = 1e-9;

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

// Short loops run over whole vectors, the last filled up with rows that count nothing.
constexpr int64_t kLanes = 8;

// Scratch space of one thread.
struct Work {
    std::vector<double> x, v, mu, w, dir, margin, theta, grad, step, hess, values, aw, left, kept, score, from, theta_from, column, buffer;
    std::vector<int32_t> support;
    // columns have `all_rows` rows, of which the model may know fewer
    Work(const Null& f, int64_t all_rows)
        : x(f.n), v(f.n), mu(f.n), w(f.n), dir(f.n), margin(f.n), theta(f.r + 1), grad(f.r + 1), step(f.r + 1),
          hess((f.r + 1) * (f.r + 1)), values(f.n), aw(f.n), left(f.n), kept(f.n), score(f.n),
          from(f.n), theta_from(f.r + 1), column(all_rows), buffer(5 * (f.n + kLanes)), support(all_rows) {}
};

// Sums over rows, four columns at a time, so that what they share is read a quarter as often.
FBED_HOT inline void products(const double* T, int64_t n, int64_t r, const double* v, double* out) {
    int64_t k = 0;
    for (; k + 4 <= r; k += 4) {
        const double *t0 = T + k * n, *t1 = t0 + n, *t2 = t1 + n, *t3 = t2 + n;
        double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t i = 0; i < n; ++i) {
            s0 += v[i] * t0[i];
            s1 += v[i] * t1[i];
            s2 += v[i] * t2[i];
            s3 += v[i] * t3[i];
        }
        out[k] = s0, out[k + 1] = s1, out[k + 2] = s2, out[k + 3] = s3;
    }
    for (; k < r; ++k) {
        const double* t = T + k * n;
        double s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t i = 0; i < n; ++i) s += v[i] * t[i];
        out[k] = s;
    }
}

// out += sum of c_k times column k
FBED_HOT inline void add_columns(const double* T, int64_t n, int64_t r, const double* c, double* out) {
    int64_t k = 0;
    for (; k + 4 <= r; k += 4) {
        const double *t0 = T + k * n, *t1 = t0 + n, *t2 = t1 + n, *t3 = t2 + n;
        const double c0 = c[k], c1 = c[k + 1], c2 = c[k + 2], c3 = c[k + 3];
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] += (c0 * t0[i] + c1 * t1[i]) + (c2 * t2[i] + c3 * t3[i]);
    }
    for (; k < r; ++k) {
        const double *t = T + k * n, ck = c[k];
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] += ck * t[i];
    }
}

// x -= G(G'aw x), twice: the second pass removes what rounding left of the first. Returns sum a w x².
FBED_HOT inline double orthogonalise(const Null& f, double* x, double* c, double* weighted) {
    double norm = 0;
    for (int pass = 0; pass < 2; ++pass) {
#pragma omp simd
        for (int64_t i = 0; i < f.n; ++i) weighted[i] = f.a[i] * f.w[i] * x[i];
        products(f.T, f.n, f.r, weighted, c);
        for (int64_t k = 0; k < f.r; ++k) c[k] = -c[k];
        add_columns(f.T, f.n, f.r, c, x);
    }
#pragma omp simd reduction(+ : norm)
    for (int64_t i = 0; i < f.n; ++i) norm += f.a[i] * f.w[i] * x[i] * x[i];
    return norm;
}

// Bracket of a column that is orthogonal to G already.
FBED_HOT inline Interval bracket_column(const Null& f, const double* x, double norm) {
    double u = 0;
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

// Cholesky factor of the leading k × k block in place (row-major, lower); returns the smallest pivot relative to its
// diagonal entry, 1 for orthogonal columns and 0 for dependent ones. A pivot that rounding has eaten is lifted to kLifted
// of its diagonal entry: the factor then belongs to a slightly larger matrix. Relative to each entry, because columns
// with heavy tails have curvatures of very different sizes, and all of them count.
constexpr double kLifted = 1e-14;

FBED_HOT inline double cholesky(double* A, int64_t k) {
    double weakest = 1.0;
    for (int64_t j = 0; j < k; ++j) {
        double* row = A + j * k;
        const double diagonal = row[j];
        for (int64_t i = 0; i <= j; ++i) {
            const double* other = A + i * k;
            double s = row[i];
#pragma omp simd reduction(- : s)
            for (int64_t l = 0; l < i; ++l) s -= row[l] * other[l];
            if (i == j) {
                const double least = diagonal > 0 ? kLifted * diagonal : 1.0;  // nothing there: do not move along it
                weakest = std::min(weakest, s > least ? s / diagonal : 0.0);
                row[j] = std::sqrt(s > least ? s : least);
            } else {
                row[i] = s / other[i];
            }
        }
    }
    return weakest;
}

// Pivots above this leave a solution that is right to 1e-10, since a Gram matrix is right to 1e-15 or so.
constexpr double kSound = 1e-4;

inline void cholesky_solve(const double* L, int64_t k, double* b) {
    for (int64_t i = 0; i < k; ++i) {
        double s = b[i];
        for (int64_t l = 0; l < i; ++l) s -= L[i * k + l] * b[l];
        b[i] = s / L[i * k + i];
    }
    for (int64_t i = k; i-- > 0;) {
        double s = b[i];
        for (int64_t l = i + 1; l < k; ++l) s -= L[l * k + i] * b[l];
        b[i] = s / L[i * k + i];
    }
}

// sum over rows of c_i [g_i; x_i][g_i; x_i]' into H ((r+1)², of which the lower triangle counts), where x may be absent. By
// parts of the rows of which all columns stay in the cache, and by tiles of 2 × 4 entries that stay in registers.
FBED_HOT inline void gram(const Null& f, const double* x, const double* c, double* H) {
    constexpr int64_t kPart = 512;
    double u0[kPart], u1[kPart];
    const int64_t k = x ? f.r + 1 : f.r;
    std::fill(H, H + k * k, 0.0);
    for (int64_t start = 0; start < f.n; start += kPart) {
        const int64_t m = std::min(kPart, f.n - start);
        const auto column = [&](int64_t p) { return (p < f.r ? f.T + p * f.n : x) + start; };
        for (int64_t p = 0; p < k; p += 2) {
            const int64_t next = std::min(p + 1, k - 1);
            const double *from = c + start, *c0 = column(p), *c1 = column(next);
#pragma omp simd
            for (int64_t i = 0; i < m; ++i) {
                u0[i] = from[i] * c0[i];
                u1[i] = from[i] * c1[i];
            }
            double *out0 = H + p * k, *out1 = H + next * k;
            const bool two = next > p;
            int64_t q = 0;
            for (; q + 4 <= next + 1; q += 4) {
                const double *t0 = column(q), *t1 = column(q + 1), *t2 = column(q + 2), *t3 = column(q + 3);
                double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3, s4, s5, s6, s7)
                for (int64_t i = 0; i < m; ++i) {
                    s0 += u0[i] * t0[i];
                    s1 += u0[i] * t1[i];
                    s2 += u0[i] * t2[i];
                    s3 += u0[i] * t3[i];
                    s4 += u1[i] * t0[i];
                    s5 += u1[i] * t1[i];
                    s6 += u1[i] * t2[i];
                    s7 += u1[i] * t3[i];
                }
                out0[q] += s0, out0[q + 1] += s1, out0[q + 2] += s2, out0[q + 3] += s3;
                if (two) out1[q] += s4, out1[q + 1] += s5, out1[q + 2] += s6, out1[q + 3] += s7;
            }
            for (; q <= next; ++q) {
                const double* t = column(q);
                double s0 = 0, s1 = 0;
#pragma omp simd reduction(+ : s0, s1)
                for (int64_t i = 0; i < m; ++i) {
                    s0 += u0[i] * t[i];
                    s1 += u1[i] * t[i];
                }
                out0[q] += s0;
                if (two) out1[q] += s1;
            }
        }
    }
}

// Newton's steps are halved as often as this: a saturated outlier has no curvature to show that a step goes too far.
constexpr double kShortest = 1e-12;

// Steps of a refinement.
constexpr int kMost = 60;

// A dual point takes a row to 0 at z = -1: rows that come near are left out of it, since the next may take them beyond.
constexpr double kNearlyOut = -0.7;

// One candidate on its way to a decision: eta + v, v = G theta + b x. Without x only theta moves.
class Refinement {
   public:
    Refinement(const Null& f, Work& work, const double* a, const double* x, double norm, double base_gain)
        : f_(f), k_(work), a_(a), x_(x), norm_(norm), base_(base_gain) {
        std::fill(k_.theta.begin(), k_.theta.end(), 0.0);
        std::fill(k_.v.begin(), k_.v.end(), 0.0);
        size_ = x ? f.r + 1 : f.r;
    }

    // Start at v = b·x, which has been found already; x need not be orthogonal to G then.
    void start_at(double b) {
        k_.theta[f_.r] = b;
        for (int64_t i = 0; i < f_.n; ++i) k_.v[i] = b * x_[i];
        started_ = true;
    }

    // And go on by a step that has been found already, if it leads upwards.
    void try_step(const std::vector<double>& step) {
        std::copy(step.begin(), step.begin() + size_, k_.step.begin());
        direction();
        const double before = evaluate();
        remember();
        move(1.0);
        if (!(evaluate() >= before)) move(0.0);
        started_ = true;
    }

    Interval run(const Question& question, const Interval& known) {
        Interval out = known;
        if (x_ && !started_) start_along_x();
        double value = evaluate();
        bool stale = !started_ && a_ == f_.a;
        for (int iteration = 0; iteration < kMost; ++iteration) {
            iterations = iteration;
            if (separated_) return {f_.deviance, f_.deviance};
            out.lower = std::max(out.lower, std::min(attained(value), out.upper));
            gradient();
            const double gap = stale ? stale_gap() : newton_gap(out, value);
            stale = false;
            if (!std::isfinite(decrement_)) return out;  // no step could be found: the caller fits the model instead
            if (gap < std::numeric_limits<double>::infinity())
                out.upper = std::min(out.upper, f_.clip(base_ + 2.0 * value + gap) * (1.0 + 1e-12));
            out.upper = std::max(out.upper, out.lower);
            if (question.settled(out) || is_stuck(iteration)) return out;
            const bool last = decrement_ <= 1e-13 * std::max(1.0, out.lower);
            if (last || gap == std::numeric_limits<double>::infinity()) {
                const double without = upper_without_rows(value, last ? std::numeric_limits<double>::infinity() : question.aim());
                out.upper = std::min(out.upper, std::max(out.lower, without));
                if (last || question.settled(out)) return out;
            }
            value = advance(value);
        }
        return out;
    }

    int iterations = 0;

    // The linear predictor where the refinement ended.
    void predictor(double* out) const {
        for (int64_t i = 0; i < f_.n; ++i) out[i] = f_.eta[i] + k_.v[i];
    }

   private:
    // Newton's steps gain less and less, towards a maximum and towards infinity alike. Those that do not go in a direction
    // that rounding hides; the caller fits the model instead.
    bool is_stuck(int iteration) {
        const double before = recent_[iteration % 3];
        recent_[iteration % 3] = decrement_;
        return iteration >= 6 && decrement_ > 0.5 * before;
    }

    // 1-D Newton on b: the best start that costs no product with G.
    FBED_HOT void start_along_x() {
        const double *eta = f_.eta, *sign = f_.sign, *a = a_, *x = x_;
        double b = 0, low = -std::numeric_limits<double>::infinity(), high = -low;
        double reach = 0;
        for (int64_t i = 0; i < f_.n; ++i)
            if (a_[i] > 0) reach = std::max(reach, std::abs(x_[i]));
        for (int it = 0; it < 8; ++it) {
            double g = 0, h = 0;
#pragma omp simd reduction(+ : g, h)
            for (int64_t i = 0; i < f_.n; ++i) {
                const double m = logistic(eta[i] + b * x[i]);
                const double y = sign[i] > 0 ? 1.0 : 0.0;
                g += a[i] * (y - m) * x[i];
                h += a[i] * m * (1.0 - m) * x[i] * x[i];
            }
            (g > 0 ? low : high) = b;
            double d = g / std::max(h, 1e-300);
            d = std::clamp(d, -4.0 / reach, 4.0 / reach);
            double next = b + d;
            if (next <= low || next >= high) next = 0.5 * (low + high);
            const bool done = g * g <= 1e-6 * h;
            b = next;
            if (done) break;
        }
        k_.theta[f_.r] = b;
        for (int64_t i = 0; i < f_.n; ++i) k_.v[i] = b * x_[i];
    }

    // mu, w at eta + v; returns the gain in log-likelihood over the active rows.
    FBED_HOT double evaluate() {
        double gain = 0, least = std::numeric_limits<double>::infinity(), most = 0;
        const double *sign = f_.sign, *eta = f_.eta, *dev = f_.dev, *a = a_, *null_a = f_.a;
        double *margin = k_.margin.data(), *mu = k_.mu.data(), *w = k_.w.data(), *aw = k_.aw.data(), *score = k_.values.data(), *left = k_.left.data();
        const double* v = k_.v.data();
        const bool watch_idle = f_.has_idle;
#pragma omp simd reduction(+ : gain) reduction(min : least) reduction(max : most)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double m = sign[i] * (eta[i] + v[i]);
            const double e = exp_of_negative(-std::abs(m)), one = 1.0 / (1.0 + e);
            const double right = m >= 0 ? one : e * one, wrong = m >= 0 ? e * one : one;
            margin[i] = m;
            mu[i] = sign[i] > 0 ? right : wrong;
            w[i] = right * wrong;
            aw[i] = a[i] * right * wrong;
            score[i] = a[i] * sign[i] * wrong;  // a (y - mu)
            left[i] = log1p_of_unit(e) - std::min(m, 0.0);
            gain += a[i] * (dev[i] - left[i]);
            // rows left out by this candidate, or secured, are explained whatever theta is
            const bool counts = a[i] > 0 || (null_a[i] == 0.0 && watch_idle);
            least = std::min(least, counts ? m : least);
            most = std::max(most, m);
        }
        separated_ = least > kClear * std::max(1.0, most);
        reach_ = std::max(most, -least);
        return gain;
    }

    // What the coefficients attain over all rows: the idle rows may have lost something.
    double attained(double gain) const {
        double lost = 0;
        if (f_.has_idle) {
            for (int64_t i = 0; i < f_.n; ++i)
                if (f_.a[i] == 0.0) lost += f_.weight[i] * (k_.left[i] - f_.dev[i]);
        }
        return base_ + 2.0 * gain - 2.0 * std::max(lost, 0.0);
    }

    // Rows that do not count have score 0.
    FBED_HOT void gradient() {
        products(f_.T, f_.n, f_.r, k_.values.data(), k_.grad.data());
        double along = 0;
        if (x_) {
            const double* score = k_.values.data();
#pragma omp simd reduction(+ : along)
            for (int64_t i = 0; i < f_.n; ++i) along += score[i] * x_[i];
        }
        k_.grad[f_.r] = along;
    }

    FBED_HOT void direction() {
        double* dir = k_.dir.data();
        const double* d = k_.step.data();
        if (x_) {
#pragma omp simd
            for (int64_t i = 0; i < f_.n; ++i) dir[i] = d[f_.r] * x_[i];
        } else {
            std::fill(dir, dir + f_.n, 0.0);
        }
        add_columns(f_.T, f_.n, f_.r, d, dir);
    }

    // Dual point mu + w0·dir with the weights of the null fit: exact, because [G x] is orthogonal in those weights.
    FBED_HOT double stale_gap() {
        const int64_t r = f_.r;
        for (int64_t k = 0; k < r; ++k) k_.step[k] = k_.grad[k];
        k_.step[r] = x_ ? k_.grad[r] / norm_ : 0.0;
        decrement_ = 0;
        for (int64_t k = 0; k < size_; ++k) decrement_ += k_.grad[k] * k_.step[k];
        direction();
        double z_min = 0, sum = 0;
        for (int64_t i = 0; i < f_.n; ++i) {
            if (a_[i] == 0.0) continue;
            const double shift = f_.w[i] * k_.dir[i];
            z_min = std::min(z_min, std::min(shift / k_.mu[i], -shift / (1.0 - k_.mu[i])));
            sum += a_[i] * shift * shift / std::max(k_.w[i], 1e-300);
        }
        return z_min >= -1.0 && std::isfinite(sum) ? P(z_min) * sum * (1.0 + kSlack) : std::numeric_limits<double>::infinity();
    }

    // d = H⁻¹g for the curvature c of the rows, into `step` and `dir`; sets `decrement_` = g'd and `missing_`, the norm in
    // H⁻¹ of g - Hd. Where columns nearly depend on each other, g - Hd is computed row by row and the step corrected.
    FBED_HOT void solve(const double* c) {
        gram(f_, x_, c, k_.hess.data());
        bool blind = false;  // a slope where nothing shows how far to go
        for (int64_t k = 0; k < size_; ++k) blind |= !(k_.hess[k * size_ + k] > 0) && k_.grad[k] != 0;
        const double weakest = cholesky(k_.hess.data(), size_);
        std::copy(k_.grad.begin(), k_.grad.begin() + size_, k_.step.begin());
        cholesky_solve(k_.hess.data(), size_, k_.step.data());
        direction();
        missing_ = 0;
        for (int round = 0; weakest < kSound && round < 4; ++round) {
            std::vector<double> left(size_), more, bent(f_.n);
            for (int64_t i = 0; i < f_.n; ++i) bent[i] = c[i] * k_.dir[i];
            products(f_.T, f_.n, f_.r, bent.data(), left.data());
            if (x_) left[f_.r] = std::inner_product(bent.begin(), bent.end(), x_, 0.0);
            for (int64_t k = 0; k < size_; ++k) left[k] = k_.grad[k] - left[k];
            more = left;
            cholesky_solve(k_.hess.data(), size_, more.data());
            double norm = 0, total = 0;
            for (int64_t k = 0; k < size_; ++k) {
                norm += left[k] * more[k];
                total += k_.grad[k] * k_.step[k];
            }
            missing_ = std::sqrt(std::max(norm, 0.0));
            if (norm <= 1e-20 * total || round == 3) break;
            for (int64_t k = 0; k < size_; ++k) k_.step[k] += more[k];
            direction();
        }
        decrement_ = 0;
        for (int64_t k = 0; k < size_; ++k) decrement_ += k_.grad[k] * k_.step[k];
        if (!(decrement_ >= 0)) decrement_ = std::numeric_limits<double>::infinity();  // rounding has made this no step
        if (blind) missing_ = std::numeric_limits<double>::infinity();
    }

    // Extremes of z: the largest over all rows, since the step moves them all, the least over those that c counts, since
    // the others stay where they are in the dual point. What the step misses could move row i by `missing_`/sqrt(a w).
    FBED_HOT Extremes extremes(const double* c) const {
        Extremes z;
        for (int64_t i = 0; i < f_.n; ++i) {
            if (a_[i] == 0.0) continue;
            const double m = k_.mu[i], one = (1.0 - m) * k_.dir[i], zero = -m * k_.dir[i];
            z.max = std::max(z.max, std::max(one, zero));
            if (c[i] == 0.0) continue;
            const double extra = missing_ > 0 ? missing_ * std::max(m, 1.0 - m) * std::sqrt(1.0 / c[i]) : 0.0;
            z.min = std::min(z.min, std::min(one, zero) - extra);
        }
        return z;
    }

    // (lambda + missing)²·P(z_min) bounds what a feasible dual point leaves. `missing_` is measured with lifted pivots: where
    // it is not small, a direction that rounding hides may hold more.
    double certified_gap(const Extremes& z) const {
        const double lambda = std::sqrt(decrement_), all = lambda + missing_;
        const bool hidden = missing_ > 1e-2 * lambda && missing_ > 1e-6;
        if (!(z.min >= -1.0) || !std::isfinite(all) || hidden) return std::numeric_limits<double>::infinity();
        return all * all * P(z.min) * (1.0 + kSlack);
    }

    // Newton step on the current weights; lambda²·P(z_min) bounds what is left, lambda²·P(z_max) is certain to come.
    double newton_gap(Interval& out, double value) {
        solve(k_.aw.data());
        const Extremes z = extremes(k_.aw.data());
        if (!f_.has_idle && missing_ == 0.0) {  // the step not yet taken would attain this much; idle rows could lose in it
            const double sure = base_ + 2.0 * value + decrement_ * P(z.max) * (1.0 - kSlack);
            out.lower = std::max(out.lower, std::min(out.upper, sure * (1.0 - 1e-12)));
        }
        return certified_gap(z);
    }

    // Rows that the step takes beyond their side, and those that are as good as explained, are set to their outcome; the rest
    // is bounded by its own Newton decrement. Given up where not even the step's own promise would take the bound below the
    // aim. Whatever comes of it, the step itself is left as it was.
    double upper_without_rows(double value, double aim) {
        constexpr double none = std::numeric_limits<double>::infinity();
        const auto promises = [&](double cost) { return base_ + 2.0 * value + cost + 2.0 * decrement_ < aim; };
        if (!promises(0.0)) return none;
        std::vector<double>&kept = k_.kept, &score = k_.score;
        std::copy(k_.aw.begin(), k_.aw.end(), kept.begin());
        double cost = leave_rows_out(kept.data());
        if (!promises(cost)) return none;
        const std::vector<double> grad(k_.grad), step(k_.step), dir(k_.dir);
        const double decrement = decrement_, missing = missing_;
        double upper = none;
        for (int attempt = 0; attempt < 3 && promises(cost); ++attempt) {
            for (int64_t i = 0; i < f_.n; ++i) score[i] = kept[i] > 0 ? k_.values[i] : 0.0;
            products(f_.T, f_.n, f_.r, score.data(), k_.grad.data());
            k_.grad[f_.r] = x_ ? std::inner_product(score.begin(), score.end(), x_, 0.0) : 0.0;
            solve(kept.data());
            const double gap = certified_gap(extremes(kept.data()));
            if (gap < none) {
                upper = f_.clip(base_ + 2.0 * value + cost + gap);
                break;
            }
            cost = leave_rows_out(kept.data());
        }
        k_.grad = grad, k_.step = step, k_.dir = dir;
        decrement_ = decrement, missing_ = missing;
        return upper;
    }

    // The curvature of rows that may not stay becomes 0; returns what all rows left out so far have left to explain.
    FBED_HOT double leave_rows_out(double* kept) const {
        const double *a = a_, *mu = k_.mu.data(), *dir = k_.dir.data(), *left = k_.left.data();
        double cost = 0;
#pragma omp simd reduction(+ : cost)
        for (int64_t i = 0; i < f_.n; ++i) {
            const double deviance = 2.0 * a[i] * left[i], z = std::min((1.0 - mu[i]) * dir[i], -mu[i] * dir[i]);
            const double stay = (deviance >= 1e-9 ? 1.0 : 0.0) * (z > kNearlyOut ? 1.0 : 0.0);
            kept[i] = kept[i] * stay;
            cost += kept[i] > 0 ? 0.0 : deviance;
        }
        return cost;
    }

    // Take the step, halved until the likelihood rises. Towards infinity, where rows are being separated, steps are all alike
    // and each adds 1 to a margin: there, double them.
    double advance(double value) {
        remember();
        double t = 1.0, now = at(t);
        while ((now < value - 1e-12 * std::abs(value) - 1e-14 || reach_ > kFurthest) && t > kShortest) {
            t *= 0.5;
            now = at(t);
        }
        if (t == 1.0 && iterations >= 3 && decrement_ > 0.1 * last_decrement_) {
            while (t < 64.0 && !separated_) {
                const double further = at(2.0 * t);
                if (!(further > now) || reach_ > kFurthest) {
                    now = at(t);
                    break;
                }
                t *= 2.0;
                now = further;
            }
        }
        last_decrement_ = decrement_;
        return now;
    }

    double at(double t) {
        move(t);
        return evaluate();
    }

    // Steps are measured from where they begin: a wrong one may be so long that its way back would leave rounding behind.
    void remember() {
        k_.from = k_.v;
        k_.theta_from = k_.theta;
    }

    void move(double t) {
        for (int64_t k = 0; k < size_; ++k) k_.theta[k] = k_.theta_from[k] + t * k_.step[k];
        for (int64_t i = 0; i < f_.n; ++i) k_.v[i] = k_.from[i] + t * k_.dir[i];
    }

    const Null& f_;
    Work& k_;
    const double* a_;
    const double* x_;
    double norm_, base_;
    int64_t size_;
    double decrement_ = 0, missing_ = 0, last_decrement_ = 0;
    double reach_ = 0;              // largest linear predictor, in size
    double recent_[3] = {0, 0, 0};  // decrements of the last iterations
    bool separated_ = false, started_ = false;
};

// A sparse column before it is orthogonalised: entries on the rows T, zero elsewhere.
struct Support {
    int64_t m = 0;
    const int32_t* rows = nullptr;
    const double* x = nullptr;
    bool pure = false;      // one sign on rows of one class: the likelihood rises for ever along it
    bool conflict = false;  // pure on the active rows only: some idle row of T pulls the other way
    double gain = 0;        // log-likelihood gained along x alone
    double b = 0;
    double slope = 0;  // of the log-likelihood at b, 0 but for rounding
    const double* mean = nullptr;  // at b, row by row of T
};

inline void look_for_purity(const Null& f, Support& s) {
    bool positive = false, negative = false, idle_positive = false, idle_negative = false;
    for (int64_t i = 0; i < s.m; ++i) {
        const double side = s.x[i] * f.sign[s.rows[i]];
        const bool idle = f.a[s.rows[i]] == 0.0;
        (idle ? idle_positive : positive) |= side > 0;
        (idle ? idle_negative : negative) |= side < 0;
    }
    s.pure = positive != negative;
    s.conflict = f.has_idle && s.pure && ((positive && idle_negative) || (negative && idle_positive));
}

// Maximise the likelihood along x alone: only the rows of T count. The gradient falls in b, so its root is bracketed.
FBED_HOT inline void along_support(const Null& f, Support& s, double* buffer) {
    look_for_purity(f, s);
    s.gain = 0;
    const int64_t whole = (s.m + kLanes - 1) / kLanes * kLanes;
    double *mean = buffer, *eta = buffer + whole, *weight = eta + whole, *y = weight + whole, *x = y + whole;
    s.mean = mean;
    if (s.pure) {
        for (int64_t i = 0; i < s.m; ++i) {
            s.gain += f.a[s.rows[i]] * f.dev[s.rows[i]];
            mean[i] = f.sign[s.rows[i]] > 0 ? 1.0 : 0.0;
        }
        return;
    }
    double reach = 0, before = 0;
    for (int64_t i = 0; i < s.m; ++i) {
        const int32_t row = s.rows[i];
        reach = std::max(reach, std::abs(s.x[i]));
        eta[i] = f.eta[row], weight[i] = f.a[row], y[i] = f.sign[row] > 0 ? 1.0 : 0.0, x[i] = s.x[i];
        before += f.a[row] * f.dev[row];
    }
    for (int64_t i = s.m; i < whole; ++i) eta[i] = weight[i] = y[i] = x[i] = 0.0;
    double b = 0, low = -std::numeric_limits<double>::infinity(), high = -low, stride = 4.0 / reach;
    for (int it = 0; it < 200; ++it) {
        double g = 0, h = 0;
#pragma omp simd reduction(+ : g, h)
        for (int64_t i = 0; i < whole; ++i) {
            const double m = logistic(eta[i] + b * x[i]);
            g += weight[i] * (y[i] - m) * x[i];
            h += weight[i] * m * (1.0 - m) * x[i] * x[i];
        }
        s.slope = g;
        if (g * g <= 1e-24 * h) break;
        (g > 0 ? low : high) = b;
        // A saturated outlier hides how far the other rows want to go: strides double until the root is enclosed.
        const double d = h > 0 ? g / h : std::copysign(std::numeric_limits<double>::infinity(), g);
        double next = b + std::clamp(d, -stride, stride);
        if (std::abs(d) >= stride) stride *= 2.0;
        if (next <= low || next >= high) next = 0.5 * (low + high);
        if (next == b) break;
        b = next;
    }
    s.b = b;
    double after = 0;
#pragma omp simd reduction(+ : after)
    for (int64_t i = 0; i < whole; ++i) {
        const double t = eta[i] + b * x[i];
        mean[i] = logistic(t);
        after += weight[i] * loss((2.0 * y[i] - 1.0) * t);
    }
    s.gain = before - after;
}

// A difference of sums that has kept less than this part of them has lost more digits than kSlack forgives.
constexpr double kCancelled = 1e-5;

// 2KL_T + what refitting the model around it can add; needs the rows of T to hold less than all of its information. An
// upper bound below the aim is enough.
FBED_HOT inline Interval bracket_support(const Null& f, const Support& s, double aim, double* sum) {
    const int64_t r = f.r;
    for (int64_t k = 0; k < r; ++k) sum[k] = -f.g0[k];
    double leverage = 0, own = 0;
    for (int64_t i = 0; i < s.m; ++i) {
        const int64_t row = s.rows[i];
        if (f.a[row] == 0.0) continue;
        const double* g = f.G + row * r;
        const double mean = s.mean[i];
        const double t = f.a[row] * (mean - f.mu[row]);
        own += f.a[row] * mean * (1.0 - mean) * s.x[i] * s.x[i];
        leverage += f.a[row] * f.w[row] * f.norm[row] * f.norm[row];
#pragma omp simd
        for (int64_t k = 0; k < r; ++k) sum[k] += t * g[k];
    }
    double sigma2 = 0;
    for (int64_t k = 0; k < r; ++k) sigma2 += sum[k] * sum[k];
    const double sigma = std::sqrt(sigma2), gain = 2.0 * s.gain;
    Interval out{gain, std::numeric_limits<double>::infinity()};
    if (1.0 - leverage > kCancelled && std::abs(s.slope) <= 1e-11 * std::sqrt(own * (1.0 - leverage))) {
        const double z = -f.kappa * sigma / (1.0 - leverage);
        if (z >= -1.0) out.upper = gain + P(z) * sigma2 / (1.0 - leverage);
    }
    out.upper = f.clip(std::isfinite(out.upper) ? out.upper * (1.0 + kSlack) : out.upper);
    if (out.upper < aim)  // all that matters
        return {f.has_idle || s.conflict ? 0.0 : std::min(std::max(gain * (1.0 - kSlack), 0.0), out.upper), out.upper};
    double idle_step = 0;
    if (sigma2 > 0) {
        double curvature = sigma2;
        for (int64_t i = 0; i < s.m; ++i) {
            const int64_t row = s.rows[i];
            if (f.a[row] == 0.0) continue;
            const double* g = f.G + row * r;
            double along = 0;
#pragma omp simd reduction(+ : along)
            for (int64_t k = 0; k < r; ++k) along += g[k] * sum[k];
            const double m = s.mean[i];
            curvature -= f.a[row] * (f.w[row] - m * (1.0 - m)) * along * along;
        }
        if (curvature > kCancelled * sigma2) {
            const double z = f.kappa * sigma2 * sigma / curvature;
            out.lower = std::max(out.lower, gain + sigma2 * sigma2 / curvature * P(z));
            idle_step = f.idle_kappa * sigma2 * sigma / curvature;
        }
    }
    double along_idle = 0;
    if (f.has_idle && !s.pure)
        for (int64_t i = 0; i < s.m; ++i)
            if (f.a[s.rows[i]] == 0.0) along_idle = std::max(along_idle, std::abs(s.b * s.x[i]));
    idle_step += along_idle;
    out.lower = std::max(out.lower * (1.0 - kSlack) - f.idle_loss(idle_step), 0.0);
    if (s.conflict) out.lower = 0.0;
    out.lower = std::min(out.lower, out.upper);
    return out;
}

// The same from the exact Newton step at (0, b): C = I - sum_T a(w0 - w_b)gg' - cc'/I_b is the curvature there, and the
// extremes of the step are found by looking at every row. `step` receives the step on G and, last, on x.
FBED_HOT inline Interval bracket_support_sharply(const Null& f, const Support& s, const double* sum, Work& work, bool& usable) {
    const int64_t r = f.r;
    double* C = work.hess.data();
    double* e = work.step.data();
    double* c = work.theta.data();
    const double* mean = s.mean;
    std::fill(C, C + r * r, 0.0);
    std::fill(c, c + r + 1, 0.0);
    for (int64_t k = 0; k < r; ++k) C[k * r + k] = 1.0;
    double own = 0;
    for (int64_t i = 0; i < s.m; ++i) {
        const int64_t row = s.rows[i];
        if (f.a[row] == 0.0) continue;
        const double wb = mean[i] * (1.0 - mean[i]);
        const double* g = f.G + row * r;
        const double t = f.a[row] * (f.w[row] - wb), q = f.a[row] * wb * s.x[i];
        for (int64_t p = 0; p < r; ++p) {
            const double tg = t * g[p];
            double* out = C + p * r;
#pragma omp simd
            for (int64_t k = 0; k <= p; ++k) out[k] -= tg * g[k];
            c[p] += q * g[p];
        }
        own += q * s.x[i];
    }
    const bool moves = !s.pure && own > 0;
    usable = false;
    Interval out{2.0 * s.gain, std::numeric_limits<double>::infinity()};
    if (!s.pure && !moves) return out;  // every row of T is saturated, and yet they disagree
    if (moves)
        for (int64_t p = 0; p < r; ++p)
            for (int64_t k = 0; k <= p; ++k) C[p * r + k] -= c[p] * c[k] / own;
    if (cholesky(C, r) <= 0.0) return out;
    for (int64_t k = 0; k < r; ++k)
        if (C[k * r + k] * C[k * r + k] < kCancelled) return out;  // next to singular: the refinement takes more care
    usable = true;
    const double slope = moves ? s.slope / own : 0.0;
    for (int64_t k = 0; k < r; ++k) e[k] = -sum[k] - c[k] * slope;
    double decrement = slope * slope * own, along = 0;
    std::vector<double> right(e, e + r);
    cholesky_solve(C, r, e);
    for (int64_t k = 0; k < r; ++k) {
        decrement += right[k] * e[k];
        along += c[k] * e[k];
    }
    e[r] = moves ? slope - along / own : 0.0;
    double z_min = 0, z_max = 0, idle_step = 0, size = 0;
    for (int64_t k = 0; k < r; ++k) size += e[k] * e[k];
    size = std::sqrt(size);
    auto look = [&](int64_t row, double v, double m) {
        if (f.a[row] == 0.0) {
            idle_step = std::max(idle_step, std::abs(v));
            return;
        }
        const double one = (1.0 - m) * v, zero = -m * v;
        z_min = std::min(z_min, std::min(one, zero));
        z_max = std::max(z_max, std::max(one, zero));
    };
    auto along_model = [&](int64_t row) {
        const double* g = f.G + row * r;
        double v = 0;
#pragma omp simd reduction(+ : v)
        for (int64_t k = 0; k < r; ++k) v += g[k] * e[k];
        return v;
    };
    if (!s.pure)  // pure rows are at their outcome for good
        for (int64_t i = 0; i < s.m; ++i) look(s.rows[i], along_model(s.rows[i]) + e[r] * s.x[i], mean[i]);
    // |z| is at most |g||e|, so the rows with large norms decide; those of T, seen above, are merely bounded once more.
    // What has been seen must be at least what is left on both sides.
    for (int64_t q = 0; q < f.n; ++q) {
        const int64_t row = f.by_norm[q];
        const double bound = f.norm[row] * size;
        if (bound <= std::min(-z_min, z_max) || bound < 1e-3) {
            z_min = std::min(z_min, -bound);
            z_max = std::max(z_max, bound);
            idle_step = std::max(idle_step, bound);
            break;
        }
        look(row, along_model(row), f.mu[row]);
    }
    double along_idle = 0;
    if (f.has_idle && !s.pure)
        for (int64_t i = 0; i < s.m; ++i)
            if (f.a[s.rows[i]] == 0.0) along_idle = std::max(along_idle, std::abs(s.b * s.x[i]));
    out.lower = (2.0 * s.gain + P(z_max) * decrement) * (1.0 - kSlack) - f.idle_loss(idle_step + along_idle);
    if (z_min >= -1.0) out.upper = (2.0 * s.gain + P(z_min) * decrement) * (1.0 + kSlack);
    out.upper = f.clip(out.upper);
    out.lower = s.conflict ? 0.0 : std::min(std::max(out.lower, 0.0), out.upper);
    return out;
}

}  // namespace fbed
