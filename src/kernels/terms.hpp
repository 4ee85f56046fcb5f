// The columns of a model, an intercept first: side by side in a matrix, or, where most values are 0, without those.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "processors.hpp"
#include "linear.hpp"
#include "whiten.hpp"

namespace fbed {

// Column after column.
struct DenseTerms {
    const double* T = nullptr;
    int64_t n = 0, r = 0;

    void products(const double* v, double* out) const { fbed::products(T, n, r, v, out); }
    void add(const double* c, double* out) const { add_columns(T, n, r, c, out); }
    void gram(const double* c, double* H) const { fbed::gram(T, n, r, nullptr, c, H); }
    Whitened whitened(const double* c) const { return whiten(T, n, r, c); }
    double square(int64_t k) const { return whitening::product(T + k * n, T + k * n, n); }

    // Some rows, column after column.
    std::vector<double> gathered(const std::vector<int64_t>& rows) const {
        const size_t m = rows.size();
        std::vector<double> out(m * r);
        for (int64_t k = 0; k < r; ++k)
            for (size_t i = 0; i < m; ++i) out[k * m + i] = T[k * n + rows[i]];
        return out;
    }

    // No way that is quicker than a basis.
    bool project(const std::vector<int64_t>&, const double*, const double*, const double*, std::vector<double>&, double&) const {
        return false;
    }

    // Sum over the rows of value(row, entry).
    template <class Value>
    double sum(int64_t k, Value&& value) const {
        double out = 0;
        const double* column = T + k * n;
        for (int64_t i = 0; i < n; ++i) out += value(i, column[i]);
        return out;
    }
};

// Entries that are not 0, column after column and row after row.
struct SparseTerms {
    int64_t n = 0, r = 0;
    std::vector<int64_t> column_start, row_start;
    std::vector<int32_t> row_of, column_of;
    std::vector<double> by_column, by_row;
    std::vector<char> full;  // columns with an entry in every row, in order: the intercept most often

    // From the entries column after column.
    SparseTerms(int64_t rows, std::vector<int64_t> starts, std::vector<int32_t> where, std::vector<double> values)
        : n(rows), r(static_cast<int64_t>(starts.size()) - 1), column_start(std::move(starts)), row_start(rows + 1, 0),
          row_of(std::move(where)), column_of(row_of.size()), by_column(std::move(values)), by_row(row_of.size()) {
        for (int32_t row : row_of) row_start[row + 1]++;
        for (int64_t i = 0; i < n; ++i) row_start[i + 1] += row_start[i];
        std::vector<int64_t> next(row_start.begin(), row_start.end() - 1);
        for (int64_t k = 0; k < r; ++k)
            for (int64_t e = column_start[k]; e < column_start[k + 1]; ++e) {
                const int64_t to = next[row_of[e]]++;
                column_of[to] = static_cast<int32_t>(k);
                by_row[to] = by_column[e];
            }
        for (int64_t k = 0; k < r; ++k) {
            const int32_t* rows_of = row_of.data() + column_start[k];
            full.push_back(n > 0 && column_start[k + 1] - column_start[k] == n && std::is_sorted(rows_of, rows_of + n));
        }
    }

    // z'Az of every row z, and what rounding may have taken off it, as |a_ef| is √(a_ee·a_ff) at most; of A, which has no negative
    // squares, the lower triangle counts.
    FBED_HOT void squares(const double* A, double* out) const {
        constexpr double kRounded = 1e-13;
        std::vector<double> root(r);
        for (int64_t k = 0; k < r; ++k) root[k] = std::sqrt(std::max(A[k * r + k], 0.0));
        for (int64_t i = 0; i < n; ++i) {
            double sum = 0, size = 0;
            for (int64_t e = row_start[i]; e < row_start[i + 1]; ++e) {
                const double* a = A + column_of[e] * r;
                double beside = 0;
                for (int64_t f = row_start[i]; f < e; ++f) beside += by_row[f] * a[column_of[f]];
                sum += by_row[e] * (2.0 * beside + by_row[e] * a[column_of[e]]);
                size += std::abs(by_row[e]) * root[column_of[e]];
            }
            out[i] = std::max(sum, 0.0) + kRounded * size * size;
        }
    }

    // With one more column, last.
    SparseTerms with(const int32_t* rows, const double* values, int64_t count) const {
        std::vector<int64_t> starts(column_start);
        std::vector<int32_t> where(row_of);
        std::vector<double> entries(by_column);
        where.insert(where.end(), rows, rows + count);
        entries.insert(entries.end(), values, values + count);
        starts.push_back(static_cast<int64_t>(where.size()));
        return SparseTerms(n, std::move(starts), std::move(where), std::move(entries));
    }

    // Some columns on the rows that have a place; the others are -1.
    SparseTerms part(const std::vector<int32_t>& place, int64_t rows, const std::vector<int64_t>& columns) const {
        std::vector<int64_t> starts{0};
        std::vector<int32_t> where;
        std::vector<double> values;
        where.reserve(row_of.size()), values.reserve(row_of.size());
        for (int64_t k : columns) {
            for (int64_t e = column_start[k]; e < column_start[k + 1]; ++e) {
                if (place[row_of[e]] < 0) continue;
                where.push_back(place[row_of[e]]);
                values.push_back(by_column[e]);
            }
            starts.push_back(static_cast<int64_t>(where.size()));
        }
        return SparseTerms(rows, std::move(starts), std::move(where), std::move(values));
    }

    // Whether some columns are all of them, in order.
    bool is_all(const std::vector<int64_t>& columns) const {
        return static_cast<int64_t>(columns.size()) == r && std::is_sorted(columns.begin(), columns.end());
    }

    std::vector<int64_t> all() const {
        std::vector<int64_t> out(r);
        std::iota(out.begin(), out.end(), 0);
        return out;
    }

    // What a Gram matrix costs.
    double pairs() const {
        double out = 0;
        for (int64_t i = 0; i < n; ++i) {
            const double stored = static_cast<double>(row_start[i + 1] - row_start[i]);
            out += stored * stored;
        }
        return out;
    }

    void products(const double* v, double* out) const {
        for (int64_t k = 0; k < r; ++k)
            out[k] = full[k] ? dot(v, by_column.data() + column_start[k], n) : sum(k, [v](int64_t i, double x) { return v[i] * x; });
    }

    // Column after column: no entry waits for the sum of its row.
    void add(const double* c, double* out) const {
        for (int64_t k = 0; k < r; ++k) {
            const double t = c[k];
            if (t == 0.0) continue;
            const double* x = by_column.data();
            if (full[k]) {
                add_full(t, x + column_start[k], out);
                continue;
            }
            for (int64_t e = column_start[k]; e < column_start[k + 1]; ++e) out[row_of[e]] += t * x[e];
        }
    }

    FBED_HOT void add_full(double t, const double* x, double* out) const {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] += t * x[i];
    }

    // The lower triangle of sum over rows of c_i x_i x_i', with one more column where it is given; columns of a row come in
    // order. A first column that is full would double the pairs of short rows: its products are sums over the columns.
    void gram(const double* c, double* H, const double* more = nullptr) const {
        const int64_t size = more ? r + 1 : r, apart = r > 0 && full[0] ? 1 : 0;
        std::fill(H, H + size * size, 0.0);
        double* border = H + r * size;
        for (int64_t k = 0; apart && k < r; ++k)
            H[k * size] = sum(k, [c, x = by_column.data()](int64_t i, double v) { return c[i] * x[i] * v; });
        for (int64_t i = 0; i < n; ++i) {
            if (c[i] == 0.0) continue;
            const int64_t first = row_start[i] + apart, last = row_start[i + 1];
            for (int64_t p = first; p < last; ++p) {
                double* row = H + column_of[p] * size;
                const double t = c[i] * by_row[p];
                for (int64_t q = first; q <= p; ++q) row[column_of[q]] += t * by_row[q];
            }
            if (!more || more[i] == 0.0) continue;
            for (int64_t p = row_start[i]; p < last; ++p) border[column_of[p]] += c[i] * more[i] * by_row[p];
            border[r] += c[i] * more[i] * more[i];
        }
    }

    // Four sums side by side: an entry does not wait for the one before.
    template <class Value>
    double sum(int64_t k, Value&& value) const {
        double one = 0, two = 0, three = 0, four = 0;
        const int64_t last = column_start[k + 1];
        int64_t e = column_start[k];
        for (; e + 4 <= last; e += 4) {
            one += value(row_of[e], by_column[e]);
            two += value(row_of[e + 1], by_column[e + 1]);
            three += value(row_of[e + 2], by_column[e + 2]);
            four += value(row_of[e + 3], by_column[e + 3]);
        }
        for (; e < last; ++e) one += value(row_of[e], by_column[e]);
        return (one + two) + (three + four);
    }

    // Entries that are stored.
    int64_t stored() const { return column_start[r]; }

    double square(int64_t k) const {
        return sum(k, [](int64_t, double x) { return x * x; });
    }

    std::vector<double> gathered(const std::vector<int64_t>& rows) const {
        const size_t m = rows.size();
        std::vector<double> out(m * r, 0.0);
        for (size_t i = 0; i < m; ++i)
            for (int64_t e = row_start[rows[i]]; e < row_start[rows[i] + 1]; ++e) out[column_of[e] * m + i] = by_row[e];
        return out;
    }

    // Squared norm of the projection of scores/√curvature of some rows on the columns, in the metric of the curvature, and the
    // least z of the step along it, row by row; with what the normal equations leave of it charged to both. False where columns
    // are too close to each other on these rows for that to be small.
    bool project(const std::vector<int64_t>& rows, const double* curvature, const double* score, const double* eta,
                 std::vector<double>& z, double& lambda2) const {
        std::vector<double> c(n, 0.0), pull(n, 0.0), H(r * r), g(r), d, left(r), more, v(n, 0.0);
        for (int64_t row : rows) c[row] = curvature[row], pull[row] = score[row];
        gram(c.data(), H.data());
        products(pull.data(), g.data());
        for (int64_t k = 0; k < r; ++k)
            if (!(H[k * r + k] > 0) && g[k] != 0.0) return false;
        const Solver solver(*this, H, c.data());
        if (!solver.usable) return false;
        d = g;
        solver.solve(d);
        add(d.data(), v.data());
        for (int64_t i = 0; i < n; ++i) pull[i] -= c[i] * v[i];
        products(pull.data(), left.data());
        more = left;
        solver.solve(more);
        double promised = 0, missed = 0;
        for (int64_t k = 0; k < r; ++k) promised += g[k] * d[k], missed += left[k] * more[k];
        const double lambda = std::sqrt(std::max(promised, 0.0)), missing = std::sqrt(std::max(missed, 0.0)) * 1.1;
        lambda2 = (lambda + missing) * (lambda + missing) * (1.0 + 1e-9);
        for (size_t i = 0; i < rows.size(); ++i) {
            const int64_t row = rows[i];
            const double e = std::exp(-std::abs(eta[row])), mu = eta[row] >= 0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
            z[i] = std::min((1.0 - mu) * v[row], -mu * v[row]) - missing * std::max(mu, 1.0 - mu) / std::sqrt(c[row]);
        }
        return std::isfinite(lambda2);
    }

    std::vector<double> dense() const {
        std::vector<double> out(n * r, 0.0);
        for (int64_t k = 0; k < r; ++k)
            for (int64_t e = column_start[k]; e < column_start[k + 1]; ++e) out[k * n + row_of[e]] = by_column[e];
        return out;
    }

    // Columns without a row that counts are free, each by itself; so is what a column has beside the others that it depends on.
    // Where some nearly depend on each other, by factors of the whole matrix.
    Whitened whitened(const double* c) const {
        std::vector<double> H(r * r);
        gram(c, H.data());
        Whitened out = whitened_by_gram(H, c);
        return out.r == r ? out : whitened_densely(c);
    }

    // The same from their Gram matrix; empty where that does not tell enough.
    Whitened whitened_by_gram(const std::vector<double>& H, const double* c) const {
        std::vector<double> A, inverse, unit(r, 1.0), directions;
        std::vector<int64_t> close;
        std::vector<int64_t> alive;
        for (int64_t k = 0; k < r; ++k)
            if (H[k * r + k] > 0) alive.push_back(k), unit[k] = 1.0 / std::sqrt(H[k * r + k]);
        const auto scaled = [&](int64_t i, int64_t j) { return H[i * r + j] * unit[i] * unit[j]; };
        if (!in_sight(c, H, alive)) return {};
        int64_t kept = static_cast<int64_t>(alive.size());
        A.assign(kept * kept, 0.0);
        for (int64_t i = 0; i < kept; ++i)
            for (int64_t j = 0; j <= i; ++j) A[i * kept + j] = scaled(alive[i], alive[j]);
        if (cholesky(A.data(), kept) <= kPlain) {
            if (!independent(scaled, c, unit, alive, A, directions, close)) return {};
            kept = static_cast<int64_t>(alive.size());
        }
        whitening::invert(A.data(), kept, inverse);
        Whitened out;
        out.r = r, out.kept = kept, out.alive = alive;
        out.M.assign(r * kept, 0.0);
        for (int64_t i = 0; i < kept; ++i)
            for (int64_t j = i; j < kept; ++j) out.M[alive[i] * kept + j] = unit[alive[i]] * inverse[j * kept + i];
        for (int64_t k : close)
            if (!append(k, unit[k], c, out, directions)) return {};
        out.free = free_directions(H, directions);
        return out;
    }

   private:
    // Systems of the Gram matrix H of the curvature c: by its factor, or where columns depend on each other on the rows that
    // count, by a basis of the others.
    struct Solver {
        bool usable = true;
        int64_t r;
        std::vector<double> factor;
        Whitened basis;

        Solver(const SparseTerms& terms, const std::vector<double>& H, const double* c) : r(terms.r), factor(H) {
            if (cholesky(factor.data(), r) >= kSound || terms.dead_but_apart(factor, c)) return;
            basis = terms.whitened_by_gram(H, c);
            usable = basis.r == r;
        }

        void solve(std::vector<double>& b) const {
            if (basis.r == 0) return cholesky_solve(factor.data(), r, b.data());
            std::vector<double> along(basis.kept, 0.0);
            for (int64_t k = 0; k < r; ++k)
                for (int64_t j = 0; j < basis.kept; ++j) along[j] += basis.M[k * basis.kept + j] * b[k];
            for (int64_t k = 0; k < r; ++k)
                b[k] = dot(along.data(), basis.M.data() + k * basis.kept, along.size());
        }
    };

    // Columns that are apart from those before them, with their factor; row after row, directions that move no row that counts,
    // one for each column that depends on those; and the columns that are close to it. False where a direction does not tell.
    template <class Scaled>
    bool independent(Scaled&& scaled, const double* c, const std::vector<double>& unit, std::vector<int64_t>& alive,
                     std::vector<double>& factor, std::vector<double>& directions, std::vector<int64_t>& close) const {
        const int64_t most = static_cast<int64_t>(alive.size());
        std::vector<double> L(most * most, 0.0), moved(n);
        std::vector<int64_t> kept;
        for (int64_t k : alive) {
            const int64_t size = static_cast<int64_t>(kept.size());
            double *row = L.data() + size * most, pivot = scaled(k, k);
            for (int64_t j = 0; j < size; ++j) {
                const double* other = L.data() + j * most;
                row[j] = (scaled(k, kept[j]) - dot(row, other, static_cast<size_t>(j))) / other[j];
                pivot -= row[j] * row[j];
            }
            if (pivot > kPlain) {
                row[size] = std::sqrt(pivot);
                kept.push_back(k);
                continue;
            }
            if (pivot > kVanished) {
                std::fill(row, row + size, 0.0);
                close.push_back(k);
                continue;
            }
            for (int64_t i = size; i-- > 0;) {  // coordinates on the columns before it
                for (int64_t j = i + 1; j < size; ++j) row[i] -= L[j * most + i] * row[j];
                row[i] /= L[i * most + i];
            }
            const size_t place = directions.size();
            directions.resize(place + r, 0.0);
            double* direction = directions.data() + place;
            direction[k] = unit[k];
            for (int64_t i = 0; i < size; ++i) direction[kept[i]] = -row[i] * unit[kept[i]];
            std::fill(row, row + size, 0.0);
            std::fill(moved.begin(), moved.end(), 0.0);
            add(direction, moved.data());
            double left = 0;
            for (int64_t i = 0; i < n; ++i) left += c[i] * moved[i] * moved[i];
            if (!(left <= kWeak * kWeak)) return false;
        }
        alive = kept;
        const int64_t size = static_cast<int64_t>(kept.size());
        factor.assign(size * size, 0.0);
        for (int64_t i = 0; i < size; ++i) std::copy_n(L.data() + i * most, i + 1, factor.data() + i * size);
        return true;
    }

    // One more column of a basis, from a column that is close to the others: what is left of it is found row by row, since
    // rounding hides it in a Gram matrix. Where nothing is, the way to it is a direction that moves no row that counts. False
    // where that is not certain.
    FBED_HOT bool append(int64_t k, double unit, const double* c, Whitened& basis, std::vector<double>& directions) const {
        std::vector<double> way(r, 0.0), moved(n), bent(n), along(r), onto(basis.kept);
        way[k] = unit;
        double left = 0;
        for (int pass = 0; pass < 4; ++pass) {  // each leaves a part of what rounding has left
            std::fill(moved.begin(), moved.end(), 0.0);
            add(way.data(), moved.data());
            left = 0;
            for (int64_t i = 0; i < n; ++i) bent[i] = c[i] * moved[i], left += bent[i] * moved[i];
            if (pass == 3) break;
            products(bent.data(), along.data());
            std::fill(onto.begin(), onto.end(), 0.0);
            for (int64_t i = 0; i < r; ++i)
                for (int64_t j = 0; j < basis.kept; ++j) onto[j] += basis.M[i * basis.kept + j] * along[i];
            for (int64_t i = 0; i < r; ++i)
                way[i] -= dot(onto.data(), basis.M.data() + i * basis.kept, onto.size());
        }
        if (!(left > kVanished)) {
            directions.insert(directions.end(), way.begin(), way.end());
            return left <= kWeak * kWeak;
        }
        std::vector<double> M(r * (basis.kept + 1));
        for (int64_t i = 0; i < r; ++i) {
            std::copy_n(basis.M.begin() + i * basis.kept, basis.kept, M.begin() + i * (basis.kept + 1));
            M[i * (basis.kept + 1) + basis.kept] = way[i] / std::sqrt(left);
        }
        basis.M = std::move(M);
        basis.alive.push_back(k);
        ++basis.kept;
        return true;
    }

    // Orthonormal directions, r × their number: of columns without a row that counts, and those that are given.
    std::vector<double> free_directions(const std::vector<double>& H, std::vector<double>& directions) const {
        std::vector<int64_t> dead;
        for (int64_t k = 0; k < r; ++k)
            if (!(H[k * r + k] > 0)) dead.push_back(k);
        const int64_t given = static_cast<int64_t>(directions.size()) / std::max<int64_t>(r, 1), none = given + static_cast<int64_t>(dead.size());
        std::vector<double> out(r * none, 0.0);
        for (size_t j = 0; j < dead.size(); ++j) out[dead[j] * none + static_cast<int64_t>(j)] = 1.0;
        for (int64_t j = 0; j < given; ++j) {
            double* own = directions.data() + j * r;
            whitening::orthonormalise(directions.data(), j, own, r);
            for (int64_t k = 0; k < r; ++k) out[k * none + none - given + j] = own[k];
        }
        return out;
    }

    // On the rows that count.
    Whitened whitened_densely(const double* c) const {
        std::vector<int64_t> rows;
        std::vector<double> here, whole_columns(r);
        for (int64_t i = 0; i < n; ++i)
            if (c[i] > 0) rows.push_back(i), here.push_back(c[i]);
        for (int64_t k = 0; k < r; ++k) whole_columns[k] = square(k);
        const std::vector<double> T = gathered(rows);
        return whiten(T.data(), static_cast<int64_t>(rows.size()), r, here.data(), whole_columns.data());
    }

    // Whether columns that have no row that counts are the only ones whose pivots are small in a factor.
    bool dead_but_apart(const std::vector<double>& factor, const double* c) const {
        for (int64_t k = 0; k < r; ++k) {
            const double own = sum(k, [c](int64_t i, double x) { return c[i] * x * x; });
            if (own > 0 && !(factor[k * r + k] * factor[k * r + k] > kSound * own)) return false;
        }
        return true;
    }

    // Whether what is left of each column on the rows that count is more than rounding.
    bool in_sight(const double* c, const std::vector<double>& H, const std::vector<int64_t>& alive) const {
        const double most = n ? *std::max_element(c, c + n) : 0.0;
        return std::all_of(alive.begin(), alive.end(), [&](int64_t k) {
            return H[k * r + k] > kNoise * most * square(k);
        });
    }
};

// A model in a basis: its columns are those of `terms` times an upper triangle U, rows of which are filled up to whole vectors.
struct SparseBasis {
    std::shared_ptr<const SparseTerms> columns;
    const SparseTerms& terms;
    int64_t stride = 0;
    Room U;

    SparseBasis(std::shared_ptr<const SparseTerms> given, const Whitened& basis)
        : columns(std::move(given)), terms(*columns), stride(whole(terms.r)), U(new_room(terms.r * stride)) {
        std::fill_n(U.get(), terms.r * stride, 0.0);
        for (int64_t i = 0; i < terms.r; ++i)
            std::copy_n(basis.M.data() + basis.alive[i] * terms.r, terms.r, U.get() + i * stride);
    }

    void products(const double* v, double* out) const {
        thread_local std::vector<double> along;
        along.resize(terms.r);
        terms.products(v, along.data());
        on_basis(along.data(), out);
    }

    // Products with the columns of the basis, from those with the terms.
    FBED_HOT void on_basis(const double* along, double* out) const {
        thread_local std::vector<double> sum;
        sum.assign(stride, 0.0);
        for (int64_t i = 0; i < terms.r; ++i) add_row(sum.data(), along[i], U.get() + i * stride, stride);
        std::copy_n(sum.data(), terms.r, out);
    }

    void add(const double* c, double* out) const {
        thread_local std::vector<double> along;
        along.resize(terms.r);
        on_terms(c, along.data());
        terms.add(along.data(), out);
    }

    // Coefficients of the terms, from those in the basis.
    FBED_HOT void on_terms(const double* c, double* out) const {
        thread_local std::vector<double> filled;
        filled.assign(stride, 0.0);
        std::copy_n(c, terms.r, filled.data());
        for (int64_t i = 0; i < terms.r; ++i) out[i] = row_product(U.get() + i * stride, filled.data(), stride);
    }

    // One row, filled up to whole vectors. Its first entry, most often that of the intercept, is written.
    FBED_INLINE void row(int64_t i, double* out) const {
        int64_t e = terms.row_start[i], written = 0;
        if (e < terms.row_start[i + 1]) {
            const double x = terms.by_row[e], *u = U.get() + terms.column_of[e++] * stride;
            for (; written < stride; written += kLanes)
#pragma omp simd
                for (int64_t q = 0; q < kLanes; ++q) out[written + q] = x * u[written + q];
        }
        std::fill(out + written, out + stride, 0.0);
        for (; e < terms.row_start[i + 1]; ++e) {
            const int64_t k = terms.column_of[e], start = k / kLanes * kLanes;  // before that, U is 0
            add_row(out + start, terms.by_row[e], U.get() + k * stride + start, stride - start);
        }
    }

    // Squared norms of all rows by K = UU', a few operations each; what cancels too much is found from the row itself.
    FBED_HOT void norms2(double* out) const {
        const int64_t r = terms.r;
        std::vector<double> K(r * r), size(r), own(stride);
        for (int64_t i = 0; i < r; ++i) {
            const int64_t start = i / kLanes * kLanes;
            for (int64_t j = 0; j <= i; ++j)
                K[i * r + j] = (i == j ? 1.0 : 2.0) * row_product(U.get() + i * stride + start, U.get() + j * stride + start, stride - start);
            size[i] = std::sqrt(K[i * r + i]);
        }
        for (int64_t i = 0; i < terms.n; ++i) {
            const int64_t first = terms.row_start[i], last = terms.row_start[i + 1];
            double sum = 0, most = 0;
            for (int64_t p = first; p < last; ++p) {
                const double *k = K.data() + terms.column_of[p] * r, x = terms.by_row[p];
                double along = 0;
                for (int64_t q = first; q <= p; ++q) along += k[terms.column_of[q]] * terms.by_row[q];
                sum += x * along;
                most += std::abs(x) * size[terms.column_of[p]];
            }
            if (!(sum > kKept * most * most) && last > first) {
                row(i, own.data());
                sum = row_product(own.data(), own.data(), stride);
            }
            out[i] = sum;
        }
    }

   private:
    static constexpr double kKept = 1e-4;  // part of a sum of products that leaves eleven digits of it
};

// Rows of a basis, each made when somebody asks for it first: of a large model few candidates look at most rows.
class RowsOnDemand {
   public:
    RowsOnDemand(const SparseBasis& basis)
        : basis_(basis), G_(new_room(basis.terms.n * basis.stride)), made_(new std::atomic<uint8_t>[basis.terms.n]()) {}

    const double* row(int64_t i) const {
        double* out = G_.get() + i * basis_.stride;
        if (made_[i].load(std::memory_order_acquire) != kMade) make(i, out);
        return out;
    }

   private:
    static constexpr uint8_t kNobody = 0, kBegun = 1, kMade = 2;

    // Several threads may ask at once: one of them makes it.
    FBED_HOT void make(int64_t i, double* out) const {
        uint8_t nobody = kNobody;
        if (made_[i].compare_exchange_strong(nobody, kBegun)) {
            basis_.row(i, out);
            made_[i].store(kMade, std::memory_order_release);
        }
        while (made_[i].load(std::memory_order_acquire) != kMade) {
        }
    }

    const SparseBasis& basis_;
    Room G_;
    std::unique_ptr<std::atomic<uint8_t>[]> made_;
};

}  // namespace fbed
