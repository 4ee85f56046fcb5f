// Models of classes as Python sees them: a fit on S, from which candidates are raced.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "arrays.hpp"
#include "class_looks.hpp"
#include "matrices.hpp"
#include "ordered.hpp"
#include "ordered_support.hpp"
#include "race.hpp"
#include "softmax.hpp"
#include "softmax_support.hpp"
#include "vanishing.hpp"

namespace fbed {

// Who is ahead in a race, and what others have to reach to be the best. Of those who tie, the first place wins: whoever comes after
// the leader and does not exceed him is out, which is all of them once the leader explains everything.
struct Leader {
    double statistic;
    int64_t place;

    static constexpr double kTie = 2e-9;

    double bar(int64_t other) const {
        return other > place ? std::nextafter(statistic, kInfinite) : statistic - kTie * std::max(1.0, statistic);
    }
    void meet(double lower, int64_t other) {
        if (lower > statistic || (lower == statistic && other < place)) statistic = lower, place = other;
    }
};

// `Rows` is what all models share, `Model` a likelihood as described in race.hpp; `Fitted` and `Support` are for looks at columns
// that are mostly 0.
template <class Rows, class Model, class Fitted, class Support>
class Classes {
    int64_t n;
    Which codes;
    Vector weights, parameters;
    double deviance;
    Rows rows;
    std::optional<ColumnMajor> columns;  // which the rows may point to
    mutable std::once_flag prepared;
    mutable std::unique_ptr<LookedFrom<Fitted>> looks;

public:
    // `parameters` are those of the fit on S in the order of the model's, or where to look for it.
    Classes(ColumnMajor z, Which classes, int64_t n_classes, Vector a, Vector start, double of_fit)
        : n(static_cast<int64_t>(z.shape(0))), codes(classes), weights(a), parameters(start), deviance(of_fit),
          rows((check(n, static_cast<int64_t>(z.shape(1)), classes, n_classes, a), z.data()), n, static_cast<int64_t>(z.shape(1)),
               classes.data(), n_classes, a.data()), columns(z) {
        check_parameters();
    }

    // The same with columns that are mostly 0.
    Classes(const SparseTerms& terms, Which classes, int64_t n_classes, Vector a, Vector start, double of_fit)
        : n(terms.n), codes(classes), weights(a), parameters(start), deviance(of_fit),
          rows((check(n, terms.r, classes, n_classes, a), terms), classes.data(), n_classes, a.data()) {
        check_parameters();
    }

    // Parameters and deviance of the fit on S, a deviance that it is certain to have at least, and whether it was found: it
    // is not looked for any further once it is certain to be no less than `enough`.
    std::tuple<OutVector, double, double, bool> fit(double enough) const {
        const bool exactly = !std::isfinite(enough);
        std::vector<double> found;
        Enclosed value;
        {
            nb::gil_scoped_release release;
            const VanishingIsZero flush;
            Model model(rows, parameters.data(), 0.0, 0);
            value = Racer<Model>(model).run({exactly ? 0.0 : -enough, -kInfinite, exactly}, found, true);
        }
        double* out;
        OutVector copy = new_vector(found.size(), out);
        std::copy(found.begin(), found.end(), out);
        return {copy, 0.0 - value.lower, 0.0 - value.upper, value.known()};
    }

    // Likelihood ratios of models with `width` more columns each, enclosed until it is clear whether they exceed their
    // line; in a race (`best` is finite) also until those who do are known or can be best no more, which somebody in the place
    // `leader` with a statistic of at least `best` is so far. Candidates have `places`, of which the first wins among equals.
    // Models begin at `starts` where `warm`, otherwise at the fit on S; where they ended is the third answer.
    std::tuple<OutVector, OutVector, OutMatrix> race(ColumnMajor own, int64_t width, RowMajor starts, Flags warm, Vector line,
                                                     Which places, int64_t leader, double best, bool exactly) const {
        const int64_t count = static_cast<int64_t>(line.shape(0));
        require(width > 0 && static_cast<int64_t>(own.shape(0)) == n, "columns of as many rows");
        require(static_cast<int64_t>(own.shape(1)) == count * width && static_cast<int64_t>(warm.shape(0)) == count, "sizes");
        require(static_cast<int64_t>(places.shape(0)) == count, "one place a candidate");
        const bool racing = std::isfinite(best);
        Leader ahead{best, leader};
        double *lower, *upper;
        OutVector low = new_vector(count, lower), high = new_vector(count, upper);
        std::vector<double> ends;
        int64_t size = 0;
        {
            nb::gil_scoped_release release;
            const VanishingIsZero flush;
            Model model(rows, parameters.data(), deviance, width);
            size = model.size();
            require(static_cast<int64_t>(starts.shape(0)) == count && static_cast<int64_t>(starts.shape(1)) == size, "starts");
            ends.resize(count * size);
            Racer<Model> racer(model);
            std::vector<double> present(size);
            for (int64_t j = 0; j < count; ++j) {
                const double bar = racing ? ahead.bar(places(j)) : best;
                Enclosed found{-kInfinite, deviance};
                std::copy_n(starts.data() + j * size, size, present.begin());
                if (!racing || deviance >= bar) {
                    model.take(own.data() + j * width * n);
                    found = racer.run({line.data()[j], bar, exactly}, present, !warm.data()[j]);
                }
                lower[j] = found.lower, upper[j] = found.upper;
                if (racing) ahead.meet(found.lower, places(j));
                std::copy(present.begin(), present.end(), ends.begin() + j * size);
            }
        }
        return {low, high, new_rows(ends, count, size)};
    }

    // Likelihood ratios of columns `which` of a matrix that are mostly 0, from the rows that they move: within the intervals that are
    // known, which are left as they are where nothing else can be said. They are narrowed until they are clear of their line or
    // below `best`, which somebody's statistic is at least; those that raise it come first. Nothing is said of a column
    // that may be in the span of S. In a race, also about where each model ends: steps of the parameters of S, then
    // coefficients of the column as it is; not a number where nobody knows.
    template <class Columns>
    std::tuple<OutVector, OutVector, OutMatrix> look(const Columns& X, Which which, Vector line, double best, Vector least, Vector most) const {
        check_range(which, X.m.p);
        const int64_t count = static_cast<int64_t>(which.shape(0));
        require(X.m.n == n && static_cast<int64_t>(line.shape(0)) == count, "sizes");
        require(static_cast<int64_t>(least.shape(0)) == count && static_cast<int64_t>(most.shape(0)) == count, "sizes");
        double *lower, *upper;
        OutVector low = new_vector(count, lower), high = new_vector(count, upper);
        const bool racing = std::isfinite(best);
        std::vector<double> ends;
        int64_t size = 0;
        {
            nb::gil_scoped_release release;
            const VanishingIsZero flush;
            prepare_looks();
            size = looks->fit.size() + looks->fit.coefficients_of_column();
            if (racing) ends.resize(count * size, std::numeric_limits<double>::quiet_NaN());
            look_at(X, which, line, best, least, most, lower, upper, ends, size);
        }
        return {low, high, new_rows(ends, racing ? count : 0, size)};
    }

    // What it costs to take columns of S out, each enclosed from its rows; 0 to infinity where they do not tell.
    std::tuple<OutVector, OutVector> leave(Which which) const {
        double *lower, *upper;
        OutVector low = new_vector(which.shape(0), lower), high = new_vector(which.shape(0), upper);
        nb::gil_scoped_release release;
        const VanishingIsZero flush;
        prepare_looks();
        ClassLooks<Fitted, Support> looker(*looks);
        const RowEntries& entries = looks->fit.entries();
        std::vector<int32_t> at(n);
        std::vector<double> x(n);
        for (size_t j = 0; j < which.shape(0); ++j) {
            look_up();
            const int64_t column = which.data()[j];
            require(0 < column && column < entries.k, "a column of S after the constant");
            const int64_t size = weighted(at, x, entries.column_entries(column, at, x));
            const Enclosed cost = looks->usable ? looker.leave(column, at, x, size) : Enclosed{0.0, kInfinite};
            lower[j] = cost.lower, upper[j] = cost.upper;
        }
        return {low, high};
    }

private:
    template <class Columns>
    void look_at(const Columns& X, const Which& which, const Vector& line, double best, const Vector& least, const Vector& most, double* lower,
                 double* upper, std::vector<double>& ends, int64_t size) const {
        ClassLooks<Fitted, Support> looker(*looks);
        std::vector<int32_t> at(n);
        std::vector<double> x(n);
        const bool racing = std::isfinite(best);
        const int64_t count = static_cast<int64_t>(which.shape(0));
        for (int64_t j = 0; j < count; ++j) {
            look_up();
            Enclosed found{least.data()[j], most.data()[j]};
            looker.forget();
            if (looks->usable && !(racing && found.upper < best)) {
                const int64_t entries = weighted(at, x, X.m.support(which.data()[j], at.data(), x.data()));
                if (looks->apart(at, x, entries)) {
                    found = looker.look(at, x, entries, line.data()[j], best, found);
                    found.upper = std::min(found.upper, deviance);
                }
            }
            lower[j] = std::min(found.lower, found.upper), upper[j] = found.upper;
            if (racing) best = std::max(best, lower[j]);
            if (racing && looker.stepped()) looker.end(ends.data() + j * size);
        }
    }

    // Those of some rows that have a weight.
    int64_t weighted(std::vector<int32_t>& at, std::vector<double>& x, int64_t count) const {
        int64_t kept = 0;
        for (int64_t q = 0; q < count; ++q)
            if (weights.data()[at[q]] > 0) at[kept] = at[q], x[kept++] = x[q];
        return kept;
    }

    void prepare_looks() const {
        std::call_once(prepared, [&] { looks = std::make_unique<LookedFrom<Fitted>>(rows, parameters.data(), deviance); });
    }

    static void check(int64_t n, int64_t k, const Which& classes, int64_t n_classes, const Vector& a) {
        const size_t size = static_cast<size_t>(n);
        require(classes.shape(0) == size && a.shape(0) == size && k > 0 && n_classes > 1, "sizes");
        for (size_t i = 0; i < size; ++i) require(classes(i) >= 0 && classes(i) < n_classes, "class out of range");
    }

    void check_parameters() const {
        Model model(rows, parameters.data(), 0.0, 0);
        require(model.size() == static_cast<int64_t>(parameters.shape(0)), "one parameter a column and class");
    }
};

using SoftmaxClasses = Classes<SoftmaxRows, Softmax, SoftmaxFitted, SoftmaxSupport>;
using OrderedClasses = Classes<OrderedRows, Ordered, OrderedFitted, OrderedSupport>;

template <class C>
nb::class_<C> bind_classes(nb::module_& m, const char* name) {
    return nb::class_<C>(m, name)
        .def(nb::init<ColumnMajor, Which, int64_t, Vector, Vector, double>())
        .def("fit", &C::fit)
        .def("race", &C::race)
        .def("leave", &C::leave)
        .def("look", &C::template look<DenseColumns>)
        .def("look", &C::template look<SparseColumns>);
}

}  // namespace fbed
