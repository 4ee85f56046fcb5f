// Python's view of the kernels: arrays in, arrays out, the interpreter's lock released inside.
#include <nanobind/stl/unique_ptr.h>

#include "arrays.hpp"
#include "at_risk.hpp"
#include "classes.hpp"
#include "coded_models.hpp"
#include "concordance.hpp"
#include "counts.hpp"
#include "cox_brackets.hpp"
#include "cox_models.hpp"
#include "fit.hpp"
#include "group_gains.hpp"
#include "linear.hpp"
#include "many_columns.hpp"
#include "spared_rows.hpp"
#include "matrices.hpp"
#include "python_objects.hpp"
#include "packed_columns.hpp"
#include "patterns.hpp"
#include "pause.hpp"
#include "rare_at_risk.hpp"
#include "rare_columns.hpp"
#include "ridge.hpp"
#include "rows.hpp"
#include "score_intervals.hpp"
#include "transpose.hpp"
#include "tall_classes.hpp"
#include "wald.hpp"
#include "whiten.hpp"

using namespace fbed;

// Coefficients, linear predictors, deviance, what it is at least, decrement, whether separated, iterations.
using FitAnswer = std::tuple<OutVector, OutVector, double, double, double, bool, int>;

template <class Terms>
static FitAnswer fit_terms(const Terms& terms, Vector weight, Vector y, RowMajor starts, double tolerance, double enough,
                           const MaybeVector& offset) {
    const size_t n = static_cast<size_t>(terms.n), r = static_cast<size_t>(terms.r);
    require(weight.shape(0) == n && y.shape(0) == n && starts.shape(0) > 0 && starts.shape(1) == r, "sizes");
    require(!offset || offset->shape(0) == n, "one offset a row");
    double *beta, *eta;
    OutVector b = new_vector(r, beta), e = new_vector(n, eta);
    Fitted fitted;
    {
        nb::gil_scoped_release release;
        std::vector<double> sign(n);
        for (size_t i = 0; i < n; ++i) sign[i] = y.data()[i] > 0.5 ? 1.0 : -1.0;
        Null f;
        f.n = terms.n, f.r = terms.r;
        f.sign = sign.data(), f.weight = weight.data();
        if (offset) f.offset = offset->data();
        fitted = Fitter<Terms>(f, terms, beta, eta, tolerance, enough).run(starts.data(), starts.shape(0));
    }
    return {b, e, fitted.deviance, fitted.certain, fitted.decrement, fitted.separated, fitted.iterations};
}

static FitAnswer fit_logistic(ColumnMajor Z, Vector weight, Vector y, RowMajor starts, double tolerance, double enough,
                              MaybeVector offset) {
    const DenseTerms terms{Z.data(), static_cast<int64_t>(Z.shape(0)), static_cast<int64_t>(Z.shape(1))};
    return fit_terms(terms, weight, y, starts, tolerance, enough, offset);
}

// Coefficients for every column of `penalties`, each begun at `start`; see `RidgeLogistic`.
static OutMatrix fit_ridge(ColumnMajor Z, Vector weight, Vector y, Vector least, Vector start, ColumnMajor penalties, int64_t steps,
                           double arrived, double smallest, MaybeVector offset) {
    const size_t n = Z.shape(0), r = Z.shape(1), count = penalties.shape(1);
    require(weight.shape(0) == n && y.shape(0) == n && least.shape(0) == n && (!offset || offset->shape(0) == n), "one value a row");
    require(start.shape(0) == r && penalties.shape(0) == r, "one value a column");
    double* found;
    OutMatrix out = new_columns(r, count, found);
    nb::gil_scoped_release release;
    RidgeLogistic model(Z.data(), static_cast<int64_t>(n), static_cast<int64_t>(r), weight.data(), y.data(), least.data(),
                        offset ? offset->data() : nullptr);
    for (size_t j = 0; j < count; ++j) {
        std::copy(start.data(), start.data() + r, found + j * r);
        if (r > 0) model.fit(penalties.data() + j * r, found + j * r, steps, arrived, smallest);
    }
    return out;
}

// A model whose columns are mostly 0: an intercept and some columns of a matrix, each divided by its scale.
struct SparseModel {
    std::shared_ptr<const SparseTerms> terms;

    template <class Columns>
    SparseModel(const Columns& columns, Which which, Vector scale) {
        check_range(which, columns.m.p);
        require(static_cast<int64_t>(scale.shape(0)) == columns.m.p, "scales");
        const int64_t n = columns.m.n;
        std::vector<int64_t> starts{0, n};
        std::vector<int32_t> rows(n), found(n);
        std::vector<double> values(n, 1.0), entries(n);
        std::iota(rows.begin(), rows.end(), 0);
        for (size_t j = 0; j < which.shape(0); ++j) {
            const int64_t column = which.data()[j], stored = columns.m.support(column, found.data(), entries.data());
            for (int64_t i = 0; i < stored; ++i) {
                rows.push_back(found[i]);
                values.push_back(entries[i] / scale.data()[column]);
            }
            starts.push_back(static_cast<int64_t>(rows.size()));
        }
        terms = std::make_shared<SparseTerms>(n, std::move(starts), std::move(rows), std::move(values));
    }
    explicit SparseModel(std::shared_ptr<const SparseTerms> t) : terms(std::move(t)) {}

    // One more column of a matrix, divided by its scale.
    template <class Columns>
    SparseModel with_column(const Columns& columns, int64_t j, double scale) const {
        require(columns.m.n == terms->n && 0 <= j && j < columns.m.p && scale > 0, "a column of the same rows");
        std::vector<int32_t> rows(terms->n);
        std::vector<double> values(terms->n);
        const int64_t stored = columns.m.support(j, rows.data(), values.data());
        for (int64_t i = 0; i < stored; ++i) values[i] /= scale;
        return SparseModel(std::make_shared<SparseTerms>(terms->with(rows.data(), values.data(), stored)));
    }

    // One of its columns, zeros and all.
    OutVector column(int64_t k) const {
        require(0 <= k && k < terms->r, "a column");
        double* data;
        OutVector out = new_vector(static_cast<size_t>(terms->n), data);
        for (int64_t e = terms->column_start[k]; e < terms->column_start[k + 1]; ++e) data[terms->row_of[e]] = terms->by_column[e];
        return out;
    }

    // Some of its columns on some of its rows.
    SparseModel part(Which rows, Which columns) const {
        check_range(rows, terms->n);
        check_range(columns, terms->r);
        std::vector<int32_t> place(terms->n, -1);
        for (size_t i = 0; i < rows.shape(0); ++i) place[rows.data()[i]] = static_cast<int32_t>(i);
        const std::vector<int64_t> kept(columns.data(), columns.data() + columns.shape(0));
        return SparseModel(std::make_shared<SparseTerms>(terms->part(place, static_cast<int64_t>(rows.shape(0)), kept)));
    }

    FitAnswer fit(Vector weight, Vector y, RowMajor starts, double tolerance, double enough, MaybeVector offset) const {
        return fit_terms(*terms, weight, y, starts, tolerance, enough, offset);
    }

    // What models without each of some columns leave unexplained at least, of the rows that are told and those that the column
    // moves: fits end where that is certain to be more than enough. Each begins at the best of its starts, which are given one
    // after another; what they say of its own column counts for nothing.
    OutVector least_without(Vector weight, Vector y, Flags told, Which places, RowMajor starts, double tolerance, Vector enough,
                            MaybeVector offset) const {
        const size_t n = static_cast<size_t>(terms->n), r = static_cast<size_t>(terms->r), count = places.shape(0);
        require(weight.shape(0) == n && y.shape(0) == n && told.shape(0) == n, "one value a row");
        require(!offset || offset->shape(0) == n, "one offset a row");
        require(enough.shape(0) == count && starts.shape(1) == r && count > 0 && starts.shape(0) % count == 0, "starts of every column");
        check_range(places, terms->r);
        const size_t each = starts.shape(0) / count;
        require(each > 0, "a start");
        double* least;
        OutVector out = new_vector(count, least);
        nb::gil_scoped_release release;
        for (size_t j = 0; j < count; ++j)
            least[j] = least_without(weight.data(), y.data(), offset ? offset->data() : nullptr, told.data(), places.data()[j],
                                     starts.data() + j * each * r, each, tolerance, enough.data()[j]);
        return out;
    }

    double least_without(const double* weight, const double* y, const double* offset, const bool* told, int64_t column,
                         const double* starts, size_t count, double tolerance, double enough) const {
        const int64_t n = terms->n, r = terms->r;
        std::vector<char> there(told, told + n);
        for (int64_t e = terms->column_start[column]; e < terms->column_start[column + 1]; ++e)
            if (terms->by_column[e] != 0.0) there[terms->row_of[e]] = 1;
        std::vector<int32_t> place(n, -1);
        std::vector<double> own_weight, sign, own_offset;
        for (int64_t i = 0; i < n; ++i) {
            if (!there[i]) continue;
            place[i] = static_cast<int32_t>(sign.size());
            own_weight.push_back(weight[i]);
            sign.push_back(y[i] > 0.5 ? 1.0 : -1.0);
            if (offset) own_offset.push_back(offset[i]);
        }
        std::vector<int64_t> others = terms->all();
        others.erase(others.begin() + column);
        std::vector<double> begin;
        for (size_t s = 0; s < count; ++s)
            for (int64_t k : others) begin.push_back(starts[s * r + k]);
        const int64_t rows = static_cast<int64_t>(sign.size());
        const SparseTerms rest = terms->part(place, rows, others);
        Null f;
        f.n = rows, f.r = r - 1, f.sign = sign.data(), f.weight = own_weight.data(), f.offset = offset ? own_offset.data() : nullptr;
        std::vector<double> beta(r), eta(rows);
        return Fitter<SparseTerms>(f, rest, beta.data(), eta.data(), tolerance, enough).run(begin.data(), count).certain;
    }

    // The lower triangle of X'cX.
    OutMatrix gram(Vector c) const {
        require(static_cast<int64_t>(c.shape(0)) == terms->n, "one value a row");
        std::vector<double> H(terms->r * terms->r);
        terms->gram(c.data(), H.data());
        return new_rows(H, terms->r, terms->r);
    }

    OutVector products(Vector v) const {
        require(static_cast<int64_t>(v.shape(0)) == terms->n, "one value a row");
        double* data;
        OutVector out = new_vector(static_cast<size_t>(terms->r), data);
        terms->products(v.data(), data);
        return out;
    }

    // X'cY with some columns of a matrix, as they are.
    template <class Columns>
    OutMatrix crossed(const Columns& columns, Which which, Vector c) const {
        const size_t n = static_cast<size_t>(terms->n), r = static_cast<size_t>(terms->r), count = which.shape(0);
        require(static_cast<size_t>(columns.m.n) == n && c.shape(0) == n, "rows");
        check_range(which, columns.m.p);
        double* data;
        OutMatrix out = new_columns(r, count, data);
        nb::gil_scoped_release release;
        std::fill(data, data + r * count, 0.0);
        std::vector<int32_t> rows(n);
        std::vector<double> values(n);
        for (size_t j = 0; j < count; ++j) {
            if (j % kColumnsALook == 0) look_up();
            const int64_t stored = columns.m.support(which.data()[j], rows.data(), values.data());
            for (int64_t i = 0; i < stored; ++i) {
                const double t = c.data()[rows[i]] * values[i];
                for (int64_t e = terms->row_start[rows[i]]; e < terms->row_start[rows[i] + 1]; ++e)
                    data[j * r + static_cast<size_t>(terms->column_of[e])] += t * terms->by_row[e];
            }
        }
        return out;
    }

    // X times the columns of coefficients.
    OutMatrix moved(ColumnMajor coefficients) const {
        require(static_cast<int64_t>(coefficients.shape(0)) == terms->r, "one coefficient a column");
        const size_t n = static_cast<size_t>(terms->n), count = coefficients.shape(1);
        double* data;
        OutMatrix out = new_columns(n, count, data);
        nb::gil_scoped_release release;
        std::fill(data, data + n * count, 0.0);
        for (size_t j = 0; j < count; ++j) terms->add(coefficients.data() + j * terms->r, data + j * n);
        return out;
    }
};

// The least deviance of models without the columns first..last of X, for several such ranges; see `Patterns`.
static OutVector pattern_deviances(RowMajor X, Vector y, Vector weight, Which first, Which last) {
    const size_t n = X.shape(0), count = first.shape(0);
    require(y.shape(0) == n && weight.shape(0) == n && last.shape(0) == count, "sizes");
    const int64_t k = static_cast<int64_t>(X.shape(1));
    check_range(first, k + 1);
    check_range(last, k + 1);
    double* out;
    OutVector found = new_vector(count, out);
    nb::gil_scoped_release release;
    Patterns patterns(X.data(), static_cast<int64_t>(n), k, y.data(), weight.data());
    for (size_t j = 0; j < count; ++j) {
        look_up();
        out[j] = patterns.deviance_without(first.data()[j], last.data()[j]);
    }
    return found;
}

// What each row has left to explain.
static OutVector row_deviances(Vector weight, Vector y, Vector eta) {
    require(y.shape(0) == weight.shape(0) && eta.shape(0) == weight.shape(0), "sizes");
    double* out;
    OutVector found = new_vector(weight.shape(0), out);
    nb::gil_scoped_release release;
    row_deviances(static_cast<int64_t>(weight.shape(0)), weight.data(), y.data(), eta.data(), out);
    return found;
}

// Deviances of linear predictors less steps, one a column.
static OutVector deviances_after(Vector weight, Vector y, Vector eta, ColumnMajor steps) {
    const size_t n = weight.shape(0), count = steps.shape(1);
    require(y.shape(0) == n && eta.shape(0) == n && steps.shape(0) == n, "sizes");
    double* out;
    OutVector found = new_vector(count, out);
    nb::gil_scoped_release release;
    for (size_t j = 0; j < count; ++j)
        out[j] = deviance_after(static_cast<int64_t>(n), weight.data(), y.data(), eta.data(), steps.data() + j * n);
    return found;
}

// Concordant and comparable pairs for every row of `weights`, weightings × rows; see `Concordance`.
static std::tuple<OutVector, OutVector> concordant_pairs(Vector time, Flags event, Vector risk, RowMajor weights) {
    constexpr int64_t L = Concordance::kTogether;
    const int64_t n = static_cast<int64_t>(time.shape(0)), count = static_cast<int64_t>(weights.shape(0));
    require(event.shape(0) == time.shape(0) && risk.shape(0) == time.shape(0) && weights.shape(1) == time.shape(0), "sizes");
    double *won, *all;
    OutVector w = new_vector(count, won), a = new_vector(count, all);
    nb::gil_scoped_release release;
    Concordance pairs(time.data(), event.data(), risk.data(), n);
    std::vector<double> some(n * L);
    double won_by[L], all_by[L];
    for (int64_t first = 0; first < count; first += L) {
        look_up();
        const int64_t m = std::min(L, count - first);
        for (int64_t l = 0; l < L; ++l)
            for (int64_t i = 0; i < n; ++i) some[i * L + l] = l < m ? weights.data()[(first + l) * n + i] : 0.0;
        pairs.count(some.data(), won_by, all_by);
        std::copy(won_by, won_by + m, won + first);
        std::copy(all_by, all_by + m, all + first);
    }
    return {w, a};
}

// See `basis_without`.
static OutMatrix rotated_without(RowMajor R, int64_t first, int64_t last) {
    const int64_t r = static_cast<int64_t>(R.shape(0));
    require(R.shape(1) == R.shape(0), "a triangle");
    require(0 <= first && first <= last && last <= r, "column range");
    return new_rows(basis_without(R.data(), r, first, last), r, r);
}

// A generalised linear model at given coefficients, on some rows: half the deviance, gradient and (lower triangle of the) information;
// mean, information and residual of every row are written where the caller keeps them.
static std::tuple<double, OutVector, OutMatrix> model_rows(bool counts, ColumnMajor Z, Vector coefficients, Vector offset, Vector y,
                                                           Vector weight, Vector least, InOut mean, InOut information,
                                                           InOut residual) {
    const size_t n = Z.shape(0), k = Z.shape(1);
    require(coefficients.shape(0) == k && offset.shape(0) == n && y.shape(0) == n && weight.shape(0) == n, "sizes");
    require(least.shape(0) == n, "sizes");
    require(mean.shape(0) == n && information.shape(0) == n && residual.shape(0) == n, "sizes");
    double *gradient, *hessian, loss;
    OutVector g = new_vector(k, gradient);
    OutMatrix H = new_columns(k, k, hessian);
    {
        nb::gil_scoped_release release;
        const int64_t rows = static_cast<int64_t>(n), size = static_cast<int64_t>(k);
        std::vector<double> eta(offset.data(), offset.data() + n);
        add_columns(Z.data(), rows, size, coefficients.data(), eta.data());
        auto* work = counts ? poisson_state : logistic_state;
        loss = work(rows, eta.data(), y.data(), weight.data(), least.data(), mean.data(), information.data(), residual.data());
        products(Z.data(), rows, size, residual.data(), gradient);
        gram(Z.data(), rows, size, nullptr, information.data(), hessian);
    }
    return {loss, g, H};
}

// Second, third and fourth moment, least and largest z of the steps that are the columns of U; a column each.
// Σ c·x² of columns X, and the largest |x_i| + l_i|p|, p the projections of a column on a basis with row norms l.
static std::tuple<OutVector, OutVector> squares_and_reach(ColumnMajor X, RowMajor projections, Vector curvature, Vector length) {
    const size_t n = X.shape(0), count = X.shape(1);
    require(curvature.shape(0) == n && length.shape(0) == n && projections.shape(0) == count, "sizes");
    double *own, *reach;
    OutVector o = new_vector(count, own), r = new_vector(count, reach);
    nb::gil_scoped_release release;
    const size_t rank = projections.shape(1);
    for (size_t j = 0; j < count; ++j) {
        look_up();
        const double* p = projections.data() + j * rank;
        own[j] = sum_of_squares(X.data() + j * n, n, curvature.data(), length.data(), std::sqrt(std::inner_product(p, p + rank, p, 0.0)), reach[j]);
    }
    return {o, r};
}

static OutMatrix step_moments(bool counts, Vector mean, Vector weight, ColumnMajor U) {
    const size_t n = U.shape(0), count = U.shape(1);
    require(mean.shape(0) == n && weight.shape(0) == n, "sizes");
    double* out;
    OutMatrix found = new_columns(5, count, out);
    nb::gil_scoped_release release;
    for (size_t j = 0; j < count; ++j) {
        auto* work = counts ? poisson_step : logistic_step;
        const StepMoments s = work(static_cast<int64_t>(n), mean.data(), weight.data(), U.data() + j * n);
        double* column = out + 5 * j;
        column[0] = s.second, column[1] = s.third, column[2] = s.fourth, column[3] = s.low, column[4] = s.high;
    }
    return found;
}

// Lower and upper ends of likelihood ratios, and 1 for those of whom too little is left to tell; a column each. What
// rounding did is one number for all candidates or one for each; `fit` is what the fit is short of, its drift and deviance.
static OutMatrix score_intervals(Vector score, Vector by_score, Vector left, Vector by_left, Vector own, Vector reach,
                                 double stretch, std::tuple<double, double, double> fit, double delicate) {
    const size_t count = score.shape(0), each_score = by_score.shape(0) > 1, each_left = by_left.shape(0) > 1;
    require(left.shape(0) == count && own.shape(0) == count && reach.shape(0) == count, "sizes");
    require(by_score.shape(0) == (each_score ? count : 1) && by_left.shape(0) == (each_left ? count : 1), "sizes");
    const FitIsShort shape{std::get<0>(fit), std::get<1>(fit), std::get<2>(fit)};
    double* out;
    OutMatrix found = new_columns(count, 3, out);
    nb::gil_scoped_release release;
    for (size_t i = 0; i < count; ++i) {
        const Candidate one{score.data()[i], by_score.data()[each_score * i], left.data()[i],
                            by_left.data()[each_left * i], own.data()[i], reach.data()[i]};
        const bool unclear = one.delicate(delicate);
        const LikelihoodRatio interval = unclear ? anything(shape) : one.interval(stretch, shape);
        out[i] = interval.lower, out[count + i] = interval.upper, out[2 * count + i] = unclear;
    }
    return found;
}

using namespace nb::literals;

// Whether to go on: Python knows about Ctrl-C, and `fbed.clock` about time limits. What they raise ends the kernel.
static void ask_python() {
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    nb::module_::import_("fbed.clock").attr("check_time")();
}


using namespace nb::literals;

// Classes, also beside columns that are mostly 0.
template <class C>
static void bind_class_models(nb::module_& m, const char* name) {
    bind_classes<C>(m, name).def(
        "__init__", [](C* self, const SparseModel& model, Which classes, int64_t n_classes, Vector a, Vector start, double deviance) {
            new (self) C(*model.terms, classes, n_classes, a, start, deviance);
        });
}

NB_MODULE(_kernels, m) {
    whom_to_ask() = ask_python;
    m.doc() = "Plain loops over columns; the statistics are in Python.";
    m.def("ask_every", [](int64_t milliseconds) { patience() = milliseconds; });
    m.def("number_objects", &number_objects);
    bind_matrices(m);
    nb::class_<PackedColumns>(m, "PackedColumns")
        .def(nb::init<Bytes, int64_t>())
        .def("stats", &PackedColumns::stats)
        .def("gather", &PackedColumns::gather)
        .def("gather_rows", &PackedColumns::gather_rows)
        .def("products", &PackedColumns::products)
        .def("digit_sums", &PackedColumns::digit_sums)
        .def("rows", &PackedColumns::rows);
    nb::class_<SparseModel>(m, "SparseModel")
        .def(nb::init<const SparseColumns&, Which, Vector>())
        .def(nb::init<const DenseColumns&, Which, Vector>())
        .def("squares",
             [](const SparseModel& s, RowMajor metric) {
                 const size_t r = static_cast<size_t>(s.terms->r);
                 require(metric.shape(0) == r && metric.shape(1) == r, "sizes");
                 double* data;
                 OutVector out = new_vector(static_cast<size_t>(s.terms->n), data);
                 nb::gil_scoped_release release;
                 s.terms->squares(metric.data(), data);
                 return out;
             })
        .def("taken_at_risk",
             [](const SparseModel& s, Vector event, Which closes, Flags starts, Vector hazard, Vector triangle) {
                 return taken_by_entries(*s.terms, event, closes, starts, hazard, triangle);
             })
        .def_prop_ro("pairs", [](const SparseModel& s) { return s.terms->pairs(); })
        .def_prop_ro("size", [](const SparseModel& s) { return s.terms->r; })
        .def("with_column", &SparseModel::with_column<SparseColumns>)
        .def("with_column", &SparseModel::with_column<DenseColumns>)
        .def("column", &SparseModel::column)
        .def("part", &SparseModel::part)
        .def("fit", &SparseModel::fit, "weight"_a, "y"_a, "starts"_a, "tolerance"_a, "enough"_a, "offset"_a = nb::none())
        .def("crossed", &SparseModel::crossed<SparseColumns>)
        .def("least_without", nb::overload_cast<Vector, Vector, Flags, Which, RowMajor, double, Vector, MaybeVector>(&SparseModel::least_without, nb::const_),
             "weight"_a, "y"_a, "told"_a, "places"_a, "starts"_a, "tolerance"_a, "enough"_a, "offset"_a = nb::none())
        .def("gram", &SparseModel::gram)
        .def("products", &SparseModel::products)
        .def("moved", &SparseModel::moved);
    nb::class_<LogisticNull>(m, "LogisticNull")
        .def_static("of_sparse_fit", [](const SparseModel& s, Vector weight, Vector y, Vector eta, Vector coefficients, double deviance, MaybeVector offset) {
            return LogisticNull::of_fit(Model(s.terms, weight, y, eta, offset), coefficients, deviance);
        }, "columns"_a, "weight"_a, "y"_a, "eta"_a, "coefficients"_a, "deviance"_a, "offset"_a = nb::none())
        .def_static("of_sparse_rows", [](const SparseModel& s, Vector weight, Vector y, Vector eta, Vector active, double deviance,
                                         double idle_cost, MaybeVector offset) {
            return LogisticNull::of_rows(Model(s.terms, weight, y, eta, offset), active, deviance, idle_cost);
        }, "columns"_a, "weight"_a, "y"_a, "eta"_a, "active"_a, "deviance"_a, "idle_cost"_a, "offset"_a = nb::none())
        .def_static("of_fit", nb::overload_cast<ColumnMajor, Vector, Vector, Vector, Vector, double, MaybeVector, double>(&LogisticNull::of_fit), "Z"_a, "weight"_a, "y"_a, "eta"_a, "coefficients"_a, "deviance"_a,
                    "offset"_a = nb::none(), "rounding"_a = 1.0)
        .def_static("of_rows", nb::overload_cast<ColumnMajor, Vector, Vector, Vector, Vector, double, double, MaybeVector, double>(&LogisticNull::of_rows), "Z"_a, "weight"_a, "y"_a, "eta"_a, "active"_a, "deviance"_a,
                    "idle_cost"_a, "offset"_a = nb::none(), "rounding"_a = 1.0)
        .def_prop_ro("deviance", [](const LogisticNull& s) { return s.f.deviance; })
        .def_prop_ro("idle_cost", [](const LogisticNull& s) { return s.f.idle_deviance; })
        .def_prop_ro("elsewhere", &LogisticNull::elsewhere)
        .def_prop_ro("reach", [](const LogisticNull& s) { return s.f.kappa; })
        .def_prop_ro("short", [](const LogisticNull& s) { return std::sqrt(s.f.inexact); })
        .def_prop_ro("rows", &LogisticNull::rows, nb::rv_policy::automatic)
        .def_prop_ro("G", &LogisticNull::spanned, nb::rv_policy::automatic)
        .def_prop_ro("whitener", &LogisticNull::whitener, nb::rv_policy::automatic)
        .def_prop_ro("free", &LogisticNull::free, nb::rv_policy::automatic)
        .def_prop_ro("curvature", &LogisticNull::curvature, nb::rv_policy::automatic)
        .def_prop_ro("score", &LogisticNull::score, nb::rv_policy::automatic)
        .def("brackets", &LogisticNull::brackets<SparseColumns>)
        .def("brackets", &LogisticNull::brackets<DenseColumns>)
        .def_prop_ro("counts", [](const LogisticNull& s) { return std::vector<int64_t>(s.counts.begin(), s.counts.end()); })
        .def("look", &LogisticNull::look)
        .def("dense", &LogisticNull::dense)
        .def("first", &LogisticNull::first)
        .def("losses", &LogisticNull::losses)
        .def("contest", &LogisticNull::contest<SparseColumns>)
        .def("contest", &LogisticNull::contest<DenseColumns>);
    bind_class_models<SoftmaxClasses>(m, "SoftmaxClasses");
    bind_class_models<OrderedClasses>(m, "OrderedClasses");
    m.def("model_rows", &model_rows);
    m.def("step_moments", &step_moments);
    m.def("to_columns", &to_columns<uint8_t>);
    m.def("to_columns", &to_columns<uint16_t>);
    m.def("to_columns", &to_columns<uint32_t>);
    m.def("to_columns", &to_columns<uint64_t>);
    nb::class_<RareColumns>(m, "RareColumns")
        .def(nb::init<bool, const DenseColumns&, Which, Vector, Vector, Vector, int64_t>())
        .def(nb::init<bool, const SparseColumns&, Which, Vector, Vector, Vector, int64_t>())
        .def(nb::init<bool, const DenseColumns&, Which, Vector, Vector, Vector, int64_t, Which, Vector, Flags, Vector>())
        .def(nb::init<bool, const SparseColumns&, Which, Vector, Vector, Vector, int64_t, Which, Vector, Flags, Vector>())
        .def("add", &RareColumns::add)
        .def("add_sparse", [](RareColumns& s, const SparseModel& model, Vector shift, Which idle) { s.add_sparse(*model.terms, shift, idle); })
        .def("lost", &RareColumns::lost)
        .def("enclosed", &RareColumns::enclosed);
    nb::class_<RareAtRisk>(m, "RareAtRisk")
        .def(nb::init<Vector, Which, Flags, Vector, Vector, Vector, Vector, Vector>())
        .def("along", &RareAtRisk::along<DenseColumns>)
        .def("along", &RareAtRisk::along<SparseColumns>);
    m.def("squares_and_reach", &squares_and_reach);
    m.def("score_intervals", &score_intervals);
    m.def("score_interval", [](double score, double furthest, std::tuple<double, double, double> fit) {
        const FitIsShort shape{std::get<0>(fit), std::get<1>(fit), std::get<2>(fit)};
        const LikelihoodRatio found = score_interval(score, score, furthest, shape);
        return std::make_tuple(found.lower, found.upper);
    });
    bind_at_risk(m);
    bind_cox_models(m);
    bind_cox_brackets(m);
    m.def("fit_logistic", &fit_logistic, "Z"_a, "weight"_a, "y"_a, "starts"_a, "tolerance"_a, "enough"_a,
          "offset"_a = nb::none());
    m.def("fit_ridge", &fit_ridge, "Z"_a, "weight"_a, "y"_a, "least"_a, "start"_a, "penalties"_a, "steps"_a, "arrived"_a, "smallest"_a,
          "offset"_a = nb::none());
    m.def("columns_pull_apart", &columns_pull_apart);
    m.def("wald_intervals", &wald_intervals, "Q"_a, "weight"_a, "y"_a, "eta"_a, "counts"_a, "x"_a, "line"_a, "width"_a,
          "offset"_a = nb::none());
    m.def("basis_without", &rotated_without);
    m.def("group_gains", &group_gains);
    nb::class_<CountedRows>(m, "CountedRows").def(nb::init<RowMajor, Vector, Vector, Vector, Flags>()).def("enclose", &CountedRows::enclose);
    m.def("pattern_deviances", &pattern_deviances);
    m.def("row_deviances", [](Vector weight, Vector y, Vector eta) { return row_deviances(weight, y, eta); });
    m.def("least_rows", [](Vector left, double spared) {
        const std::vector<int64_t> rows = least_rows(left.data(), static_cast<int64_t>(left.shape(0)), spared);
        int64_t* data;
        OutRows out = new_numbers(rows.size(), data);
        std::copy(rows.begin(), rows.end(), data);
        return out;
    });
    m.def("deviances_after", &deviances_after);
    m.def("concordant_pairs", &concordant_pairs);
    bind_coded_models(m);
    bind_tall_classes(m);
    m.def("bound_functions", [](double z) { return std::make_tuple(P(z), P4(z), E4(z)); });
    m.def("elementary_functions", [](double x, double e) { return std::make_tuple(exp_of_negative(x), log1p_of_unit(e)); });
    m.def("log_of_positive", &log_of_positive);
}
