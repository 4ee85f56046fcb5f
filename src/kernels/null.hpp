// A fitted logistic model, asked about columns that could join it.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "logistic.hpp"
#include "prepared.hpp"
#include "refine.hpp"
#include "secured.hpp"
#include "support.hpp"

namespace fbed {

// Lower and upper bounds, and the norm² that is left of each column after the model, all for one set of candidates.
using Answer = std::tuple<OutVector, OutVector, OutVector>;

// The same for contenders, without the norm²: the position of the best, the linear predictor of the model with it, and who is
// neither resolved nor out of the race.
using Ranking = std::tuple<OutVector, OutVector, int64_t, OutVector, OutFlags>;

// Relative width at which an interval is a number: half of what ties are judged by.
constexpr double kResolved = 5e-10;

// Supports of one sign on rows of one class explain those rows and no others, so that all that matters is which rows: of
// many columns, the same sets come again and again once few rows are left to explain.
using Explained = std::map<std::vector<int32_t>, Interval>;

// Rows with less deviance than this are saturated: they are bounded, not modelled.
constexpr double kIdleDeviance = 1e-9;

struct LogisticNull : Prepared {
    using Prepared::Prepared;

    mutable std::array<std::atomic<int64_t>, 7> counts{};  // several threads may ask at once

    // A model whose active rows are given: the others are idle, and what they have left is `idle_cost`.
    static std::unique_ptr<LogisticNull> of_rows(ColumnMajor Z, Vector weight, Vector y, Vector eta, Vector active, double deviance,
                                                 double idle_cost) {
        const Model model(Z, weight, y, eta);
        require(static_cast<int64_t>(active.shape(0)) == model.n, "one value a row");
        nb::gil_scoped_release release;
        const std::vector<double> counts(active.data(), active.data() + model.n);
        std::vector<char> known(model.n);
        for (int64_t i = 0; i < model.n; ++i) known[i] = counts[i] > 0;
        return std::make_unique<LogisticNull>(model, known, counts, deviance, idle_cost);
    }

    // A fitted model: all rows but the saturated ones; of those only the ones that the model can move on its own, if it can.
    static std::unique_ptr<LogisticNull> of_fit(ColumnMajor Z, Vector weight, Vector y, Vector eta, Vector coefficients, double deviance) {
        const Model model(Z, weight, y, eta);
        require(static_cast<int64_t>(coefficients.shape(0)) == model.r, "one coefficient a column");
        nb::gil_scoped_release release;
        const int64_t n = model.n;
        std::vector<double> left(n), curvature(n), signs(n), active(model.weight, model.weight + n);
        std::vector<char> idle(n), known(n, 1);
        double idle_cost = 0;
        bool some = false;
        look_at(model, signs.data(), left.data(), curvature.data());
        for (int64_t i = 0; i < n; ++i) {
            idle[i] = left[i] < kIdleDeviance;
            some = some || idle[i];
            if (idle[i]) curvature[i] = 0.0;
        }
        if (some) {
            const Secured secured(model.Z, n, model.r, signs.data(), curvature, idle, coefficients.data());
            if (secured.any) {
                for (int64_t i = 0; i < n; ++i) {
                    known[i] = !secured.rows[i];
                    active[i] = known[i] ? active[i] : 0.0;
                    deviance -= known[i] ? 0.0 : left[i];  // in the supremum those rows are explained
                }
                auto null = std::make_unique<LogisticNull>(model, known, active, deviance, 0.0, secured.all_idle ? &secured.basis : nullptr);
                if (null->is_sound(model)) {
                    null->Z.assign(model.Z, model.Z + n * model.r);
                    secured.move(signs.data(), null->all_eta);
                    return null;
                }
            }
            for (int64_t i = 0; i < n; ++i) {
                active[i] = idle[i] ? 0.0 : active[i];
                idle_cost += idle[i] && known[i] ? left[i] : 0.0;
            }
        }
        return std::make_unique<LogisticNull>(model, known, active, deviance, idle_cost);
    }

    // The class, what is left to explain and the curvature of every row.
    FBED_HOT static void look_at(const Model& model, double* sign, double* left, double* curvature) {
        const double *y = model.y, *linear = model.eta, *weight = model.weight;
#pragma omp simd
        for (int64_t i = 0; i < model.n; ++i) {
            sign[i] = y[i] > 0.5 ? 1.0 : -1.0;
            const double m = sign[i] * linear[i], e = exp_of_negative(-std::abs(m)), one = 1.0 / (1.0 + e);
            left[i] = 2.0 * weight[i] * (log1p_of_unit(e) - std::min(m, 0.0));
            curvature[i] = weight[i] * e * one * one;
        }
    }

    // x is in work.x; known encloses the statistic so far. `total` is the norm² of x; an x that has kept most of it in a
    // projection that was done elsewhere is orthogonal to the model already.
    Interval dense_column(Work& work, const Question& q, Interval known, double total, double& left, double* predictor,
                          bool projected = false) const {
        counts[1]++;
        double norm = projected ? weighted_square(work.x.data()) : 0.0;
        if (!(norm > 0.1 * total)) norm = orthogonalise(f, work.x.data(), work.grad.data(), work.values.data());
        left = norm;
        if (norm <= 1e-13 * total) return {0.0, known.upper};  // as good as in the span: the caller looks closer
        const Interval b = bracket_column(f, work.x.data(), norm);
        known.lower = std::max(known.lower, b.lower);
        known.upper = std::max(known.lower, std::min(known.upper, b.upper));
        counts[2]++;
        if (q.settled(known) || !q.refine) return known;
        counts[3]++;
        Refinement refinement(f, work, f.a, work.x.data(), norm, 0.0);
        const Interval out = refinement.run(q, known);
        counts[4] += refinement.iterations;
        if (predictor) refinement.predictor(predictor);
        return out;
    }

    Interval pure_column(Work& work, const Support& s, const Question& q, Interval known, const std::vector<double>& step,
                         double* predictor, Explained& explained) const {
        // asked again, a refinement finds nothing new: what it could not settle, it cannot
        const auto before = explained.try_emplace({s.rows, s.rows + s.m}, known);
        Interval& kept = before.first->second;
        if (!f.has_idle && !before.second) {
            known.lower = std::max(known.lower, kept.lower);
            known.upper = std::max(known.lower, std::min(known.upper, kept.upper));
            return known;
        }
        std::vector<double> left_out(a);
        for (int64_t i = 0; i < s.m; ++i) left_out[s.rows[i]] = 0.0;
        Refinement refinement(f, work, left_out.data(), nullptr, 0.0, 2.0 * s.gain);
        if (!step.empty()) refinement.try_step(step, 0.0);
        counts[5]++;
        const Interval out = refinement.run(q, known);
        counts[6] += refinement.iterations;
        kept = out;
        if (predictor) {
            refinement.predictor(predictor);
            double b = 0;  // far enough along x that every row of T is explained
            for (int64_t i = 0; i < s.m; ++i) {
                const double margin = sign[s.rows[i]] * predictor[s.rows[i]];
                b = std::max(b, (36.0 - margin) / std::abs(s.x[i]));
            }
            const double side = s.m && s.x[0] * sign[s.rows[0]] > 0 ? 1.0 : -1.0;
            for (int64_t i = 0; i < s.m; ++i) predictor[s.rows[i]] += side * std::min(b, 1e8) * s.x[i];
        }
        return out;
    }

    // The column in units of its spread: the sums with it are then of the same size as those with G.
    template <class Matrix>
    Interval support_column(const Matrix& m, int64_t j, double scale, Work& work, const Question& q, double& left,
                            double* predictor, Explained& explained) const {
        Support s;
        const int64_t stored = m.support(j, work.support.data(), work.column.data());
        for (int64_t i = 0; i < stored; ++i) {
            const int32_t row = place[work.support[i]];
            work.support[s.m] = row;
            work.column[s.m] = work.column[i] / scale;
            s.m += row >= 0;
        }
        s.rows = work.support.data();
        s.x = work.column.data();
        counts[0]++;
        if (only_intercept && !q.resolve) {
            const Interval known = is_indicator(s) ? two_groups(s, left) : beside_intercept(s, left);
            if (q.settled(known)) return known;
        }
        if (!q.resolve && without_rows(s) < q.aim()) {
            left = std::numeric_limits<double>::infinity();
            return {0.0, without_rows(s)};
        }
        along_support(f, s, work.buffer.data());
        Interval out = bracket_support(f, s, q.aim(), work.grad.data());
        left = out.upper > q.critical && !q.resolve ? support_norm(s, work) : std::numeric_limits<double>::infinity();
        if (q.settled(out) && !q.contends(out)) return out;
        if (q.spare_wide && s.m * f.r > f.n) {
            if (!q.settled(out)) left = std::numeric_limits<double>::quiet_NaN();
            return out;
        }
        sort_rows();
        SupportStep newton(f, s, work);
        const Interval sharp = newton.bracket(work.grad.data(), q.aim());
        if (newton.usable) {
            out.lower = std::max(out.lower, sharp.lower);
            out.upper = std::max(out.lower, std::min(out.upper, sharp.upper));
        }
        counts[1]++;
        if (q.settled(out) || !q.refine) return out;
        const std::vector<double> step = newton.usable ? work.step : std::vector<double>();
        if (s.pure && !s.conflict) return pure_column(work, s, q, out, step, predictor, explained);
        std::fill(work.x.begin(), work.x.end(), 0.0);
        for (int64_t i = 0; i < s.m; ++i) work.x[s.rows[i]] = s.x[i];
        Refinement refinement(f, work, f.a, work.x.data(), 0.0, 0.0);
        if (!s.conflict) refinement.start_at(s.b);
        if (!s.conflict && !step.empty()) refinement.try_step(step, s.gain);
        const Interval refined = refinement.run(q, out);
        counts[3]++;
        counts[4] += refinement.iterations;
        if (predictor) refinement.predictor(predictor);
        return refined;
    }

    // What the model gains at most when the rows of T are left out: no column that is 0 elsewhere does more for it. From sums
    // of what each row has, without a look at what the column holds.
    double without_rows(const Support& s) const {
        double cost = 0, pull = std::sqrt(f.inexact), leverage = 0;
        for (int64_t i = 0; i < s.m; ++i) {
            const Leaving& row = leaving[s.rows[i]];
            cost += row.cost, pull += row.pull, leverage += row.leverage;
        }
        const double rest = 1.0 - leverage, z = -f.kappa * pull / rest;
        if (!(rest > kCancelled) || !(z >= -1.0)) return std::numeric_limits<double>::infinity();
        return f.clip((cost + P(z) * pull * pull / rest) * (1.0 + kSlack));
    }

    static bool is_indicator(const Support& s) {
        return std::all_of(s.x, s.x + s.m, [&](double v) { return v == s.x[0]; });
    }

    // The statistic of an indicator beside an intercept: two groups, each with its own mean. In closed form.
    Interval two_groups(const Support& s, double& left) const {
        double size = 0, ones = 0;
        for (int64_t i = 0; i < s.m; ++i) {
            size += a[s.rows[i]];
            ones += sign[s.rows[i]] > 0 ? a[s.rows[i]] : 0.0;
        }
        const double mean = mu[0], rest = total_weight - size;
        auto divergence = [mean](double of, double all) {  // all · KL(of/all ‖ mean)
            const double no = all - of;
            return (of > 0 ? of * std::log(of / (all * mean)) : 0.0) + (no > 0 ? no * std::log(no / (all * (1.0 - mean))) : 0.0);
        };
        left = s.m ? mean * (1.0 - mean) * size * rest / total_weight * s.x[0] * s.x[0] : 0.0;
        if (!(size > 0) || !(rest > 0)) return {0.0, 0.0};
        const double statistic = 2.0 * (divergence(ones, size) + divergence(total_ones - ones, rest));
        const double rounding = kSlack * statistic + 1e-14 * total_weight;
        return {std::max(statistic - rounding, 0.0), f.clip(statistic + rounding)};
    }

    // Bracket of a column beside an intercept: its score and its extremes tell enough of most columns.
    Interval beside_intercept(const Support& s, double& left) const {
        double u = 0, sum = 0, square = 0, low = 0, high = 0;
        for (int64_t i = 0; i < s.m; ++i) {
            const int32_t row = s.rows[i];
            const double x = s.x[i], ax = a[row] * x;
            u += ax * res[row], sum += ax, square += ax * x;
            low = std::min(low, x), high = std::max(high, x);
        }
        const double mean = mu[0], curvature = mean * (1.0 - mean), center = sum / total_weight;
        left = curvature * (square - sum * center);
        if (!(left > kCancelled * curvature * square)) return {0.0, std::numeric_limits<double>::infinity()};
        const double delta = u / left, one = delta * (low - center), two = delta * (high - center);
        const double bottom = std::min(one, two), top = std::max(one, two);
        return bracket(f, u * delta, std::min((1.0 - mean) * bottom, -mean * top), std::max((1.0 - mean) * top, -mean * bottom), 0.0, 0.0, 0.0);
    }

    // What is left of a sparse column after the model, in the metric of the fit: sum a w x² - |G'aw x|².
    double support_norm(const Support& s, Work& work) const {
        std::fill(work.step.begin(), work.step.end(), 0.0);
        double total = 0;
        for (int64_t i = 0; i < s.m; ++i) {
            const int64_t row = s.rows[i];
            const double t = a[row] * w[row] * s.x[i];
            total += t * s.x[i];
            add_row(work.step.data(), t, f.G + row * f.stride, f.stride);
        }
        for (int64_t k = 0; k < f.r; ++k) total -= work.step[k] * work.step[k];
        return total;
    }

    // One column, by its support where that is short, by all of its rows otherwise.
    template <class Columns>
    Interval column(const Columns& columns, int64_t j, Vector center, Vector scale, bool mostly_zero, Work& work, const Question& q,
                    double& left, double* predictor, Explained& explained) const {
        if (!(scale.data()[j] > 0)) {  // constant
            left = std::numeric_limits<double>::infinity();
            return {0.0, 0.0};
        }
        if (mostly_zero) {
            const Interval out = support_column(columns.m, j, scale.data()[j], work, q, left, predictor, explained);
            if (!q.spare_wide || !std::isnan(left)) return out;
        }
        left = std::numeric_limits<double>::quiet_NaN();
        if (q.spare_wide) return {0.0, std::numeric_limits<double>::infinity()};
        columns.m.gather(&j, 1, center.data(), scale.data(), work.column.data());
        double total = 0;
        for (int64_t i = 0; i < f.n; ++i) {
            work.x[i] = work.column[row_of[i]];
            total += f.a[i] * f.w[i] * work.x[i] * work.x[i];
        }
        return dense_column(work, q, {0.0, f.deviance}, total, left, predictor);
    }

    template <class Columns>
    void check(const Columns& columns, Which which, Vector center, Vector scale, Flags mostly_zero) const {
        require(columns.m.n == all_rows() && mostly_zero.shape(0) == which.shape(0), "columns");
        require(static_cast<int64_t>(center.shape(0)) == columns.m.p && static_cast<int64_t>(scale.shape(0)) == columns.m.p, "moments");
        check_range(which, columns.m.p);
    }

    // Intervals for columns, whatever they are stored in; closer ones for those that may be best, if they are to be ranked.
    // Those that are better looked at with all their rows, several in one matrix product, may be spared; the norm² left of
    // them is NaN.
    template <class Columns>
    Answer brackets(const Columns& columns, Which which, Vector center, Vector scale, Flags mostly_zero, double critical,
                    bool refine, bool ranked, bool spare_wide) const {
        check(columns, which, center, scale, mostly_zero);
        double *lower, *upper, *left;
        const size_t count = which.shape(0);
        OutVector l = new_vector(count, lower), u = new_vector(count, upper), e = new_vector(count, left);
        nb::gil_scoped_release release;
        Work work(f, all_rows());
        Explained explained;
        Question q{critical, 0.0, false, refine, spare_wide};
        double best = 0;
        for (size_t j = 0; j < count; ++j) {
            const Interval v = column(columns, which.data()[j], center, scale, mostly_zero.data()[j], work, q, left[j], nullptr, explained);
            lower[j] = v.lower, upper[j] = v.upper;
            best = std::max(best, v.lower);
            if (ranked) q.bar = best;
        }
        return {l, u, e};
    }

    FBED_HOT double weighted_square(const double* x) const {
        const double *aa = f.a, *ww = f.w;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < f.n; ++i) sum += aa[i] * ww[i] * x[i] * x[i];
        return sum;
    }

    // A first look at columns n × count, centred and scaled, with projections G'aw x, count × r (row-major), of a matrix
    // product elsewhere: bounds, the norm² left of each after the model, and before.
    std::tuple<OutVector, OutVector, OutVector, OutVector> look(ColumnMajor X, RowMajor projections) const {
        const size_t count = X.shape(1);
        require(static_cast<int64_t>(X.shape(0)) == f.n, "rows");
        require(projections.shape(0) == count && static_cast<int64_t>(projections.shape(1)) == f.r, "projections");
        double *lower, *upper, *left, *total;
        OutVector l = new_vector(count, lower), u = new_vector(count, upper), e = new_vector(count, left), t = new_vector(count, total);
        nb::gil_scoped_release release;
        for (size_t j = 0; j < count; ++j) {
            double reach;
            const Interval v = crude(X.data() + j * f.n, projections.data() + j * f.r, total[j], reach, left[j]);
            lower[j] = v.lower, upper[j] = v.upper;
        }
        return {l, u, e, t};
    }

    // Columns less their projections on the model, with the norm² that they had before, and what is known of them.
    Answer dense(ColumnMajor X, Vector total, Vector known_lower, Vector known_upper, double critical, bool refine) const {
        const size_t count = X.shape(1);
        require(static_cast<int64_t>(X.shape(0)) == f.n, "rows");
        require(total.shape(0) == count && known_lower.shape(0) == count && known_upper.shape(0) == count, "sizes");
        double *lower, *upper, *left;
        OutVector l = new_vector(count, lower), u = new_vector(count, upper), e = new_vector(count, left);
        nb::gil_scoped_release release;
        Work work(f, f.n);
        const Question q{critical, 0.0, false, refine};
        for (size_t j = 0; j < count; ++j) {
            const double* x = X.data() + j * f.n;
            std::copy(x, x + f.n, work.x.begin());
            const Interval known{known_lower.data()[j], known_upper.data()[j]};
            const Interval v = dense_column(work, q, known, total.data()[j], left[j], nullptr, true);
            lower[j] = v.lower, upper[j] = v.upper;
        }
        return {l, u, e};
    }

    // Bracket from the projections alone: |x - Gc| is at most |x| + kappa|c|, no need to form it.
    FBED_HOT Interval crude(const double* x, const double* c, double& total, double& reach, double& left) const {
        double norm = 0, u = 0, top = 0;
#pragma omp simd reduction(+ : norm, u) reduction(max : top)
        for (int64_t i = 0; i < f.n; ++i) {
            norm += f.a[i] * f.w[i] * x[i] * x[i];
            u += f.a[i] * f.res[i] * x[i];
            top = std::max(top, std::abs(x[i]));
        }
        double c2 = 0;
        for (int64_t k = 0; k < f.r; ++k) {
            c2 += c[k] * c[k];
            u -= c[k] * f.g0[k];  // what the fit itself has left is no merit of x
        }
        total = norm;
        reach = top + f.kappa * std::sqrt(c2);
        left = norm - c2;
        // one pass loses digits where the column is nearly in the span: two passes there
        if (!(left > 0) || f.n * 1.2e-16 * norm > 1e-10 * left || f.has_idle)
            return {0.0, std::numeric_limits<double>::infinity()};
        const double delta = u / left, step = std::abs(delta) * reach;
        return bracket(f, u * delta, -step, step, 0.0, 0.0, 0.0);
    }

    // Brackets for a model with an intercept only, where a column's extremes are all that is needed: u = x'a(y - mu) of the
    // standardised columns, low and high their extremes, norm = sum a w x².
    std::tuple<OutVector, OutVector> first(Vector u, Vector low, Vector high, double norm) const {
        const size_t count = u.shape(0);
        require(low.shape(0) == count && high.shape(0) == count, "sizes");
        double *lower, *upper;
        OutVector l = new_vector(count, lower), h = new_vector(count, upper);
        nb::gil_scoped_release release;
        const double m = mu[0];
        for (size_t j = 0; j < count; ++j) {
            const double delta = u.data()[j] / norm;
            const double one = delta * low.data()[j], two = delta * high.data()[j];
            const double bottom = std::min(one, two), top = std::max(one, two);
            const Interval v = bracket(f, u.data()[j] * delta, std::min((1.0 - m) * bottom, -m * top),
                                       std::max((1.0 - m) * top, -m * bottom), 0.0, 0.0, 0.0);
            lower[j] = v.lower, upper[j] = v.upper;
        }
        return {l, h};
    }

    // The best of several candidates. lower and upper are what is known of them; they come best first. Each is refined until
    // it is resolved or out of the race: below the best so far, or at most tied with it and of a higher index. Also tells
    // the linear predictor of the model with the best.
    template <class Evaluate>
    Ranking best_of(Which which, Vector known_lower, Vector known_upper, bool race, Evaluate&& evaluate) const {
        const size_t count = which.shape(0);
        require(known_lower.shape(0) == count && known_upper.shape(0) == count, "sizes");
        double *lower, *upper, *predictor;
        OutVector l = new_vector(count, lower), u = new_vector(count, upper), out = new_vector(place.size(), predictor);
        bool* open;
        OutFlags o = new_flags(count, open);
        int64_t best = -1;
        {
            nb::gil_scoped_release release;
            Work work(f, all_rows());
            std::vector<double> trial(f.n);
            std::copy(all_eta.begin(), all_eta.end(), predictor);
            double bar = 0;
            for (size_t j = 0; j < count; ++j) {
                Interval v{known_lower.data()[j], known_upper.data()[j]};
                const double tie = 1e-9 * std::max(1.0, bar);
                const bool later = best >= 0 && which.data()[j] > which.data()[best];
                const bool out_of_race = best >= 0 && race && (v.upper < bar - 2.0 * tie || (later && v.upper <= bar + tie));
                if (!out_of_race) {
                    const double floor_ = best >= 0 && race ? bar - 2.0 * tie : 0.0;
                    std::copy(f.eta, f.eta + f.n, trial.begin());  // what stays when brackets settle it
                    const Interval found = evaluate(j, work, Question{0.0, floor_, true}, trial.data());
                    v.lower = std::max(v.lower, found.lower);
                    v.upper = std::max(v.lower, std::min(v.upper, found.upper));
                    if (best < 0 || v.lower > bar + tie) {
                        best = static_cast<int64_t>(j);
                        bar = v.lower;
                        const bool sound = std::all_of(trial.begin(), trial.end(), [](double v) { return std::isfinite(v); });
                        for (int64_t i = 0; i < f.n; ++i) predictor[row_of[i]] = sound ? trial[i] : eta[i];
                    }
                }
                lower[j] = v.lower, upper[j] = v.upper;
            }
            for (size_t j = 0; j < count; ++j) {
                const double tie = 1e-9 * std::max(1.0, bar);
                const bool later = which.data()[j] > which.data()[best], lost = upper[j] < bar - 2.0 * tie;
                const bool surpassed = race && (lost || (later && upper[j] <= bar + tie));
                open[j] = !surpassed && upper[j] - lower[j] > kResolved * std::max(1.0, lower[j]);
            }
        }
        return {l, u, best, out, o};
    }

    // `mostly_zero` says which columns are better looked at by their support.
    template <class Columns>
    Ranking contest(const Columns& columns, Which which, Vector center, Vector scale, Flags mostly_zero, Vector lower, Vector upper,
                    bool race) const {
        check(columns, which, center, scale, mostly_zero);
        Explained explained;
        auto found = best_of(which, lower, upper, race, [&](size_t j, Work& work, const Question& q, double* predictor) {
            double left;
            return column(columns, which.data()[j], center, scale, mostly_zero.data()[j], work, q, left, predictor, explained);
        });
        const int64_t best = std::get<2>(found);
        if (best >= 0 && !Z.empty()) {
            std::vector<double> x(all_rows());
            columns.m.gather(which.data() + best, 1, center.data(), scale.data(), x.data());
            move_other_rows(x, std::get<3>(found).data());
        }
        return found;
    }

    // A linear predictor that a model with x has on the rows that are known, on the other rows as well.
    void move_other_rows(const std::vector<double>& x, double* predictor) const {
        std::vector<double> here(f.n), moved(f.n), own(f.r), along(f.r), coefficients(basis.r, 0.0);
        for (int64_t i = 0; i < f.n; ++i) {
            const double aw = a[i] * w[i];
            here[i] = aw * x[row_of[i]];
            moved[i] = aw * (predictor[row_of[i]] - eta[i]);
        }
        products(f.T, f.n, f.r, here.data(), own.data());
        products(f.T, f.n, f.r, moved.data(), along.data());
        double left = 0, slope = 0;
        for (int64_t i = 0; i < f.n; ++i) {
            left += here[i] * x[row_of[i]];
            slope += moved[i] * x[row_of[i]];
        }
        const double total = left;
        for (int64_t k = 0; k < f.r; ++k) {
            left -= own[k] * own[k];
            slope -= own[k] * along[k];
        }
        if (!(left > kCancelled * total)) return;
        const double b = slope / left;
        for (int64_t j = 0; j < basis.r; ++j)
            for (int64_t k = 0; k < f.r; ++k) coefficients[j] += basis.M[j * f.r + k] * (along[k] - b * own[k]);
        for (int64_t row = 0; row < all_rows(); ++row) {
            if (place[row] >= 0) continue;
            predictor[row] += b * x[row];
            for (int64_t j = 0; j < basis.r; ++j) predictor[row] += coefficients[j] * Z[j * all_rows() + row];
        }
    }
};

}  // namespace fbed
