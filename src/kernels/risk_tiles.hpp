// Sums over rows in order of risk, of many columns beside each other: tiles of rows are turned, so that a vector holds the values
// of a row, and sums that run down the rows do so for eight columns at once. What is summed is carried on from block to block.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cox.hpp"
#include "processors.hpp"
#include "tiles.hpp"

namespace fbed {

constexpr int64_t kRiskRows = 64;  // rows of a tile: many enough for a product, few enough to stay in the cache

// What a state of the hazards says of some rows; see `cox_rows`.
struct RiskWeights {
    const double *hazard = nullptr, *expected = nullptr, *residual = nullptr, *triangle = nullptr;

    RiskWeights from(int64_t first) const { return {hazard + first, expected + first, residual + first, triangle}; }
};

inline RiskRows some_rows(const RiskRows& rows, int64_t first, int64_t count) {
    return {count, rows.event + first, rows.closes + first, rows.starts + first};
}

// Columns (column-major, `height` rows each) written row after row.
FBED_INLINE void turn(const double* X, int64_t height, int64_t count, int64_t rows, double* to, int64_t stride) {
    int64_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
        const double* x = X + j * height;
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t q = 0; q < kLanes; ++q) to[i * stride + j + q] = x[q * height + i];
    }
    for (; j < count; ++j)
        for (int64_t i = 0; i < rows; ++i) to[i * stride + j] = X[j * height + i];
}

// l'[S; D] of the tied sets that close in a tile (see `risk_means`), for some vectors of columns; returns how many rows
// that gives: a set of a single death has one, since its D adds nothing.
template <int kWide>
FBED_INLINE int64_t tile_means(const RiskRows& rows, const RiskWeights& state, const double* A, int64_t stride, double* S, double* D,
                               double* M) {
    Lanes s[kWide], d[kWide];
    for (int q = 0; q < kWide; ++q) s[q] = reinterpret_cast<Lanes*>(S)[q], d[q] = reinterpret_cast<Lanes*>(D)[q];
    int64_t place = 0;
    for (int64_t i = 0; i < rows.n; ++i) {
        const Lanes* x = reinterpret_cast<const Lanes*>(A + i * stride);
        const double h = state.hazard[i];
        if (rows.starts[i])
            for (int q = 0; q < kWide; ++q) s[q] = Lanes{};
        for (int q = 0; q < kWide; ++q) s[q] += h * x[q];
        if (rows.event[i] != 0.0)
            for (int q = 0; q < kWide; ++q) d[q] += h * x[q];
        if (rows.closes[i] == 0) continue;
        const double* l = state.triangle + 3 * (rows.closes[i] - 1);
        Lanes* to = reinterpret_cast<Lanes*>(M + place++ * stride);
        for (int q = 0; q < kWide; ++q) to[q] = l[0] * s[q];
        if (l[1] != 0.0)
            for (int q = 0; q < kWide; ++q) to[q] += l[1] * d[q];
        if (l[2] != 0.0) {
            to = reinterpret_cast<Lanes*>(M + place++ * stride);
            for (int q = 0; q < kWide; ++q) to[q] = l[2] * d[q];
        }
        for (int q = 0; q < kWide; ++q) d[q] = Lanes{};
    }
    for (int q = 0; q < kWide; ++q) reinterpret_cast<Lanes*>(S)[q] = s[q], reinterpret_cast<Lanes*>(D)[q] = d[q];
    return place;
}

// out += sign · sum of v_i x_i and, if asked for, sum of v_i x_i², of the columns of a tile
template <bool kSquares>
FBED_INLINE void add_tile_sums(const double* A, int64_t stride, int64_t wide, int64_t rows, const double* v, double* out) {
    for (int64_t a = 0; a < wide; a += kTile) {
        double sum[kTile] = {};
        for (int64_t i = 0; i < rows; ++i) {
            const double *x = A + i * stride + a, t = v[i];
#pragma omp simd
            for (int64_t q = 0; q < kTile; ++q) sum[q] += kSquares ? t * x[q] * x[q] : t * x[q];
        }
        for (int64_t q = 0; q < kTile; ++q) out[a + q] += sum[q];
    }
}

// Scores of columns and the information of each with itself; and the information of a model's columns with the others, or with
// each other where there are no others. The others come first, so that their tiles begin where vectors do.
struct RiskProducts {
    int64_t model, others, wide, across, stride;  // `across`: columns that those of the model are multiplied with
    std::vector<double> S, D, score, own, cross;       // cross: a row for every column of the model
    std::vector<double> tile, weighted, means, minus;  // of the rows at hand

    RiskProducts(int64_t model_, int64_t others_)
        : model(model_), others(others_), wide(model_ + others_), across(others_ > 0 ? others_ : model_), stride(tiled(wide) + kTile),
          S(stride), D(stride), score(stride), own(stride), cross(model_ * stride + kTile), tile(kRiskRows * stride),
          weighted(kRiskRows * whole(model_)), means(2 * kRiskRows * stride), minus(2 * kRiskRows, -1.0) {}

    // Z are the model's columns and X the others, column-major with as many rows as there are.
    FBED_HOT void add(const RiskRows& rows, const RiskWeights& state, const double* Z, const double* X) {
        for (int64_t first = 0; first < rows.n; first += kRiskRows) {
            const int64_t m = std::min(kRiskRows, rows.n - first);
            turn(X + first, rows.n, others, m, tile.data(), stride);
            turn(Z + first, rows.n, model, m, tile.data() + others, stride);
            add_rows(some_rows(rows, first, m), state.from(first));
        }
    }

    FBED_INLINE void add_rows(const RiskRows& rows, const RiskWeights& state) {
        int64_t sets = 0, a = 0;
        double *A = tile.data(), *M = means.data();
        for (; a + 3 * kLanes < wide; a += 4 * kLanes)
            sets = tile_means<4>(rows, state, A + a, stride, S.data() + a, D.data() + a, M + a);
        for (; a < wide; a += kLanes) sets = tile_means<1>(rows, state, A + a, stride, S.data() + a, D.data() + a, M + a);
        add_tile_sums<false>(A, stride, wide, rows.n, state.residual, score.data());
        add_tile_sums<true>(A, stride, wide, rows.n, state.expected, own.data());
        add_tile_sums<true>(M, stride, wide, sets, minus.data(), own.data());
        add_cross(rows, state, sets);
    }

    FBED_INLINE void add_cross(const RiskRows& rows, const RiskWeights& state, int64_t sets) {
        const int64_t height = whole(model);
        const double *A = tile.data(), *M = means.data(), *Z = A + others, *MZ = M + others;
        double* W = weighted.data();
        for (int64_t i = 0; i < rows.n; ++i) {
            const double w = state.expected[i];
#pragma omp simd
            for (int64_t b = 0; b < model; ++b) W[i * height + b] = w * Z[i * stride + b];
        }
        for (int64_t b = 0; b < model; b += 8) {
            const int64_t some = std::min<int64_t>(8, model - b);
            for (int64_t c = others > 0 ? 0 : b; c < across; c += kTile) {  // what is left of a diagonal is on its right as well
                double* C = cross.data() + b * stride + c;
                add_tiles(some, across - c, A + c, stride, W + b, height, rows.n, 1.0, C, stride);
                add_tiles(some, across - c, M + c, stride, MZ + b, stride, sets, -1.0, C, stride);
            }
        }
    }
};

// What the information has in the rows for some columns x, eight beside each other: w·x less what the tied sets take, so that the
// information of any column z with x is z'G. Those at risk at a set are the rows so far, so that the sums of x run down the rows, and
// what every row gets of all later sets runs up. `rows` are all of them; x is given row after row, and g takes its place.
struct RiskInformation {
    std::vector<double> at_risk, dying;  // what a row at risk at a set gets of it, and what one that dies gets beside that

    explicit RiskInformation(int64_t n_sets) : at_risk(n_sets * kLanes), dying(n_sets * kLanes) {}

    FBED_HOT void take(const RiskRows& rows, const RiskWeights& state, double* x) {
        down(rows, state, x);
        up(rows, state, x);
    }

    FBED_INLINE void down(const RiskRows& rows, const RiskWeights& state, const double* X) {
        Lanes s{}, d{};
        for (int64_t i = 0; i < rows.n; ++i) {
            const Lanes x = *reinterpret_cast<const Lanes*>(X + i * kLanes);
            if (rows.starts[i]) s = Lanes{};
            s += state.hazard[i] * x;
            if (rows.event[i] != 0.0) d += state.hazard[i] * x;
            if (rows.closes[i] == 0) continue;
            const int64_t g = rows.closes[i] - 1;
            const double* l = state.triangle + 3 * g;
            Lanes mean = l[0] * s;  // no product of two of l, which may be too large
            mean += l[1] * d;
            const Lanes all = l[0] * mean, beside = l[2] * d;
            Lanes own = l[1] * mean;
            own += l[2] * beside;
            *reinterpret_cast<Lanes*>(at_risk.data() + g * kLanes) = all;
            *reinterpret_cast<Lanes*>(dying.data() + g * kLanes) = own;
            d = Lanes{};
        }
    }

    FBED_INLINE void up(const RiskRows& rows, const RiskWeights& state, double* X) {
        Lanes all{}, own{};
        for (int64_t i = rows.n; i-- > 0;) {
            if (const int64_t g = rows.closes[i] - 1; g >= 0) {
                all += *reinterpret_cast<const Lanes*>(at_risk.data() + g * kLanes);
                own = *reinterpret_cast<const Lanes*>(dying.data() + g * kLanes);
            }
            Lanes& x = *reinterpret_cast<Lanes*>(X + i * kLanes);
            x = state.expected[i] * x;
            x += -state.hazard[i] * all;
            if (rows.event[i] != 0.0) x += -state.hazard[i] * own;
            if (rows.starts[i]) all = Lanes{};
        }
    }
};

// Sums over Efron's terms of c times the second, third and fourth central moment of steps u among those at risk, and the extremes
// of their difference from the mean there: eight steps beside each other.
struct RiskMoments {
    static constexpr int64_t kWide = kLanes;
    double risk = 0, dying = 0;  // sums of hazards
    double at[4][kWide] = {}, dead[4][kWide] = {}, least[kWide] = {}, most[kWide] = {};
    double second[kWide] = {}, third[kWide] = {}, fourth[kWide] = {}, low[kWide] = {}, high[kWide] = {};

    // U: `count` <= 8 columns, column-major
    FBED_HOT void add(const RiskRows& rows, const double* hazard, const double* deaths, const double* U, int64_t count) {
        double tile[kRiskRows * kWide] = {};
        for (int64_t first = 0; first < rows.n; first += kRiskRows) {
            const int64_t m = std::min(kRiskRows, rows.n - first);
            turn(U + first, rows.n, count, m, tile, kWide);
            const RiskRows some = some_rows(rows, first, m);
            for (int64_t i = 0; i < m; ++i) add_row(some, i, hazard[first + i], deaths, tile + i * kWide);
        }
    }

    FBED_INLINE void add_row(const RiskRows& rows, int64_t i, double h, const double* deaths, const double* u) {
        if (rows.starts[i]) start_stratum();
        risk += h;
#pragma omp simd
        for (int64_t q = 0; q < kWide; ++q) {
            const double t = h * u[q], tt = t * u[q], ttt = tt * u[q];
            at[0][q] += t, at[1][q] += tt, at[2][q] += ttt, at[3][q] += ttt * u[q];
            least[q] = u[q] < least[q] ? u[q] : least[q];
            most[q] = u[q] > most[q] ? u[q] : most[q];
        }
        const bool alone = rows.closes[i] > 0 && deaths[rows.closes[i] - 1] == 1.0;
        if (alone) {
            add_term(1.0 / risk, 0.0, 1.0);
        } else {
            if (rows.event[i] != 0.0) {
                dying += h;
#pragma omp simd
                for (int64_t q = 0; q < kWide; ++q) {
                    const double t = h * u[q], tt = t * u[q], ttt = tt * u[q];
                    dead[0][q] += t, dead[1][q] += tt, dead[2][q] += ttt, dead[3][q] += ttt * u[q];
                }
            }
            if (rows.closes[i] == 0) return;
            const double d = deaths[rows.closes[i] - 1];
            for (int64_t k = 0; k < n_terms(d); ++k) {
                const double f = static_cast<double>(k) / d;
                add_term(1.0 / (risk - f * dying), f, std::min(d - static_cast<double>(k), 1.0));
            }
        }
        dying = 0;
        std::fill(&dead[0][0], &dead[0][0] + 4 * kWide, 0.0);
    }

    FBED_INLINE void add_term(double unit, double f, double c) {
#pragma omp simd
        for (int64_t q = 0; q < kWide; ++q) {
            const double e1 = (at[0][q] - f * dead[0][q]) * unit, e2 = (at[1][q] - f * dead[1][q]) * unit;
            const double e3 = (at[2][q] - f * dead[2][q]) * unit, e4 = (at[3][q] - f * dead[3][q]) * unit, square = e1 * e1;
            const double two = e2 - square, four = e4 - 4.0 * e1 * e3 + 6.0 * square * e2 - 3.0 * square * square;
            second[q] += c * (two > 0.0 ? two : 0.0);
            third[q] += c * (e3 - 3.0 * e1 * e2 + 2.0 * e1 * square);
            fourth[q] += c * (four > 0.0 ? four : 0.0);
            low[q] = least[q] - e1 < low[q] ? least[q] - e1 : low[q];
            high[q] = most[q] - e1 > high[q] ? most[q] - e1 : high[q];
        }
    }

    FBED_INLINE void start_stratum() {
        risk = 0;
        std::fill(&at[0][0], &at[0][0] + 4 * kWide, 0.0);
        std::fill(least, least + kWide, INFINITY);
        std::fill(most, most + kWide, -INFINITY);
    }
};

}  // namespace fbed
