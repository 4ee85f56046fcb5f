// Rows of a proportional hazards model as Python asks about them.
#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "coded_models.hpp"
#include "entries_at_risk.hpp"
#include "levels_at_risk.hpp"
#include "risk_tiles.hpp"

namespace fbed {

// A vector that will be written
inline OutVector room(size_t n, double*& data) {
    data = new double[n];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    return OutVector(data, {n}, owner);
}

inline RiskRows risk_rows(const Vector& event, const Which& closes, const Flags& starts) {
    require(closes.shape(0) == event.shape(0) && starts.shape(0) == event.shape(0), "sizes");
    return RiskRows{static_cast<int64_t>(event.shape(0)), event.data(), closes.data(), starts.data()};
}

// Hazard, expected events and residual of every row, a 2 × 2 triangle a tied set, and −log-likelihood; see `cox.hpp`.
inline std::tuple<OutVector, OutVector, OutVector, OutVector, double> cox_state(Vector event, Which closes, Flags starts, Vector deaths,
                                                                                Vector eta, Vector weight) {
    const RiskRows rows = risk_rows(event, closes, starts);
    require(eta.shape(0) == event.shape(0) && weight.shape(0) == event.shape(0), "sizes");
    check_range(closes, static_cast<int64_t>(deaths.shape(0)) + 1);
    double *hazard, *expected, *residual, *triangle, loss;
    OutVector h = room(rows.n, hazard), w = room(rows.n, expected), r = room(rows.n, residual);
    OutVector t = room(3 * deaths.shape(0), triangle);
    {
        nb::gil_scoped_release release;
        loss = cox_rows(rows, eta.data(), weight.data(), deaths.data(), deaths.shape(0), hazard, expected, residual, triangle);
    }
    return {h, w, r, t, loss};
}

// Two numbers a tied set; see `risk_shares`.
inline std::tuple<OutVector, OutVector> cox_shares(Vector event, Which closes, Flags starts, Vector deaths, Vector hazard) {
    const RiskRows rows = risk_rows(event, closes, starts);
    require(hazard.shape(0) == event.shape(0), "sizes");
    check_range(closes, static_cast<int64_t>(deaths.shape(0)) + 1);
    double *share, *own;
    OutVector s = room(deaths.shape(0), share), o = room(deaths.shape(0), own);
    {
        nb::gil_scoped_release release;
        risk_shares(rows, deaths.data(), hazard.data(), share, own);
    }
    return {s, o};
}

// Least and largest change of a probability, and a sum of squares; see `risk_change`.
inline std::tuple<double, double, double> cox_change(Vector event, Which closes, Flags starts, Vector deaths, Vector before, Vector scored,
                                                     Vector now) {
    const RiskRows rows = risk_rows(event, closes, starts);
    const size_t n = event.shape(0);
    require(before.shape(0) == n && scored.shape(0) == n && now.shape(0) == n, "sizes");
    check_range(closes, static_cast<int64_t>(deaths.shape(0)) + 1);
    nb::gil_scoped_release release;
    const RiskChange change = risk_change(rows, deaths.data(), before.data(), scored.data(), now.data());
    return {change.least, change.largest, change.apart};
}

// One number a row, from two a tied set; see `expected_events`.
inline OutVector cox_expected(Vector event, Which closes, Flags starts, Vector hazard, Vector share, Vector own) {
    const RiskRows rows = risk_rows(event, closes, starts);
    require(hazard.shape(0) == event.shape(0) && share.shape(0) == own.shape(0), "sizes");
    check_range(closes, static_cast<int64_t>(share.shape(0)) + 1);
    double* expected;
    OutVector found = room(rows.n, expected);
    nb::gil_scoped_release release;
    expected_events(rows, hazard.data(), share.data(), own.data(), expected);
    return found;
}

// Columns as the information has them in the rows; see `RiskInformation`.
inline OutMatrix information_rows(Vector event, Which closes, Flags starts, Vector hazard, Vector expected, Vector triangle,
                                  ColumnMajor X) {
    const RiskRows rows = risk_rows(event, closes, starts);
    const size_t n = event.shape(0);
    require(hazard.shape(0) == n && expected.shape(0) == n && X.shape(0) == n, "sizes");
    const int64_t n_sets = static_cast<int64_t>(triangle.shape(0)) / 3, count = static_cast<int64_t>(X.shape(1));
    check_range(closes, n_sets + 1);
    double* out;
    OutMatrix found = new_columns(n, count, out);
    nb::gil_scoped_release release;
    RiskInformation information(n_sets);
    std::vector<double> turned(n * kLanes);
    for (int64_t first = 0; first < count; first += kLanes) {
        look_up();
        const int64_t some = std::min(kLanes, count - first);
        turn(X.data() + first * rows.n, rows.n, some, rows.n, turned.data(), kLanes);
        information.take(rows, {hazard.data(), expected.data(), nullptr, triangle.data()}, turned.data());
        for (int64_t q = 0; q < some; ++q)
            for (int64_t i = 0; i < rows.n; ++i) out[(first + q) * rows.n + i] = turned[i * kLanes + q];
    }
    return found;
}

// The information of pairs of levels, levels × others; nothing where squares of the sets' numbers are none any more.
inline std::optional<OutMatrix> level_information(Vector event, Which closes, Flags starts, Vector hazard, Vector expected, Vector triangle,
                                                  Anything codes, int64_t levels, Anything others, int64_t n_others) {
    const RiskRows rows = risk_rows(event, closes, starts);
    const size_t n = event.shape(0), size = triangle.shape(0);
    require(hazard.shape(0) == n && expected.shape(0) == n && levels >= 0 && n_others >= 0, "sizes");
    check_range(closes, static_cast<int64_t>(size) / 3 + 1);
    if (std::any_of(triangle.data(), triangle.data() + size, [](double l) { return !(std::abs(l) <= kSquarable); })) return std::nullopt;
    std::vector<double> out(levels * n_others), taken(levels * n_others);
    {
        nb::gil_scoped_release release;
        with_codes(codes, n, levels, [&](auto* a) {
            with_codes(others, n, n_others, [&](auto* b) {
                pair_sums(a, b, n_others, n, expected.data(), out.data());
                level_pairs_at_risk(rows, hazard.data(), triangle.data(), a, levels, b, n_others, taken.data());
            });
        });
        for (size_t i = 0; i < out.size(); ++i) out[i] -= taken[i];
    }
    return new_rows(out, levels, n_others);
}

// What the sets take from the information of columns that are mostly 0, the first of which is constant and left out; nothing where
// squares of the sets' numbers are none any more.
inline std::optional<OutMatrix> taken_by_entries(const SparseTerms& columns, Vector event, Which closes, Flags starts, Vector hazard, Vector triangle) {
    const RiskRows rows = risk_rows(event, closes, starts);
    const size_t n = event.shape(0), size = triangle.shape(0);
    require(hazard.shape(0) == n && columns.n == static_cast<int64_t>(n) && columns.r > 1, "sizes");
    check_range(closes, static_cast<int64_t>(size) / 3 + 1);
    if (std::any_of(triangle.data(), triangle.data() + size, [](double l) { return !(std::abs(l) <= kSquarable); })) return std::nullopt;
    const int64_t k = columns.r - 1;
    std::vector<double> out(k * k);
    {
        nb::gil_scoped_release release;
        EntriesAtRisk sums(columns);
        sums.take(rows, hazard.data(), triangle.data());
        for (int64_t i = 0; i < k; ++i)
            for (int64_t j = 0; j <= i; ++j) out[i * k + j] = out[j * k + i] = sums.M[i * sums.stride() + j] + sums.M[j * sums.stride() + i];
    }
    return new_rows(out, k, k);
}

// What rows in order of risk say of columns, block of rows after block of rows; see `risk_tiles.hpp`.
struct ProductsAtRisk {
    RiskProducts sums;

    ProductsAtRisk(int64_t few, int64_t others) : sums((require(few >= 0 && others >= 0, "sizes"), few), others) {}

    void add(Vector event, Which closes, Flags starts, Vector hazard, Vector expected, Vector residual, Vector triangle, ColumnMajor Z,
             ColumnMajor X) {
        const RiskRows rows = risk_rows(event, closes, starts);
        const size_t n = event.shape(0);
        require(hazard.shape(0) == n && expected.shape(0) == n && residual.shape(0) == n, "sizes");
        require(Z.shape(0) == n && X.shape(0) == n, "sizes");
        require(static_cast<int64_t>(Z.shape(1)) == sums.model && static_cast<int64_t>(X.shape(1)) == sums.others, "sizes");
        check_range(closes, static_cast<int64_t>(triangle.shape(0)) / 3 + 1);
        nb::gil_scoped_release release;
        sums.add(rows, {hazard.data(), expected.data(), residual.data(), triangle.data()}, Z.data(), X.data());
    }

    // Scores and own information of the others, or of the model's columns where there are no others, and the information of the
    // model's columns with them.
    std::tuple<OutVector, OutMatrix, OutVector> found() const {
        double *score, *own, *cross;
        OutVector u = new_vector(sums.across, score), o = new_vector(sums.across, own);
        OutMatrix c = new_columns(sums.model, sums.across, cross);
        std::copy(sums.score.begin(), sums.score.begin() + sums.across, score);
        std::copy(sums.own.begin(), sums.own.begin() + sums.across, own);
        for (int64_t i = 0; i < sums.model; ++i)
            for (int64_t j = 0; j < sums.across; ++j) {
                const bool known = sums.others > 0 || j >= i / 8 * 8;
                cross[j * sums.model + i] = sums.cross[known ? i * sums.stride + j : j * sums.stride + i];
            }
        return {u, c, o};
    }
};

struct MomentsAtRisk {
    std::vector<RiskMoments> sums;
    int64_t count;

    explicit MomentsAtRisk(int64_t count_) : sums((count_ + kLanes - 1) / kLanes), count(count_) {}

    void add(Vector event, Which closes, Flags starts, Vector hazard, Vector deaths, ColumnMajor U) {
        const RiskRows rows = risk_rows(event, closes, starts);
        require(U.shape(0) == event.shape(0) && hazard.shape(0) == event.shape(0), "sizes");
        require(static_cast<int64_t>(U.shape(1)) == count, "sizes");
        check_range(closes, static_cast<int64_t>(deaths.shape(0)) + 1);
        nb::gil_scoped_release release;
        for (int64_t j = 0; j < count; j += kLanes)
            sums[j / kLanes].add(rows, hazard.data(), deaths.data(), U.data() + j * rows.n, std::min(kLanes, count - j));
    }

    // Moments and extremes, as `step_moments` has them.
    OutMatrix found() const {
        double* out;
        OutMatrix all = new_columns(5, count, out);
        for (int64_t j = 0; j < count; ++j) {
            const RiskMoments& some = sums[j / kLanes];
            const int64_t q = j % kLanes;
            double* column = out + 5 * j;
            column[0] = some.second[q], column[1] = some.third[q], column[2] = some.fourth[q];
            column[3] = some.low[q], column[4] = some.high[q];
        }
        return all;
    }
};

inline void bind_at_risk(nb::module_& m) {
    m.def("cox_state", &cox_state);
    m.def("cox_change", &cox_change);
    m.def("cox_shares", &cox_shares);
    m.def("cox_expected", &cox_expected);
    m.def("information_rows", &information_rows);
    m.def("level_information", &level_information);
    nb::class_<ProductsAtRisk>(m, "ProductsAtRisk")
        .def(nb::init<int64_t, int64_t>())
        .def("add", &ProductsAtRisk::add)
        .def("found", &ProductsAtRisk::found);
    nb::class_<MomentsAtRisk>(m, "MomentsAtRisk")
        .def(nb::init<int64_t>())
        .def("add", &MomentsAtRisk::add)
        .def("found", &MomentsAtRisk::found);
}

}  // namespace fbed
