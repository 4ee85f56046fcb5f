// A fitted logistic model, asked about many columns that could join it: arrays in, arrays out.
#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "logistic.hpp"
#include "one_column.hpp"
#include "pause.hpp"
#include "explained_rows.hpp"

namespace fbed {

// Lower and upper bounds, and the norm² that is left of each column after the model, all for one set of candidates.
using Answer = std::tuple<OutVector, OutVector, OutVector>;

// The same for contenders, without the norm²: the position of the best, the linear predictor of the model with it, and who is
// neither resolved nor out of the race.
using Ranking = std::tuple<OutVector, OutVector, int64_t, OutVector, OutFlags>;

// Relative width at which an interval is a number: half of what ties are judged by.
constexpr double kResolved = 5e-10;

// Rows with less deviance than this are saturated: they are bounded, not modelled.
constexpr double kIdleDeviance = 1e-9;

// Columns between two looks at the clock, which costs as much as a column of a few values.
constexpr size_t kColumnsALook = 8;

// Removals that are tried, and one in so many that must be told for the others to be tried as well.
constexpr size_t kTried = 4, kSeldom = 4;

struct LogisticNull : OneColumn {
    using OneColumn::OneColumn;

    // A model whose active rows are given: the others are idle, and what they have left is `idle_cost`.
    static std::unique_ptr<LogisticNull> of_rows(ColumnMajor Z, Vector weight, Vector y, Vector eta, Vector active, double deviance,
                                                 double idle_cost, MaybeVector offset, double rounding) {
        return of_rows(Model(Z, weight, y, eta, offset, rounding), active, deviance, idle_cost);
    }

    static std::unique_ptr<LogisticNull> of_rows(const Model& model, Vector active, double deviance, double idle_cost) {
        require(static_cast<int64_t>(active.shape(0)) == model.n, "one value a row");
        nb::gil_scoped_release release;
        const std::vector<double> counts(active.data(), active.data() + model.n);
        std::vector<char> known(model.n);
        for (int64_t i = 0; i < model.n; ++i) known[i] = counts[i] > 0;
        return std::make_unique<LogisticNull>(model, known, counts, deviance, idle_cost);
    }

    // A fitted model: all rows but the saturated ones; of those only the ones that the model can move on its own, if it can.
    static std::unique_ptr<LogisticNull> of_fit(ColumnMajor Z, Vector weight, Vector y, Vector eta, Vector coefficients, double deviance,
                                                MaybeVector offset, double rounding) {
        return of_fit(Model(Z, weight, y, eta, offset, rounding), coefficients, deviance);
    }

    static std::unique_ptr<LogisticNull> of_fit(const Model& model, Vector coefficients, double deviance) {
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
            const Secured secured(model, signs.data(), curvature, idle, coefficients.data());
            std::vector<char> faint(n);
            if (secured.any && find_faint(model, secured.rows, idle, faint)) {
                double faint_cost = 0;
                bool all_tell = true;
                for (int64_t i = 0; i < n; ++i) {
                    known[i] = !secured.rows[i];
                    active[i] = known[i] && !faint[i] ? active[i] : 0.0;
                    faint_cost += faint[i] ? left[i] : 0.0;
                    all_tell = all_tell && !faint[i];
                    deviance -= known[i] ? 0.0 : left[i];  // in the supremum those rows are explained
                }
                const Whitened* basis = secured.all_idle && all_tell ? &secured.basis : nullptr;
                auto null = std::make_unique<LogisticNull>(model, known, active, deviance, faint_cost, basis);
                if (null->is_sound(model)) {
                    null->keep(model);
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

    // Some columns move only rows, of those that are not secured, which have next to no curvature. In the basis such a column would
    // have coefficients that `is_sound` refuses, and that basis is dear: its rows are idle instead. False if they cannot be.
    static bool find_faint(const Model& model, const std::vector<char>& secured, const std::vector<char>& idle, std::vector<char>& faint) {
        std::vector<double> signs(model.n), left(model.n), curvature(model.n);
        look_at(model, signs.data(), left.data(), curvature.data());
        for (int64_t i = 0; i < model.n; ++i)
            if (secured[i]) curvature[i] = 0.0;
        for (bool found = true; found;) {  // a row less may leave another column with too little
            look_up();
            found = false;
            for (int64_t k = 0; k < model.r; ++k) {
                const double own = model.square(k, curvature.data());
                if (!(own > 0) || own * kLarge * kLarge > 1.0) continue;
                if (!model.terms) return false;
                for (int64_t e = model.terms->column_start[k]; e < model.terms->column_start[k + 1]; ++e) {
                    const int32_t row = model.terms->row_of[e];
                    if (curvature[row] == 0.0) continue;
                    if (!idle[row]) return false;
                    faint[row] = 1, curvature[row] = 0.0, found = true;
                }
            }
        }
        return true;
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
        for (size_t j = 0; j < count; ++j) {
            if (j % kColumnsALook == 0) look_up();
            const Interval v = column(columns, which.data()[j], center, scale, mostly_zero.data()[j], work, q, left[j], nullptr, explained);
            lower[j] = v.lower, upper[j] = v.upper;
            q.leader = std::max(q.leader, v.lower);
            if (ranked) q.bar = q.leader;
        }
        return {l, u, e};
    }

    // What it costs at least to take out each of some columns of a model whose columns are mostly 0, or more than is enough.
    OutVector losses(Which columns, Vector coefficients, double enough) const {
        const size_t count = columns.shape(0);
        require(static_cast<int64_t>(coefficients.shape(0)) == basis.r, "one coefficient a column");
        check_range(columns, basis.r);
        double* least;
        OutVector out = new_vector(count, least);
        nb::gil_scoped_release release;
        std::fill(least, least + count, Removal::kUnknown);
        Work work(f, all_rows());
        double reach = 0;
        for (double value : eta) reach = std::max(reach, std::abs(value));
        size_t tried = 0, told = 0;
        for (size_t j = 0; own_terms && j < count; ++j) {
            if (tried >= kTried && kSeldom * told < tried) break;  // near separation, too many rows are moved too far
            if (is_longer_than_a_fit(columns.data()[j])) continue;
            look_up();
            ++tried;
            least[j] = loss_of_column(columns.data()[j], coefficients.data(), work, enough, reach);
            told += least[j] > enough;
        }
        return out;
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
            look_up();
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
            look_up();
            const double* x = X.data() + j * f.n;
            std::copy(x, x + f.n, work.x.begin());
            const Interval known{known_lower.data()[j], known_upper.data()[j]};
            const Interval v = dense_column(work, q, known, total.data()[j], left[j], nullptr, true);
            lower[j] = v.lower, upper[j] = v.upper;
        }
        return {l, u, e};
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
    // the linear predictor of the model with the best, unless that is the first, and he is known.
    template <class Evaluate>
    Ranking best_of(Which which, Vector known_lower, Vector known_upper, bool race, bool first_is_known, Evaluate&& evaluate) const {
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
                if (j == 0 && first_is_known) {
                    best = 0;
                    bar = v.lower;
                } else if (!out_of_race) {
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
                    bool race, bool first_is_known) const {
        check(columns, which, center, scale, mostly_zero);
        Explained explained;
        auto found = best_of(which, lower, upper, race, first_is_known, [&](size_t j, Work& work, const Question& q, double* predictor) {
            double left;
            return column(columns, which.data()[j], center, scale, mostly_zero.data()[j], work, q, left, predictor, explained);
        });
        const int64_t best = std::get<2>(found);
        if (best >= 0 && keeps_model() && !(best == 0 && first_is_known)) {
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
        f.products(here.data(), own.data());
        f.products(moved.data(), along.data());
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
        std::vector<double> changed(all_rows(), 0.0);
        terms ? terms->add(coefficients.data(), changed.data()) : add_columns(Z.data(), all_rows(), basis.r, coefficients.data(), changed.data());
        for (int64_t row = 0; row < all_rows(); ++row) {
            if (place[row] >= 0) continue;
            predictor[row] += b * x[row] + changed[row];
        }
    }
};

}  // namespace fbed
