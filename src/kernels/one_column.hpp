// A fitted logistic model, asked about one column that could join it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "prepared.hpp"
#include "refine.hpp"
#include "removal.hpp"
#include "score_step.hpp"
#include "support.hpp"
#include "support_step.hpp"

namespace fbed {

// Supports of one sign on rows of one class explain those rows and no others, so that all that matters is which rows: of
// many columns, the same sets come again and again once few rows are left to explain. By rows: what a first look told of them,
// and what a refinement did.
struct Explained {
    std::map<std::vector<int32_t>, Interval> at_a_look, refined;
};

// Entries of a column times columns of the model, beside the rows, from which it is looked at with all of its rows at once.
constexpr int64_t kWide = 2;

// The same, from which it is looked at by its score first: one product with the model costs less than a look by the support.
// Where the model's columns are mostly 0, only a look by a long support costs more.
constexpr double kScored = 0.5, kScoredSparsely = 8.0;

// Columns of a model beyond which its curvature with another one costs more than a look at fewer rows, where that follows anyway.
constexpr int64_t kDear = 32;

// A linear predictor that explains a row, where nothing else says how large it is.
constexpr double kCertain = 16.0;

struct OneColumn : Prepared {
    using Prepared::Prepared;

    mutable std::array<std::atomic<int64_t>, 7> counts{};  // several threads may ask at once

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
        if (!q.resolve && known.lower <= q.critical) {
            ScoreStep score(f, work, norm);
            score.take_first_step();
            known.upper = std::max(known.lower, std::min(known.upper, score.without_rows(q.aim())));
            if (q.settled(known)) return known;
        }
        counts[3]++;
        Refinement refinement(f, work, f.a, work.x.data(), norm, 0.0);
        refinement.allow_for_rounding(std::sqrt(total / norm));
        const Interval out = refinement.run(q, known);
        counts[4] += refinement.iterations;
        if (predictor) refinement.predictor(predictor);
        return out;
    }

    static void narrow(Interval& known, const Interval& found) {
        known.lower = std::max(known.lower, found.lower);
        known.upper = std::max(known.lower, std::min(known.upper, found.upper));
    }

    // Whether a step with a curvature that is known, or one without some rows, tells enough.
    bool settled_without_newton(Work& work, const Question& q, SupportStep& first, Interval& known) const {
        if (first.promises(q.aim()) || (first.usable && !q.resolve)) {
            narrow(known, first.again());
            if (q.settled(known)) return true;
        }
        if (q.resolve) return false;  // who comes that close to the best is better refined at once
        narrow(known, {0.0, first.without_rows(work.grad.data(), q.aim())});
        return q.settled(known);
    }

    Interval pure_column(Work& work, const Support& s, const Question& q, Interval known, SupportStep& first, double* predictor,
                         Explained& explained) const {
        // asked again, a refinement finds nothing new: what it could not settle, it cannot
        const auto before = explained.refined.try_emplace({s.rows, s.rows + s.m}, known);
        Interval& kept = before.first->second;
        if (!f.has_idle && !before.second) {
            narrow(known, kept);
            return known;
        }
        if (settled_without_newton(work, q, first, known)) return kept = known;
        const std::vector<double> step = first.usable ? work.step : std::vector<double>();
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

    // What a column is not 0 in, in units of its spread: the sums with it are then of the same size as those with G.
    template <class Matrix>
    Support support_of(const Matrix& m, int64_t j, double scale, Work& work) const {
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
        return s;
    }

    template <class Matrix>
    Interval support_column(const Matrix& m, int64_t j, double scale, Work& work, const Question& q, double& left,
                            double* predictor, Explained& explained) const {
        Support s = support_of(m, j, scale, work);
        counts[0]++;
        if (s.m == f.n && is_indicator(s)) {  // the intercept, on the rows that are known
            left = std::numeric_limits<double>::infinity();
            return {0.0, elsewhere()};
        }
        if (only_intercept && !q.resolve) {
            const Interval known = is_indicator(s) ? two_groups(s, left) : beside_intercept(s, left);
            if (q.settled(known)) return known;
        }
        const double most = without_rows(s);
        if (most < q.aim()) {
            left = std::numeric_limits<double>::infinity();
            return {0.0, most};
        }
        if (!q.resolve && std::isfinite(q.critical) && s.m * f.r > (f.sparse ? kScoredSparsely : kScored) * f.n) {
            const double high = ScoreStep(f, work, s).upper(q.aim());
            left = std::numeric_limits<double>::infinity();
            if (high < q.aim()) return {0.0, high};
        }
        if (q.spare_wide && std::isfinite(q.critical) && s.m * f.r > kWide * f.n) {  // a look by the support rarely settles it
            left = std::numeric_limits<double>::quiet_NaN();
            return {0.0, std::numeric_limits<double>::infinity()};
        }
        look_for_purity(f, s);
        // several others may be spared, and then there is no answer to be kept
        if (q.resolve || !s.pure || f.has_idle || s.m * f.r > f.n) return closer_look(s, work, q, left, predictor, explained);
        const auto before = explained.at_a_look.try_emplace({s.rows, s.rows + s.m}, Interval{});
        Interval& kept = before.first->second;
        if (before.second) return kept = closer_look(s, work, q, left, predictor, explained);
        left = kept.upper > q.critical ? support_norm(s, work) : std::numeric_limits<double>::infinity();
        return kept;
    }

    // The same where sums of what each row has do not settle it.
    Interval closer_look(Support& s, Work& work, const Question& q, double& left, double* predictor, Explained& explained) const {
        along_support(f, s, f.a, work.buffer.data());
        left = std::numeric_limits<double>::infinity();
        const double alone = gained_alone(f, s);
        if (q.quickly_passed(alone)) return {alone, f.deviance};
        Interval out = bracket_support(f, s, q.aim(), work.grad.data());
        out.lower = std::max(out.lower, std::min(alone, out.upper));
        left = out.upper > q.critical && !q.resolve ? support_norm(s, work) : std::numeric_limits<double>::infinity();
        if (q.settled(out) && !q.contends(out, s.promise)) return out;
        if (q.spare_wide && s.m * f.r > f.n) {
            if (!q.settled(out)) left = std::numeric_limits<double>::quiet_NaN();
            return out;
        }
        const bool is_dear = f.sparse && f.r > kDear && !q.refine;
        if (is_dear && s.promise < q.critical) return out;  // who seems to fail is asked about more closely elsewhere
        sort_rows();
        SupportStep newton(f, s, work);
        const Interval sharp = newton.bracket(work.grad.data(), q.aim());
        if (newton.usable) narrow(out, sharp);
        counts[1]++;
        if (q.settled(out)) return out;
        if (is_dear) return out;
        if (!q.refine) {
            narrow(out, {0.0, newton.without_rows(work.grad.data(), q.aim())});
            return out;
        }
        if (s.pure && !s.conflict) return pure_column(work, s, q, out, newton, predictor, explained);
        if (settled_without_newton(work, q, newton, out)) return out;
        const std::vector<double> step = newton.usable ? work.step : std::vector<double>();
        std::fill(work.x.begin(), work.x.end(), 0.0);
        for (int64_t i = 0; i < s.m; ++i) work.x[s.rows[i]] = s.x[i];
        if (s.conflict && !q.resolve && lower_of_conflict(work, q, out)) return out;
        Refinement refinement(f, work, f.a, work.x.data(), 0.0, 0.0);
        if (!s.conflict) refinement.start_at(s.b);
        if (!s.conflict && !step.empty()) refinement.try_step(step, s.gain);
        const Interval refined = refinement.run(q, out);
        counts[3]++;
        counts[4] += refinement.iterations;
        if (predictor) refinement.predictor(predictor);
        return refined;
    }

    // Idle rows that pull the other way say how far it goes: with all of them, likelihoods are attained. Not bounded from above,
    // as directions that move idle rows only are no part of the basis. Whether that settles it.
    bool lower_of_conflict(Work& work, const Question& q, Interval& out) const {
        Refinement all(f, work, f.weight, work.x.data(), 0.0, 0.0);
        narrow(out, {all.run(q, {out.lower, f.deviance}).lower, out.upper});
        counts[3]++;
        counts[4] += all.iterations;
        return q.settled(out);
    }

    // Whether a look at what removing a column costs takes more than a step of a fit does, of which it takes several.
    bool is_longer_than_a_fit(int64_t k) const {
        constexpr double kLittle = 4e6;
        const double entries = static_cast<double>(own_terms->column_start[k + 1] - own_terms->column_start[k]), r = static_cast<double>(f.r);
        return entries * std::min(entries, r) * r > kLittle + r * r * r / 3.0;
    }

    // What it costs at least to take out the k-th column of the model, which has these coefficients; see `Removal`.
    double loss_of_column(int64_t k, const double* coefficients, Work& work, double enough, double reach) const {
        const int64_t none = basis.r - basis.kept;
        const double *q = basis.M.data() + k * basis.kept, *ways = basis.free.data() + k * none;
        const auto has_part = [](double v) { return std::abs(v) > kStill; };
        const int64_t way = std::find_if(ways, ways + none, has_part) - ways;
        const bool in_basis = std::any_of(q, q + basis.kept, [](double v) { return v != 0.0; });
        if (in_basis == (way < none) || std::count_if(ways, ways + none, has_part) > 1) return Removal::kUnknown;
        sort_rows();
        std::vector<double> made;
        const std::vector<MovedRow> rows = in_basis ? rows_moved_by(k, coefficients) : rows_of_its_own(k, way, coefficients, made);
        if (rows.empty()) return Removal::kUnknown;
        double furthest = 0;
        for (const MovedRow& row : rows) furthest = std::max(furthest, std::abs(row.x));
        const double most = kCertain / furthest, beta = in_basis ? coefficients[k] : std::clamp(coefficients[k], -most, most);
        return Removal(f, work, rows, beta, in_basis ? q : nullptr, reach).at_least(enough);
    }

    // Rows that the model knows of a column that it has a direction for, but for those that are explained whatever that does.
    std::vector<MovedRow> rows_moved_by(int64_t k, const double* coefficients) const {
        count_free_ways();
        std::vector<MovedRow> out;
        for (int64_t e = own_terms->column_start[k]; e < own_terms->column_start[k + 1]; ++e) {
            const int64_t i = place[own_terms->row_of[e]];
            const double x = own_terms->by_column[e];
            if (i >= 0 && x != 0.0 && (f.a[i] > 0 || free_ways[row_of[i]] == 0))
                out.push_back({f.row(i), x, f.eta[i] - coefficients[k] * x, f.sign[i], f.weight[i], f.dev[i], f.a[i] * f.w[i], f.a[i] * f.res[i], i});
        }
        return out;
    }

    // Rows that the only way moves which is gone without a column, as coefficients predict them from which the column has been
    // taken out along it: idle ones, and those that the model does not know any more. Room for what these have in the basis is
    // made.
    std::vector<MovedRow> rows_of_its_own(int64_t k, int64_t way, const double* coefficients, std::vector<double>& made) const {
        count_free_ways();
        const int64_t none = basis.r - basis.kept;
        const SparseTerms& terms = *own_terms;
        std::vector<double> moved(place.size(), 0.0), direction(basis.r), rest(coefficients, coefficients + basis.r);
        for (int64_t j = 0; j < basis.r; ++j) direction[j] = basis.free[j * none + way] / basis.free[k * none + way];
        for (int64_t j = 0; j < basis.r; ++j) rest[j] -= coefficients[k] * direction[j];
        terms.add(direction.data(), moved.data());
        std::vector<int64_t> alone;
        for (size_t row = 0; row < place.size(); ++row)
            if (free_ways[row] == 1 && moved[row] != 0.0 && !(place[row] >= 0 && f.a[place[row]] > 0)) alone.push_back(static_cast<int64_t>(row));
        made.assign(alone.size() * f.stride, 0.0);
        std::vector<MovedRow> out;
        for (int64_t row : alone) {
            double *g = made.data() + out.size() * f.stride, eta = all_offsets.empty() ? 0.0 : all_offsets[row];
            for (int64_t p = terms.row_start[row]; p < terms.row_start[row + 1]; ++p) {
                const int64_t other = terms.column_of[p];
                eta += terms.by_row[p] * rest[other];
                for (int64_t l = 0; l < basis.kept; ++l) g[l] += terms.by_row[p] * basis.M[other * basis.kept + l];
            }
            const int64_t i = place[row];
            MovedRow found{g, moved[row], eta, all_signs[row], all_weights[row]};
            if (i >= 0) found.dev = f.dev[i], found.place = i;
            out.push_back(found);
        }
        return out;
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
            add_row(work.step.data(), t, f.row(row), f.stride);
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
        if (!mostly_zero && q.spare_wide && f.sparse && std::isfinite(q.critical)) {
            const double high = ScoreStep(f, work, support_of(columns.m, j, scale.data()[j], work)).upper(q.aim());
            left = std::numeric_limits<double>::infinity();
            if (high < q.aim()) return {0.0, high};
        }
        left = std::numeric_limits<double>::quiet_NaN();
        if (q.spare_wide) return {0.0, std::numeric_limits<double>::infinity()};
        columns.m.gather(&j, 1, center.data(), scale.data(), work.column.data());
        double total = 0;
        for (int64_t i = 0; i < f.n; ++i) {
            work.x[i] = work.column[row_of[i]];
            total += f.a[i] * f.w[i] * work.x[i] * work.x[i];
        }
        if (is_constant(work.x.data())) {
            left = std::numeric_limits<double>::infinity();
            return {0.0, elsewhere()};
        }
        return dense_column(work, q, {0.0, f.deviance}, total, left, predictor);
    }

    // What a column gains at most that adds nothing to the rows that are known: what the others have left to explain, and what
    // the fit on those that are known is short of, where it is no fit on all rows.
    double elsewhere() const {
        if (f.has_idle || f.idle_deviance == 0.0) return 0.0;
        const double move = f.kappa * std::sqrt(f.inexact);
        return move <= 1.0 ? f.clip(f.inexact * P(-move) * (1.0 + kSlack)) : f.deviance;
    }

    // Whether a column is the intercept on the rows that are known: it adds nothing to them.
    bool is_constant(const double* x) const {
        return std::all_of(x, x + f.n, [x](double v) { return v == x[0]; });
    }

    FBED_HOT double weighted_square(const double* x) const {
        const double *aa = f.a, *ww = f.w;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < f.n; ++i) sum += aa[i] * ww[i] * x[i] * x[i];
        return sum;
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
        if (is_constant(x)) return {0.0, elsewhere()};
        // one pass loses digits where the column is nearly in the span: two passes there
        if (!(left > 0) || f.n * 1.2e-16 * norm > 1e-10 * left || f.has_idle)
            return {0.0, std::numeric_limits<double>::infinity()};
        const double delta = u / left, step = std::abs(delta) * reach;
        return bracket(f, u * delta, -step, step, 0.0, 0.0, 0.0);
    }
};

}  // namespace fbed
