// What columns that are mostly 0 do to the rows of a fit of classes without order; see class_looks.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "elementary.hpp"
#include "linear.hpp"
#include "softmax_fitted.hpp"

namespace fbed {

// The rows T of one column after another; x is in units of its largest value.
class SoftmaxSupport {
    static constexpr double kStride = 3.0, kArrived = 1e-20, kFar = 200.0, kHarmless = 1e-3, kGone = 25.0, kAlike = 0.02;
    static constexpr double kSmallest = 1e-3;  // of the largest value: beside less, fits end before they have explained its rows
    static constexpr int kSteps = 60, kHalves = 30;

    const SoftmaxFitted& f;
    int64_t T = 0, n_own = 0;
    std::vector<int64_t> at, place;  // rows; place of a class among own coefficients, -1 for the reference, -2 for those that T lacks
    std::vector<double> x, a, moved, there, b, slope, curved, step, sums, w, bend, bent, beside, tried, unexplained;  // moved, there: [class][row of T], p̃ and p̃ at b
    std::vector<int64_t> code, slot, frozen_rows;  // where rows outside T are whose probabilities have changed
    std::vector<double> frozen;
    double unit = 1;  // of x
    std::tuple<std::vector<int64_t>, int64_t, std::vector<double>, std::vector<double>, std::vector<double>, std::vector<double>, double, double, double>
        at_maximum;

public:
    double gained = 0, certain = 0;  // along x: what p̃ gains, and what p does
    double aside = 0;
    double left = 0;                 // what a step along x still promises

    explicit SoftmaxSupport(const SoftmaxFitted& fit) : f(fit), place(fit.n_classes), w(fit.s.m * fit.s.m), slot(fit.s.n, -1) {}

    int64_t own() const { return n_own; }
    int64_t row_count() const { return T; }
    int64_t row(int64_t q) const { return at[q]; }

    // Back to where x has no coefficient yet, and every class may have one.
    void go_to_fit() {
        at_maximum = {place, n_own, b, there, slope, curved, gained, certain, left};
        for (int64_t c = 0; c < f.n_classes; ++c) place[c] = c - 1;
        n_own = f.s.m, there = moved, gained = certain = left = 0;
        b.assign(f.n_classes, 0.0);
        differentiate_own();
    }
    void return_to_maximum() { std::tie(place, n_own, b, there, slope, curved, gained, certain, left) = std::move(at_maximum); }

    // False where the maximum along x is not found.
    bool take(const std::vector<int32_t>& rows, const std::vector<double>& values, int64_t count) {
        T = count;
        thaw();
        at.assign(rows.begin(), rows.begin() + count), x.assign(values.begin(), values.begin() + count);
        a.resize(T), code.resize(T), moved.resize(T * f.n_classes), there.resize(T * f.n_classes), sums.resize(T);
        unit = 0;
        for (double v : x) unit = std::max(unit, std::abs(v));
        for (double v : x)
            if (!(std::abs(v) > kSmallest * unit)) return false;
        bool up = true, down = true;
        for (int64_t q = 0; q < T; ++q) {
            x[q] /= unit, up = up && x[q] > 0, down = down && x[q] < 0;
            a[q] = f.s.weights[at[q]], code[q] = f.s.codes[at[q]];
        }
        choose_classes(up || down);
        gather(f.kept);
        b.assign(f.n_classes, 0.0);
        if (!maximise()) return false;
        if (f.all_kept()) {
            certain = gained;
        } else {
            gather(f.p);
            certain = value_at(b);
            gather(f.kept);
            value_at(b);
        }
        return std::isfinite(gained) && std::isfinite(certain);
    }

    // The rows T of column j of S, without what its coefficients have told of them; `aside` is what it costs that probabilities next
    // to nothing are 0 there.
    bool leave(int64_t j, const std::vector<int32_t>& rows, const std::vector<double>& values, int64_t count) {
        T = count, n_own = 0, left = gained = aside = 0;
        thaw();
        at.assign(rows.begin(), rows.begin() + count), x.assign(values.begin(), values.begin() + count);
        a.resize(T), code.resize(T), moved.resize(T * f.n_classes), there.resize(T * f.n_classes), sums.resize(T);
        std::fill(place.begin(), place.end(), -1), slope.clear();
        b.assign(f.n_classes, 0.0);
        for (int64_t q = 0; q < T; ++q) {
            a[q] = f.s.weights[at[q]], code[q] = f.s.codes[at[q]];
            const double loss = f.without(j, at[q], there.data() + q, T);
            gained -= 2.0 * a[q] * (loss + std::log(f.p[at[q] * f.n_classes + code[q]]));
        }
        certain = gained, unexplained = there;
        for (int64_t q = 0; q < T; ++q) aside += f.set_aside(there.data() + q, T, at[q]);
        gather(f.kept);
        return std::isfinite(gained);
    }

    // Sets probabilities to 0 that a step takes below `bar` of what they are, relative to them, in the Hessian and the slopes too; says
    // what that costs, infinite if there are none.
    double freeze(const double* e, double length, double bar, Symmetric& H, double* slopes) {
        double cost = 0;
        bool some = false;
        std::vector<double> v(f.n_classes), before(f.n_classes), after(f.n_classes);
        size_t next = 0;
        for (int64_t i = 0; i < f.s.n; ++i) {
            const int64_t q = next < at.size() && at[next] == i ? static_cast<int64_t>(next++) : -1;
            if (q < 0 && slot[i] < 0 && f.furthest[i] * length <= -bar) continue;
            const double* row = q >= 0 ? there.data() + q : present(i);
            for (int64_t c = 0; c < f.n_classes; ++c) before[c] = row[c * (q >= 0 ? T : 1)];
            std::fill(v.begin(), v.end(), 0.0);
            f.s.entries.add_predictors(e, f.s.m, i, 1, v.data() + 1);
            double centre = 0, lost = 0, left = 0;
            for (int64_t c = 0; c < f.n_classes; ++c) {
                if (q >= 0 && place[c] >= 0) v[c] += x[q] * e[f.size() + place[c]];
                if (before[c] > 0) centre += before[c] * v[c];
            }
            for (int64_t c = 0; c < f.n_classes; ++c) {
                after[c] = before[c];
                if (before[c] > 0 && c != f.s.codes[i] && v[c] - centre < bar) lost += before[c], after[c] = 0;
                left += after[c];
            }
            if (lost == 0) continue;
            some = true;
            for (double& part : after) part /= left;
            cost -= 2.0 * f.s.weights[i] * (lost < 0.5 ? std::log1p(-lost) : std::log(left));
            replace(i, q, before, after, H, slopes);
        }
        return some ? cost : kInfinite;
    }

    // What the likelihood gains with a step from there, twice.
    double gained_without(const double* e) const {
        double sum = 0;
        std::vector<double> v(f.n_classes);
        size_t next = 0;
        for (int64_t i = 0; i < f.s.n; ++i) {
            const bool mine = next < at.size() && at[next] == i;
            std::fill(v.begin(), v.end(), 0.0);
            f.s.entries.add_predictors(e, f.s.m, i, 1, v.data() + 1);
            const double *row = mine ? unexplained.data() + next : f.p.data() + i * f.n_classes, top = v[f.s.codes[i]];
            double total = 0;
            for (int64_t c = 0; c < f.n_classes; ++c) total += row[c * (mine ? T : 1)] * std::exp(v[c] - top);
            sum -= f.s.weights[i] * std::log(total);
            next += mine;
        }
        return gained + 2.0 * sum;
    }

    // s −= Σ_T a(p_b − p̃) ⊗ z
    FBED_HOT void move_slope(double* out) const {
        const RowEntries& z = f.s.entries;
        for (int64_t q = 0; q < T; ++q)
            for (int64_t e = z.begin[at[q]]; e < z.begin[at[q] + 1]; ++e) {
                double* to = out + z.column[e] * f.s.m;
                for (int64_t c = 0; c < f.s.m; ++c) to[c] -= a[q] * z.value[e] * (there[(c + 1) * T + q] - moved[(c + 1) * T + q]);
            }
    }

    // H at b, with own coefficients after those of S, and their slopes.
    FBED_HOT void border(Symmetric& H, double* own_slope) {
        const int64_t m = f.s.m, K = f.size();
        const RowEntries& z = f.s.entries;
        std::vector<double> here(f.n_classes), before(f.n_classes);
        bend.resize(m * (m + 1) / 2 * T), bent.resize(m);
        beside.assign(n_own * K, 0.0);
        bool changed = false;
        for (int64_t q = 0; q < T; ++q) {
            for (int64_t c = 0; c <= m; ++c) here[c] = there[c * T + q], before[c] = moved[c * T + q];
            changed = changed || here != before;
            for (int64_t c = 0, pair = 0; c < m; ++c)
                for (int64_t d = c; d < m; ++d, ++pair)
                    bend[pair * T + q] = a[q] * (f.curvature(before.data(), c + 1, d + 1) - f.curvature(here.data(), c + 1, d + 1));
            for (int64_t d = 0; d <= m; ++d) {
                if (place[d] < 0) continue;
                const double t = a[q] * x[q];
                double *to = beside.data() + place[d] * K, *by = bent.data();
                for (int64_t c = 0; c < m; ++c) by[c] = t * f.curvature(here.data(), c + 1, d);
                for (int64_t e = z.begin[at[q]]; e < z.begin[at[q] + 1]; ++e)
                    for (int64_t c = 0; c < m; ++c) to[z.column[e] * m + c] += z.value[e] * by[c];
                for (int64_t c = 0; c <= m; ++c)
                    if (place[c] >= 0 && place[c] <= place[d]) H.row(K + place[c])[K + place[d]] += t * x[q] * f.curvature(here.data(), c, d);
            }
        }
        for (int64_t i = 0; i < K; ++i)
            for (int64_t o = 0; o < n_own; ++o) H.row(i)[K + o] += beside[o * K + i];
        if (changed) f.add_blocks(at, bend, -1.0, H);
        std::copy(slope.begin(), slope.end(), own_slope);
    }

    // Where the step leads: coefficients of x as it is, one a class but the first; those at infinity are far out.
    void end(const double* e, double* out) const {
        double nearest = 1.0, reference = b[0] + (place[0] >= 0 ? e[f.size() + place[0]] : 0.0);
        for (double v : x) nearest = std::min(nearest, std::abs(v));
        // where values are of very different sizes, nobody knows how far is far enough and not too far
        const double away = nearest > kAlike ? kGone / nearest : std::numeric_limits<double>::quiet_NaN();
        const double out_of_sight = x[0] > 0 ? -away : away;
        if (place[0] == -2) reference = out_of_sight;
        for (int64_t c = 1; c < f.n_classes; ++c) {
            const double there = place[c] == -2 ? out_of_sight : b[c] + (place[c] >= 0 ? e[f.size() + place[c]] : 0.0);
            out[c - 1] = (there - reference) / unit;
        }
    }

    // Least z on T.
    double reach(const double* e) const {
        const RowEntries& z = f.s.entries;
        std::vector<double> v(f.n_classes);
        double low = 0;
        for (int64_t q = 0; q < T; ++q) {
            std::fill(v.begin(), v.end(), 0.0);
            z.add_predictors(e, f.s.m, at[q], 1, v.data() + 1);
            for (int64_t c = 0; c < f.n_classes; ++c)
                if (place[c] >= 0) v[c] += x[q] * e[f.size() + place[c]];
            low = std::min(low, least(v, there.data() + q, T));
        }
        return low;
    }

    // The same on all rows but those of T: rows that a step of this length cannot move as far as others are left out.
    double reach_elsewhere(const double* e, double length, double low) const {
        std::vector<double> v(f.n_classes);
        low = std::min(low, -kHarmless);
        size_t next = 0;
        for (int64_t i = 0; i < f.s.n; ++i) {
            const bool mine = next < at.size() && at[next] == i;
            next += mine;
            if (mine || (slot[i] < 0 && f.furthest[i] * length <= -low)) continue;
            std::fill(v.begin(), v.end(), 0.0);
            f.s.entries.add_predictors(e, f.s.m, i, 1, v.data() + 1);
            low = std::min(low, least(v, present(i), 1));
        }
        return low;
    }

    // Factors of what a step promises.
    double above(double low, const double*) const { return low > -1.0 ? P(low) : kInfinite; }

    // What the likelihood gains with the whole step, twice.
    double gained_by(const double* e) const {
        std::vector<double> v(f.n_classes);
        double sum = 0;
        size_t next = 0;
        for (int64_t i = 0; i < f.s.n; ++i) {
            const bool mine = next < at.size() && at[next] == i;
            std::fill(v.begin(), v.end(), 0.0);
            f.s.entries.add_predictors(e, f.s.m, i, 1, v.data() + 1);
            if (mine)
                for (int64_t c = 0; c < f.n_classes; ++c) v[c] += place[c] >= 0 ? x[next] * (b[c] + e[f.size() + place[c]]) : 0.0;
            const double* row = f.p.data() + i * f.n_classes;
            double top = v[f.s.codes[i]], total = 0;
            for (int64_t c = 0; c < f.n_classes; ++c)
                if (!(mine && place[c] == -2)) total += row[c] * std::exp(v[c] - top);
            sum -= f.s.weights[i] * std::log(total);
            next += mine;
        }
        return 2.0 * sum;
    }

private:
    // Probabilities of a row outside T, of which some may have been set to 0 since.
    const double* present(int64_t i) const { return slot[i] < 0 ? f.kept.data() + i * f.n_classes : frozen.data() + slot[i] * f.n_classes; }

    void thaw() {
        for (int64_t i : frozen_rows) slot[i] = -1;
        frozen_rows.clear(), frozen.clear();
    }

    // Row i, which is row q of T or none of it, gets other probabilities.
    void replace(int64_t i, int64_t q, const std::vector<double>& before, const std::vector<double>& after, Symmetric& H, double* slopes) {
        const int64_t m = f.s.m, K = f.size();
        const double weight = f.s.weights[i];
        const RowEntries& z = f.s.entries;
        for (int64_t c = 0; c < m; ++c)
            for (int64_t d = 0; d < m; ++d)
                w[c * m + d] = weight * (f.curvature(after.data(), c + 1, d + 1) - f.curvature(before.data(), c + 1, d + 1));
        f.add_block(i, w.data(), 1.0, H);
        for (int64_t e = z.begin[i]; e < z.begin[i + 1]; ++e)
            for (int64_t c = 0; c < m; ++c) slopes[z.column[e] * m + c] -= weight * z.value[e] * (after[c + 1] - before[c + 1]);
        if (q < 0) {
            if (slot[i] < 0) {
                slot[i] = static_cast<int64_t>(frozen_rows.size());
                frozen_rows.push_back(i), frozen.resize(frozen.size() + f.n_classes);
            }
            std::copy(after.begin(), after.end(), frozen.begin() + slot[i] * f.n_classes);
            return;
        }
        for (int64_t c = 0; c <= m; ++c) there[c * T + q] = after[c];
        for (int64_t d = 0; d <= m; ++d) {
            if (place[d] < 0) continue;
            const double t = weight * x[q];
            slopes[K + place[d]] -= t * (after[d] - before[d]);
            const auto change = [&](int64_t c) { return f.curvature(after.data(), c, d) - f.curvature(before.data(), c, d); };
            for (int64_t e = z.begin[i]; e < z.begin[i + 1]; ++e)
                for (int64_t c = 0; c < m; ++c) H.row(z.column[e] * m + c)[K + place[d]] += t * z.value[e] * change(c + 1);
            for (int64_t c = 0; c <= m; ++c)
                if (place[c] >= 0 && place[c] <= place[d]) H.row(K + place[c])[K + place[d]] += t * x[q] * change(c);
        }
    }

    // Classes that no row of T has are ruled out there in the limit, if x has one sign.
    void choose_classes(bool one_sign) {
        std::fill(place.begin(), place.end(), one_sign ? -2 : 0);
        for (int64_t q = 0; q < T; ++q) place[code[q]] = 0;
        n_own = -1;
        for (int64_t& where : place)
            if (where == 0) where = n_own++;  // the first is the reference, -1
    }

    void gather(const std::vector<double>& from) {
        for (int64_t q = 0; q < T; ++q)
            for (int64_t c = 0; c < f.n_classes; ++c) moved[c * T + q] = from[at[q] * f.n_classes + c];
    }

    // Twice what the likelihood gains at coefficients; probabilities there.
    FBED_HOT double value_at(const std::vector<double>& coefficient) {
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int64_t c = 0; c < f.n_classes; ++c) {
            double* out = there.data() + c * T;
            const double *from = moved.data() + c * T, t = coefficient[c];
            if (place[c] == -2) {
                std::fill(out, out + T, 0.0);
                continue;
            }
#pragma omp simd
            for (int64_t q = 0; q < T; ++q) {
                const double u = t * x[q], part = exp_of_negative(-std::abs(u));
                out[q] = from[q] * (u > 0 ? 1.0 / part : part);
                sums[q] += out[q];
            }
        }
        double value = 0;
        for (int64_t q = 0; q < T; ++q) value += 2.0 * a[q] * (x[q] * coefficient[code[q]] - std::log(sums[q]));
        for (int64_t c = 0; c < f.n_classes; ++c)
#pragma omp simd
            for (int64_t q = 0; q < T; ++q) there[c * T + q] /= sums[q];
        return value;
    }

    bool maximise() {
        gained = value_at(b);
        for (int round = 0; round < kSteps; ++round) {
            differentiate_own();
            left = 0;
            if (n_own == 0) return true;
            step = slope;
            tried = curved;
            if (cholesky(tried.data(), n_own) < 1e-10) return false;
            cholesky_solve(tried.data(), n_own, step.data());
            double promised = 0, longest = 0;
            for (int64_t o = 0; o < n_own; ++o) promised += step[o] * slope[o], longest = std::max(longest, std::abs(step[o]));
            if (!std::isfinite(promised)) return false;
            left = promised;
            if (promised <= kArrived * std::max(1.0, gained)) return true;
            if (!climb(std::min(1.0, kStride / longest), promised)) return promised <= 1e-12 * std::max(1.0, gained);
        }
        return false;
    }

    bool climb(double part, double promised) {
        const std::vector<double> from = b;
        for (int attempt = 0; attempt < kHalves; ++attempt, part /= 2.0) {
            double far = 0;
            for (int64_t c = 0; c < f.n_classes; ++c)
                if (place[c] >= 0) b[c] = from[c] + part * step[place[c]], far = std::max(far, std::abs(b[c]));
            if (far > kFar) continue;
            const double value = value_at(b);
            if (value >= gained || (promised < 1e-9 && value >= gained - 1e-12 * std::max(1.0, gained))) {
                gained = value;
                return true;
            }
        }
        b = from;
        value_at(b);
        return false;
    }

    FBED_HOT void differentiate_own() {
        slope.assign(n_own, 0.0), curved.assign(n_own * n_own, 0.0);
        for (int64_t c = 0; c < f.n_classes; ++c) {
            if (place[c] < 0) continue;
            const double* pc = there.data() + c * T;
            double sum = 0;
            for (int64_t q = 0; q < T; ++q) sum += a[q] * x[q] * ((code[q] == c) - pc[q]);
            slope[place[c]] = sum;
            for (int64_t d = 0; d <= c; ++d) {
                if (place[d] < 0) continue;
                const double* pd = there.data() + d * T;
                double s = 0;
                if (c == d) {
#pragma omp simd reduction(+ : s)
                    for (int64_t q = 0; q < T; ++q) s += a[q] * x[q] * x[q] * pc[q] * (1.0 - pc[q]);
                } else {
#pragma omp simd reduction(+ : s)
                    for (int64_t q = 0; q < T; ++q) s -= a[q] * x[q] * x[q] * pc[q] * pd[q];
                }
                curved[place[c] * n_own + place[d]] = curved[place[d] * n_own + place[c]] = s;
            }
        }
    }

    double least(const std::vector<double>& v, const double* prob, int64_t apart) const {
        double centre = 0, low = kInfinite;
        for (int64_t c = 0; c < f.n_classes; ++c)
            if (prob[c * apart] > 0) centre += prob[c * apart] * v[c], low = std::min(low, v[c]);
        return low - centre;
    }
};

}  // namespace fbed
