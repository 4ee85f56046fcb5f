// Python's view of the sums over blocks of rows for outcomes of classes.
#pragma once

#include "arrays.hpp"
#include "class_sums.hpp"
#include "ordered_sums.hpp"
#include "vanishing.hpp"

namespace fbed {

// Some rows of a table that the caller keeps, column after column.
using Part = nb::ndarray<double, nb::ndim<2>, nb::device::cpu>;

inline void require_part(const Part& part, size_t rows, size_t columns) {
    require(part.shape(0) == rows && part.shape(1) == columns && (rows < 2 || part.stride(0) == 1), "some rows of columns");
}

inline ClassRows class_rows(const Part& p, Which codes, Vector weights) {
    const size_t n = codes.shape(0);
    require(weights.shape(0) == n, "one value a row");
    require_part(p, n, p.shape(1));
    return {static_cast<int64_t>(n), static_cast<int64_t>(p.shape(1)), p.data(), p.stride(1), codes.data(), weights.data()};
}

inline double softmax_look(ColumnMajor eta, Which codes, Vector weights, Part p) {
    const ClassRows rows = class_rows(p, codes, weights);
    require(eta.shape(0) == p.shape(0) && eta.shape(1) == p.shape(1), "a predictor for each class but the first");
    nb::gil_scoped_release release;
    const VanishingIsZero flush;
    return ClassSums(rows).look(eta.data());
}

inline OutMatrix softmax_vectors(Part p, Which codes, Vector weights, ColumnMajor Z) {
    const ClassRows rows = class_rows(p, codes, weights);
    require(Z.shape(0) == p.shape(0), "the same rows");
    double* out;
    OutMatrix found = new_columns(p.shape(0), p.shape(1) + pairs(rows.m) * Z.shape(1), out);
    nb::gil_scoped_release release;
    const VanishingIsZero flush;
    ClassSums(rows).write_vectors(Z.data(), static_cast<int64_t>(Z.shape(1)), out);
    return found;
}

// Gradient, a column a class, and sums of the curvature of pairs of classes with pairs of columns, a row a pair of classes.
inline std::tuple<OutMatrix, OutMatrix> softmax_sums(Part p, Which codes, Vector weights, ColumnMajor Z) {
    const ClassRows rows = class_rows(p, codes, weights);
    const int64_t k = static_cast<int64_t>(Z.shape(1)), of_classes = pairs(rows.m), of_columns = pairs(k);
    require(Z.shape(0) == p.shape(0), "the same rows");
    double *gradient, *sums;
    OutMatrix g = new_columns(k, rows.m, gradient), found = new_rows(of_classes, of_columns, sums);
    nb::gil_scoped_release release;
    const VanishingIsZero flush;
    PairSums products;
    ClassSums(rows).sum(Z.data(), k, gradient, products);
    for (int64_t j = 0; j < of_columns; ++j)
        for (int64_t c = 0; c < of_classes; ++c) sums[c * of_columns + j] = products.of(j)[c * products.apart()];
    return {g, found};
}

inline OutVector softmax_move(Part p, Which codes, Vector weights, InOutColumns U) {
    const ClassRows rows = class_rows(p, codes, weights);
    require(U.shape(0) == p.shape(0) && U.shape(1) % p.shape(1) == 0, "a column for each class of a step");
    const size_t steps = U.shape(1) / p.shape(1);
    double* gain;
    OutVector found = new_vector(steps, gain);
    nb::gil_scoped_release release;
    const VanishingIsZero flush;
    ClassSums(rows).move(U.data(), static_cast<int64_t>(steps), gain);
    return found;
}

inline OrderedSums ordered_rows(Which codes, Vector weights, size_t thresholds, bool normal) {
    require(weights.shape(0) == codes.shape(0) && thresholds > 0, "one value a row");
    return {static_cast<int64_t>(codes.shape(0)), static_cast<int64_t>(thresholds), normal, codes.data(), weights.data()};
}

inline OrderedState ordered_state(const Part& state, size_t rows) {
    require_part(state, rows, OrderedState::kColumns);
    return {state.data(), state.stride(1)};
}

// Half the deviance, slopes in the thresholds, their curvatures, and those of each with the next; and the furthest edge of a row.
inline std::tuple<double, OutVector, OutVector, OutVector, double> ordered_look(Vector eta, Vector theta, Which codes, Vector weights, bool normal,
                                                                                Part state) {
    const size_t count = theta.shape(0);
    require(eta.shape(0) == codes.shape(0), "one value a row");
    const OrderedSums rows = ordered_rows(codes, weights, count, normal);
    const OrderedState there = ordered_state(state, codes.shape(0));
    double *slope, *own, *beside;
    OutVector s = new_vector(count, slope), o = new_vector(count, own), b = new_vector(count - 1, beside);
    OrderedTotals found(static_cast<int64_t>(count));
    {
        nb::gil_scoped_release release;
        const VanishingIsZero flush;
        rows.look(eta.data(), theta.data(), there, found);
        std::copy(found.slope.begin(), found.slope.end(), slope), std::copy(found.own.begin(), found.own.end(), own);
        std::copy_n(found.beside.begin(), count - 1, beside);
    }
    return {found.value, s, o, b, found.furthest};
}

inline OutMatrix ordered_vectors(Part state, Which codes, Vector weights, ColumnMajor Z, int64_t thresholds) {
    const OrderedSums rows = ordered_rows(codes, weights, thresholds, false);
    const OrderedState there = ordered_state(state, codes.shape(0));
    require(Z.shape(0) == codes.shape(0), "the same rows");
    double* out;
    OutMatrix found = new_columns(Z.shape(0), 2 + thresholds + Z.shape(1), out);
    nb::gil_scoped_release release;
    const VanishingIsZero flush;
    rows.write_vectors(there, Z.data(), static_cast<int64_t>(Z.shape(1)), out);
    return found;
}

// Gains of steps, and slopes in the thresholds at their ends, a column each.
inline std::tuple<OutVector, OutMatrix> ordered_move(Part state, Which codes, Vector weights, bool normal, Vector before, ColumnMajor theta,
                                                    InOutColumns U) {
    const size_t steps = U.shape(1), count = theta.shape(0);
    require(U.shape(0) == codes.shape(0) && theta.shape(1) == steps && before.shape(0) == count, "thresholds of each step");
    const OrderedSums rows = ordered_rows(codes, weights, count, normal);
    const OrderedState from = ordered_state(state, codes.shape(0));
    double *gain, *slope;
    OutVector g = new_vector(steps, gain);
    OutMatrix s = new_columns(count, steps, slope);
    nb::gil_scoped_release release;
    const VanishingIsZero flush;
    for (size_t t = 0; t < steps; ++t) gain[t] = rows.move(from, before.data(), theta.data() + t * count, U.data() + t * U.shape(0), slope + t * count);
    return {g, s};
}

inline void bind_tall_classes(nb::module_& m) {
    m.def("softmax_look", &softmax_look);
    m.def("softmax_vectors", &softmax_vectors);
    m.def("softmax_sums", &softmax_sums);
    m.def("softmax_move", &softmax_move);
    m.def("ordered_look", &ordered_look);
    m.def("ordered_vectors", &ordered_vectors);
    m.def("ordered_move", &ordered_move);
}

}  // namespace fbed
