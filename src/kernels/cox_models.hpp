// Python's view of fits of partial likelihoods.
#pragma once

#include "arrays.hpp"
#include "cox_fit.hpp"

namespace fbed {

struct CoxFits {
    Which order, deaths, starts, outlived, first, after, term_group;
    Vector weights, log_weights, left, multiplicity, event_weights;
    CoxOrder rows;
    ClimbRules rules;

    CoxFits(std::vector<Which> places, std::vector<Vector> values, double saturated, double own_logs, std::vector<double> limits,
            int64_t iterations)
        : order(places.at(0)), deaths(places.at(1)), starts(places.at(2)), outlived(places.at(3)), first(places.at(4)),
          after(places.at(5)), term_group(places.at(6)), weights(values.at(0)), log_weights(values.at(1)), left(values.at(2)),
          multiplicity(values.at(3)), event_weights(values.at(4)) {
        const auto size = [](const auto& a) { return static_cast<int64_t>(a.shape(0)); };
        const int64_t n = size(order), groups = size(starts), terms = size(term_group), dying = size(deaths);
        require(size(outlived) == n && size(weights) == n && size(log_weights) == n && size(event_weights) == n, "one value a row");
        require(groups > 0 && dying >= groups && size(first) == groups && size(after) == groups, "one value a tied set");
        require(size(left) == terms && size(multiplicity) == terms && terms >= groups, "one value a term");
        const auto within = [&](const Which& a, int64_t low, int64_t high) {
            for (int64_t i = 0; i < size(a); ++i) require(a(i) >= low && a(i) < high, "position out of range");
        };
        within(order, 0, n), within(deaths, 0, n), within(starts, 0, dying), within(outlived, 0, groups + 1), within(first, 0, n);
        within(after, -1, n), within(term_group, 0, groups);
        require(limits.size() == 10, "limits");
        rows = {n, dying, groups, terms, order.data(), deaths.data(), starts.data(), outlived.data(), first.data(), after.data(),
                term_group.data(), weights.data(), log_weights.data(), left.data(), multiplicity.data(), event_weights.data(),
                saturated, own_logs};
        rules = {limits[0], limits[1], limits[2], limits[3], limits[4], limits[5], limits[6], limits[7], limits[8], limits[9], iterations};
    }

    // Coefficients (a column a model), deviances, and who has arrived, from `start`; every model has a column of `own`, if there are any.
    std::tuple<OutMatrix, OutVector, OutFlags> climb(ColumnMajor Z, std::optional<ColumnMajor> own, ColumnMajor start) const {
        const int64_t n = rows.n, shared = static_cast<int64_t>(Z.shape(1)), k = shared + own.has_value();
        const size_t count = start.shape(1);
        require(static_cast<int64_t>(Z.shape(0)) == n && static_cast<int64_t>(start.shape(0)) == k && k > 0, "sizes");
        require(!own || (static_cast<int64_t>(own->shape(0)) == n && own->shape(1) == count), "a column a model");
        double *found, *deviance;
        bool* arrived;
        OutMatrix parameters = new_columns(static_cast<size_t>(k), count, found);
        OutVector deviances = new_vector(count, deviance);
        OutFlags finished = new_flags(count, arrived);
        nb::gil_scoped_release release;
        std::copy(start.data(), start.data() + k * count, found);
        CoxClimb one(rows, rules, k);
        const auto sorted = [&](const double* from, double* to) {
            for (int64_t i = 0; i < n; ++i) to[i] = from[rows.order[i]];
        };
        for (int64_t j = 0; j < shared; ++j) sorted(Z.data() + j * n, one.column(j));
        for (size_t m = 0; m < count; ++m) {
            if (own) sorted(own->data() + m * n, one.column(shared));
            arrived[m] = one.climb(found + m * k, deviance[m]);
        }
        return {parameters, deviances, finished};
    }
};

inline void bind_cox_models(nb::module_& m) {
    nb::class_<CoxFits>(m, "CoxFits")
        .def(nb::init<std::vector<Which>, std::vector<Vector>, double, double, std::vector<double>, int64_t>())
        .def("climb", &CoxFits::climb, nb::arg("Z"), nb::arg("own").none(), nb::arg("start"));
}

}  // namespace fbed
