// Logistic and Poisson models in codes of levels as Python sees them: sums by level, and what rows tell at given predictors.
#pragma once

#include "arrays.hpp"
#include "levels.hpp"

namespace fbed {

// Runs a loop over codes in the type in which they are stored, after a look at whether every row has one of the levels.
template <class Loop>
inline void with_codes(const Anything& codes, size_t n, int64_t levels, Loop&& loop) {
    require(codes.ndim() == 1 && codes.shape(0) == n && (n <= 1 || codes.stride(0) == 1), "one code a row");
    const auto run = [&](auto* data) {
        require(are_levels(data, static_cast<int64_t>(n), levels), "codes");
        loop(data);
    };
    switch (kind_of(codes.dtype())) {
        case Kind::i8: return run(static_cast<const int8_t*>(codes.data()));
        case Kind::i16: return run(static_cast<const int16_t*>(codes.data()));
        case Kind::i32: return run(static_cast<const int32_t*>(codes.data()));
        case Kind::i64: return run(static_cast<const int64_t*>(codes.data()));
        default: throw std::invalid_argument("codes are signed integers");
    }
}

// Sums of weighted columns over the rows of each level, levels × columns.
inline OutMatrix sums_by_level(Anything codes, int64_t levels, Vector weight, ColumnMajor Z) {
    const size_t n = Z.shape(0), k = Z.shape(1);
    require(weight.shape(0) == n && levels >= 0, "sizes");
    std::vector<double> out(levels * k);
    {
        nb::gil_scoped_release release;
        with_codes(codes, n, levels, [&](auto* c) { level_sums(c, n, weight.data(), Z.data(), k, levels, out.data()); });
    }
    return new_rows(out, levels, static_cast<int64_t>(k));
}

// Adds the step of every row's level to columns.
inline void add_by_level(Anything codes, RowMajor steps, InOutColumns out) {
    const size_t n = out.shape(0);
    const int64_t levels = static_cast<int64_t>(steps.shape(0)), columns = static_cast<int64_t>(steps.shape(1));
    require(static_cast<int64_t>(out.shape(1)) == columns, "sizes");
    nb::gil_scoped_release release;
    with_codes(codes, n, levels, [&](auto* c) { add_level_steps(c, static_cast<int64_t>(n), steps.data(), levels, columns, out.data()); });
}

// Sums of weights over the rows of every pair of levels.
inline OutMatrix sums_by_pair(Anything codes, int64_t levels, Anything others, int64_t n_others, Vector weight) {
    const size_t n = weight.shape(0);
    require(levels >= 0 && n_others >= 0, "sizes");
    std::vector<double> out(levels * n_others);
    {
        nb::gil_scoped_release release;
        with_codes(codes, n, levels, [&](auto* a) {
            with_codes(others, n, n_others, [&](auto* b) { pair_sums(a, b, n_others, n, weight.data(), out.data()); });
        });
    }
    return new_rows(out, levels, n_others);
}

// Products of standardised columns (r − center)/scale from those of plain ones, the first of which is a constant: rows and columns
// of `raw` at some places. (Σrs − c_s·Σr − c_r(Σs − c_s·Σ1))/(scale_r·scale_s).
inline OutMatrix standardised_products(RowMajor raw, Which rows, Vector row_center, Vector row_scale, Which columns, Vector center, Vector scale) {
    const size_t n = rows.shape(0), count = columns.shape(0), width = raw.shape(1);
    require(row_center.shape(0) == n && row_scale.shape(0) == n && center.shape(0) == count && scale.shape(0) == count, "sizes");
    require(raw.shape(0) > 0 && width > 0, "sizes");
    check_range(rows, static_cast<int64_t>(raw.shape(0)));
    check_range(columns, static_cast<int64_t>(width));
    double* out;
    OutMatrix found = new_rows(static_cast<int64_t>(n), static_cast<int64_t>(count), out);
    nb::gil_scoped_release release;
    std::vector<double> beside(count), unit(count);
    for (size_t j = 0; j < count; ++j) beside[j] = raw.data()[columns(j)] - raw.data()[0] * center(j), unit[j] = 1.0 / scale(j);
    for (size_t i = 0; i < n; ++i) {
        const double* from = raw.data() + width * rows(i);
        const double first = from[0], own = row_center(i), by = 1.0 / row_scale(i);
        double* to = out + count * i;
        for (size_t j = 0; j < count; ++j) to[j] = (from[columns(j)] - first * center(j) - own * beside[j]) * (by * unit[j]);
    }
    return found;
}

// See `LevelProfile`.
inline OutVector profile_levels(Anything codes, int64_t levels, Vector eta, Vector y, Vector weight) {
    const size_t n = eta.shape(0);
    require(y.shape(0) == n && weight.shape(0) == n && levels >= 0, "sizes");
    double* shift;
    OutVector out = new_vector(levels, shift);
    nb::gil_scoped_release release;
    with_codes(codes, n, levels, [&](auto* c) { LevelProfile(n, levels).run(c, eta.data(), y.data(), weight.data(), shift); });
    return out;
}

// Deviance, smallest and largest margin, and the mean, weighted residual and weighted curvature of every row.
inline std::tuple<double, double, double, OutVector, OutVector, OutVector> rows_of_logistic(Vector eta, Vector y, Vector weight) {
    const size_t n = eta.shape(0);
    require(y.shape(0) == n && weight.shape(0) == n, "sizes");
    double *mean, *residual, *curvature;
    OutVector m = new_vector(n, mean), r = new_vector(n, residual), c = new_vector(n, curvature);
    LogisticRows found;
    {
        nb::gil_scoped_release release;
        found = logistic_rows(eta.data(), y.data(), weight.data(), n, mean, residual, curvature);
    }
    return {found.deviance, found.least, found.most, m, r, c};
}

// Deviance; mean, weighted residual and weighted curvature of every row at several predictors, one a column.
inline std::tuple<OutVector, OutMatrix, OutMatrix, OutMatrix> columns_of_logistic(ColumnMajor eta, Vector y, Vector weight) {
    const size_t n = eta.shape(0), count = eta.shape(1);
    require(y.shape(0) == n && weight.shape(0) == n, "sizes");
    double *deviance, *mean, *residual, *curvature;
    OutVector d = new_vector(count, deviance);
    OutMatrix m = new_columns(n, count, mean), r = new_columns(n, count, residual), c = new_columns(n, count, curvature);
    nb::gil_scoped_release release;
    for (size_t j = 0; j < count; ++j)
        deviance[j] = logistic_rows(eta.data() + j * n, y.data(), weight.data(), static_cast<int64_t>(n), mean + j * n, residual + j * n, curvature + j * n).deviance;
    return {d, m, r, c};
}

// The same of a Poisson model.
inline std::tuple<OutVector, OutMatrix, OutMatrix, OutMatrix> columns_of_poisson(ColumnMajor eta, Vector y, Vector log_y, Vector weight) {
    const size_t n = eta.shape(0), count = eta.shape(1);
    require(y.shape(0) == n && log_y.shape(0) == n && weight.shape(0) == n, "sizes");
    double *deviance, *mean, *residual, *curvature;
    OutVector d = new_vector(count, deviance);
    OutMatrix m = new_columns(n, count, mean), r = new_columns(n, count, residual), c = new_columns(n, count, curvature);
    nb::gil_scoped_release release;
    for (size_t j = 0; j < count; ++j)
        deviance[j] = poisson_rows(eta.data() + j * n, y.data(), log_y.data(), weight.data(), static_cast<int64_t>(n), mean + j * n, residual + j * n, curvature + j * n);
    return {d, m, r, c};
}

// See `Divergence`: of columns, from the means of each or from those that all share.
template <bool Binary>
inline OutVector divergences(ColumnMajor mean, ColumnMajor change, Vector weight) {
    const size_t n = change.shape(0), count = change.shape(1), step = mean.shape(1) == 1 ? 0 : n;
    require(mean.shape(0) == n && (step == 0 || mean.shape(1) == count) && weight.shape(0) == n, "sizes");
    double* out;
    OutVector found = new_vector(count, out);
    nb::gil_scoped_release release;
    Divergence<Binary> divergence(static_cast<int64_t>(n));
    for (size_t j = 0; j < count; ++j) out[j] = divergence.of(mean.data() + j * step, change.data() + j * n, weight.data());
    return found;
}

// See `CodedLook`: a row for every column.
inline OutMatrix coded_looks(ColumnMajor X, Vector residual, Vector w0, Vector w, Vector ratio, Vector mean) {
    const size_t n = X.shape(0), count = X.shape(1);
    for (const Vector& one : {residual, w0, w, ratio, mean}) require(one.shape(0) == n, "sizes");
    std::vector<double> out(6 * count);
    {
        nb::gil_scoped_release release;
        for (size_t j = 0; j < count; ++j) {
            const CodedLook one = coded_look(X.data() + j * n, residual.data(), w0.data(), w.data(), ratio.data(), mean.data(), static_cast<int64_t>(n));
            const double found[] = {one.slope, one.norm, one.dual, one.own, one.low, one.high};
            std::copy(found, found + 6, out.data() + 6 * j);
        }
    }
    return new_rows(out, static_cast<int64_t>(count), 6);
}

inline std::tuple<double, double, double> reach_of_logistic(Vector mean, Vector step, Vector curvature) {
    const size_t n = mean.shape(0);
    require(step.shape(0) == n && curvature.shape(0) == n, "sizes");
    nb::gil_scoped_release release;
    const LevelReach found = logistic_reach(mean.data(), step.data(), curvature.data(), n);
    return {found.min, found.max, found.largest};
}

inline void bind_coded_models(nb::module_& m) {
    m.def("sums_by_level", &sums_by_level);
    m.def("pair_sums", &sums_by_pair);
    m.def("standardised_products", &standardised_products);
    m.def("profile_levels", &profile_levels);
    m.def("logistic_rows", &rows_of_logistic);
    m.def("logistic_reach", &reach_of_logistic);
    m.def("coded_looks", &coded_looks);
    m.def("logistic_divergence", [](Vector mean, Vector change, Vector weight) {
        const size_t n = mean.shape(0);
        require(change.shape(0) == n && weight.shape(0) == n, "sizes");
        nb::gil_scoped_release release;
        return Divergence<true>(static_cast<int64_t>(n)).of(mean.data(), change.data(), weight.data());
    });
    m.def("logistic_divergences", &divergences<true>);
    m.def("poisson_divergences", &divergences<false>);
    m.def("poisson_columns", &columns_of_poisson);
    m.def("logistic_columns", &columns_of_logistic);
    m.def("add_by_level", &add_by_level);
}

}  // namespace fbed
