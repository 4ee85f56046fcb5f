// Brackets of columns that are mostly 0 beside a fitted model with many rows; T are the rows where a column is not 0.
//
// A dummy of a rare level moves few rows, but those far: Newton's step from the model alone says little of it, and sums over all
// rows cost more than it is worth. Along x alone the likelihood is largest at some b, which concerns T only. One Newton step of all
// coefficients from that point, with λ² what it promises and v how far it moves a row, encloses the likelihood ratio:
//
//     2[ℓ(b) − ℓ] + λ²P(max|v|) − 2N²  ≤  LR  ≤  2[ℓ(b) − ℓ] + λ²P(−max|v|)
//
// whatever b is, the right side where max|v| < 1; N² is what the model itself is short of its maximum (docs/engine.md). If b is
// infinite, as where all rows of T are of one class or without a count and x has one sign, T is explained and leaves the sums, and
// b counts for nothing. Rows without weight are none of T.
// The information of the model at b differs from that at 0 by a sum over T, so that a candidate costs |T|·k² operations.
//
// A column x of the model with coefficient b is taken out in the same way: first on T alone, which costs G, then by a step of the
// other coefficients, so that G − λ²P(−max|v|) ≤ cost ≤ G − λ²P(max|v|) + 2N². Rows that x alone explained come back with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "arrays.hpp"
#include "bounds.hpp"
#include "linear.hpp"
#include "matrices.hpp"
#include "pause.hpp"
#include "rows.hpp"

namespace fbed {

// The rows of T along x alone: means at b, slope and curvature.
struct Along {
    double slope = 0, curvature = 0;
};

FBED_HOT inline Along counts_along(int64_t m, const double* x, const double* a, const double* y, const double* mean, double b, double* there) {
    double slope = 0, curvature = 0;
#pragma omp simd reduction(+ : slope, curvature)
    for (int64_t q = 0; q < m; ++q) {
        const double mu = mean[q] * exp_in_range(b * x[q]);
        there[q] = mu;
        slope += a[q] * x[q] * (y[q] - mu);
        curvature += a[q] * x[q] * x[q] * mu;
    }
    return {slope, curvature};
}

FBED_HOT inline Along classes_along(int64_t m, const double* x, const double* a, const double* y, const double* mean, double b, double* there) {
    double slope = 0, curvature = 0;
#pragma omp simd reduction(+ : slope, curvature)
    for (int64_t q = 0; q < m; ++q) {
        const double odds = mean[q] * exp_in_range(b * x[q]), mu = odds / ((1.0 - mean[q]) + odds);
        there[q] = mu;
        slope += a[q] * x[q] * (y[q] - mu);
        curvature += a[q] * x[q] * x[q] * mu * (1.0 - mu);
    }
    return {slope, curvature};
}

class RareColumns {
    static constexpr double kSteady = 1e-6;    // pivots of a Hessian that is solved to more digits than `kRounding`
    static constexpr double kRounding = 1e-8;  // relative
    static constexpr double kAlong = 1e-8, kStride = 2.0;
    static constexpr double kCertain = 1e-12;  // a probability this near to 0 or 1 has lost the digits of what is left
    static constexpr int kSteps = 60;

    struct Column {
        std::vector<int32_t> at;
        std::vector<double> x, a, y, mean, there;
        double b = 0, gained = 0, widest = 0;
        Along along;
        bool pure = false, known = true;
        size_t next = 0;  // entry that comes first in the rows that were not added yet
        int64_t place = -1;  // of a column that is to leave the model, among its columns
        std::vector<double> fewer, slope, beside;

        int64_t size() const { return static_cast<int64_t>(at.size()); }
    };

    bool counts_;
    int64_t n_, k_, added_ = 0;
    std::vector<Column> columns_;

   public:
    // Columns `which` of a matrix beside a model that gives the rows these means; it has k coefficients.
    template <class Columns>
    RareColumns(bool counts, const Columns& X, Which which, Vector mean, Vector y, Vector weight, int64_t k)
        : counts_(counts), n_(X.m.n), k_(k), columns_(which.shape(0)) {
        check_range(which, X.m.p);
        require(static_cast<int64_t>(mean.shape(0)) == n_ && static_cast<int64_t>(y.shape(0)) == n_, "sizes");
        require(static_cast<int64_t>(weight.shape(0)) == n_ && k >= 0, "sizes");
        nb::gil_scoped_release release;
        std::vector<int32_t> rows(n_);
        std::vector<double> values(n_);
        for (size_t j = 0; j < columns_.size(); ++j) {
            look_up();
            const int64_t m = X.m.support(which.data()[j], rows.data(), values.data());
            gather(columns_[j], rows.data(), values.data(), m, mean.data(), y.data(), weight.data());
            maximise_along(columns_[j]);
        }
    }

    // Columns of the model that are to leave it: they have these places in it and these coefficients as they are. Of those that are
    // `infinite`, whatever their coefficient was set to, rows come back that have a weight in `back`, and had none before.
    template <class Columns>
    RareColumns(bool counts, const Columns& X, Which which, Vector mean, Vector y, Vector weight, int64_t k, Which place, Vector coefficient,
                Flags infinite, Vector back)
        : counts_(counts), n_(X.m.n), k_(k), columns_(which.shape(0)) {
        check_range(which, X.m.p);
        check_range(place, k);
        require(static_cast<int64_t>(mean.shape(0)) == n_ && static_cast<int64_t>(y.shape(0)) == n_, "sizes");
        require(static_cast<int64_t>(weight.shape(0)) == n_ && place.shape(0) == which.shape(0), "sizes");
        require(coefficient.shape(0) == which.shape(0) && infinite.shape(0) == which.shape(0), "sizes");
        require(static_cast<int64_t>(back.shape(0)) == n_, "sizes");
        nb::gil_scoped_release release;
        std::vector<int32_t> rows(n_);
        std::vector<double> values(n_);
        for (size_t j = 0; j < columns_.size(); ++j) {
            look_up();
            Column& c = columns_[j];
            const bool returns = infinite.data()[j];
            const int64_t m = X.m.support(which.data()[j], rows.data(), values.data());
            gather(c, rows.data(), values.data(), m, mean.data(), y.data(), returns ? back.data() : weight.data());
            c.place = place.data()[j], c.pure = returns, c.b = -coefficient.data()[j];
            if (!c.known) continue;
            c.pure ? return_rows(c) : move_rows(c);
        }
    }

    // Some rows of the model's columns, which come in order.
    void add(int64_t first, ColumnMajor Z) {
        const int64_t n = static_cast<int64_t>(Z.shape(0));
        require(first == added_ && first + n <= n_ && static_cast<int64_t>(Z.shape(1)) == k_, "rows in order");
        added_ += n;
        nb::gil_scoped_release release;
        for (Column& column : columns_) {
            look_up();
            const size_t from = column.next;
            while (column.next < column.at.size() && column.at[column.next] < added_) ++column.next;
            if (column.known && column.next > from) add_rows(column, from, first, Z);
        }
    }

    // All rows of the model's columns, which are mostly 0 as they are; each is less by its shift, and those that are idle are 0.
    void add_sparse(const SparseTerms& Z, Vector shift, Which idle) {
        require(added_ == 0 && Z.n == n_ && Z.r == k_ && static_cast<int64_t>(shift.shape(0)) == k_, "all rows at once");
        check_range(idle, k_);
        added_ = n_;
        nb::gil_scoped_release release;
        for (Column& column : columns_) {
            look_up();
            if (column.known && column.size() > 0) add_entries(column, Z, shift.data(), idle);
        }
    }

    // Intervals, and where the models with each column have about their maximum: steps of the model's k coefficients, then that of
    // x, which is 0 where it is infinite.
    std::tuple<OutVector, OutVector, OutMatrix> enclosed(RowMajor information, Vector gradient, Vector reach, double missing) const {
        const size_t k = static_cast<size_t>(k_);
        require(added_ == n_, "all rows");
        require(information.shape(0) == k && information.shape(1) == k && gradient.shape(0) == k && reach.shape(0) == k, "sizes");
        double *lower, *upper, *end;
        OutVector low = new_vector(columns_.size(), lower), high = new_vector(columns_.size(), upper);
        OutMatrix ends = new_columns(k + 1, columns_.size(), end);
        nb::gil_scoped_release release;
        std::fill(end, end + (k + 1) * columns_.size(), 0.0);
        for (size_t j = 0; j < columns_.size(); ++j) {
            look_up();
            lower[j] = 0, upper[j] = std::numeric_limits<double>::infinity();
            if (columns_[j].known)
                enclose(columns_[j], information.data(), gradient.data(), reach.data(), missing, lower[j], upper[j], end + j * (k + 1));
        }
        return {low, high, ends};
    }

    // Intervals of what it costs to take each column out of the model.
    std::tuple<OutVector, OutVector> lost(RowMajor information, Vector gradient, Vector reach, double missing) const {
        const size_t k = static_cast<size_t>(k_);
        require(added_ == n_, "all rows");
        require(information.shape(0) == k && information.shape(1) == k && gradient.shape(0) == k && reach.shape(0) == k, "sizes");
        double *lower, *upper;
        OutVector low = new_vector(columns_.size(), lower), high = new_vector(columns_.size(), upper);
        nb::gil_scoped_release release;
        std::vector<double> end(k + 1);
        for (size_t j = 0; j < columns_.size(); ++j) {
            look_up();
            const Column& c = columns_[j];
            lower[j] = 0, upper[j] = std::numeric_limits<double>::infinity();
            double promised, furthest;
            if (!c.known || !step(c, information.data(), gradient.data(), reach.data(), end.data(), promised, furthest)) continue;
            const double rounding = kRounding * (1.0 + c.gained + promised);
            upper[j] = std::max(0.0, c.gained - promised * P(furthest) + 2.0 * missing + rounding);
            if (furthest < 1.0) lower[j] = std::max(0.0, c.gained - promised * P(-furthest) - rounding);
        }
        return {low, high};
    }

   private:
    void gather(Column& c, const int32_t* rows, const double* values, int64_t m, const double* mean, const double* y, const double* weight) {
        bool to_least = true, to_most = true;  // whether rows are explained as b falls, or as it rises
        for (int64_t q = 0; q < m; ++q) {
            const int64_t i = rows[q];
            if (!(weight[i] > 0)) continue;
            c.at.push_back(rows[q]), c.x.push_back(values[q]), c.a.push_back(weight[i]), c.y.push_back(y[i]), c.mean.push_back(mean[i]);
            c.widest = std::max(c.widest, std::abs(values[q]));
            if (!counts_ && !(mean[i] > kCertain && mean[i] < 1.0 - kCertain)) c.known = false;
            const bool none = y[i] == 0.0, all = !counts_ && y[i] == 1.0;
            to_least = to_least && (values[q] > 0 ? none : all);
            to_most = to_most && (values[q] > 0 ? all : none);
        }
        c.there.resize(c.at.size());
        c.pure = to_least || to_most;
        c.known = c.known && !c.at.empty();
    }

    void look_along(Column& c) const {
        c.along = (counts_ ? counts_along : classes_along)(c.size(), c.x.data(), c.a.data(), c.y.data(), c.mean.data(), c.b, c.there.data());
    }

    void maximise_along(Column& c) const {
        if (!c.known) return;
        if (c.pure) return explain(c);
        c.b = 0;
        look_along(c);
        for (int step = 0; step < kSteps && c.along.curvature > 0 && c.along.slope * c.along.slope > kAlong * c.along.curvature; ++step) {
            c.b += std::clamp(c.along.slope / c.along.curvature, -kStride / c.widest, kStride / c.widest);
            look_along(c);
        }
        c.gained = gained_at(c);
        c.known = std::isfinite(c.gained) && c.along.curvature > 0;
    }

    // 2[ℓ(b) − ℓ].
    double gained_at(const Column& c) const {
        double sum = 0;
        for (int64_t q = 0; q < c.size(); ++q) {
            const double t = c.b * c.x[q], more = c.mean[q] * std::expm1(t);
            sum += 2.0 * c.a[q] * (c.y[q] * t - (counts_ ? more : std::log1p(more)));
        }
        return sum;
    }

    // Rows without what the column has told of them; G is what that costs.
    void move_rows(Column& c) const {
        look_along(c);
        c.along = {};
        c.gained = -gained_at(c);
        c.known = std::isfinite(c.gained);
    }

    // Rows that the column alone explained, at the means that the others give them.
    void return_rows(Column& c) const {
        look_along(c);
        c.along = {};
        c.mean = c.there;
        explain(c);  // there are the outcomes
        std::swap(c.there, c.mean);
    }

    // Rows that b explains in the limit.
    void explain(Column& c) const {
        for (int64_t q = 0; q < c.size(); ++q) {
            c.there[q] = c.y[q];
            const double lost = counts_ ? c.mean[q] : -std::log1p(-(c.y[q] == 0.0 ? c.mean[q] : 1.0 - c.mean[q]));
            c.gained += 2.0 * c.a[q] * lost;
        }
    }

    double curvature(double mean) const { return counts_ ? mean : mean * (1.0 - mean); }  // 0 for rows that are explained

    // Σ_T a(w − w_b)zz', Σ_T a(μ − μ_b)z and Σ_T aw_b·x·z of some rows of the model's columns.
    void add_rows(Column& c, size_t from, int64_t first, const ColumnMajor& Z) const {
        const int64_t m = static_cast<int64_t>(c.next - from), stride = static_cast<int64_t>(Z.shape(0));
        std::vector<double> rows(m * k_), change(m), fewer(m), along(m), gram_of(k_ * k_), sums(k_);
        for (int64_t q = 0; q < m; ++q) {
            const size_t e = from + q;
            const double here = curvature(c.mean[e]), there = curvature(c.there[e]);
            fewer[q] = c.a[e] * (here - there), change[q] = c.a[e] * (c.mean[e] - c.there[e]), along[q] = c.a[e] * there * c.x[e];
            for (int64_t p = 0; p < k_; ++p) rows[p * m + q] = Z.data()[p * stride + c.at[e] - first];
        }
        if (c.fewer.empty()) c.fewer.assign(k_ * k_, 0.0), c.slope.assign(k_, 0.0), c.beside.assign(k_, 0.0);
        gram(rows.data(), m, k_, nullptr, fewer.data(), gram_of.data());
        accumulate(c.fewer, gram_of);
        products(rows.data(), m, k_, change.data(), sums.data());
        accumulate(c.slope, sums);
        products(rows.data(), m, k_, along.data(), sums.data());
        accumulate(c.beside, sums);
    }

    void add_entries(Column& c, const SparseTerms& Z, const double* shift, const Which& idle) const {
        c.fewer.assign(k_ * k_, 0.0), c.slope.assign(k_, 0.0), c.beside.assign(k_, 0.0);
        for (size_t e = 0; e < c.at.size(); ++e) {
            const double here = curvature(c.mean[e]), there = curvature(c.there[e]), fewer = c.a[e] * (here - there);
            const double change = c.a[e] * (c.mean[e] - c.there[e]), along = c.a[e] * there * c.x[e];
            const int64_t first = Z.row_start[c.at[e]], last = Z.row_start[c.at[e] + 1];
            for (int64_t p = first; p < last; ++p) {
                const double z = Z.by_row[p], t = fewer * z;
                const int64_t at = Z.column_of[p];
                c.slope[at] += change * z, c.beside[at] += along * z;
                for (int64_t q = first; q <= p; ++q) c.fewer[at * k_ + Z.column_of[q]] += t * Z.by_row[q];
            }
        }
        const double ones = c.fewer[0];
        std::vector<double> with_constant(k_);
        for (int64_t p = 0; p < k_; ++p) with_constant[p] = c.fewer[p * k_];
        for (int64_t p = 0; p < k_; ++p)
            for (int64_t q = 0; q <= p; ++q) {
                double& own = c.fewer[p * k_ + q];
                own += shift[p] * shift[q] * ones - shift[p] * with_constant[q] - shift[q] * with_constant[p];
                c.fewer[q * k_ + p] = own;
            }
        const double slope = c.slope[0], beside = c.beside[0];
        for (int64_t p = 0; p < k_; ++p) c.slope[p] -= shift[p] * slope, c.beside[p] -= shift[p] * beside;
        for (size_t i = 0; i < idle.shape(0); ++i) {
            const int64_t p = idle.data()[i];
            c.slope[p] = c.beside[p] = 0.0;
            for (int64_t q = 0; q < k_; ++q) c.fewer[p * k_ + q] = c.fewer[q * k_ + p] = 0.0;
        }
    }

    static void accumulate(std::vector<double>& to, const std::vector<double>& from) {
        for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    }

    void enclose(const Column& c, const double* A, const double* gradient, const double* reach, double missing, double& lower,
                 double& upper, double* end) const {
        double promised, furthest;
        if (!step(c, A, gradient, reach, end, promised, furthest)) return;
        const double rounding = kRounding * (1.0 + c.gained + promised);
        lower = std::max(0.0, c.gained + promised * P(furthest) - 2.0 * missing - rounding);
        if (furthest < 1.0) upper = c.gained + promised * P(-furthest) + rounding;
    }

    // Newton's step at b with x taken out: (A − Σ_T a(w − w_b)zz' − cc'/I)d = r − cρ/I, scaled by the diagonal of A. What it promises,
    // and how far it moves a row at most. False where it cannot be told.
    bool step(const Column& c, const double* A, const double* gradient, const double* reach, double* end, double& promised,
              double& furthest) const {
        const double own = c.along.curvature, slope = c.along.slope;
        std::vector<double> H(k_ * k_), r(k_), d(k_), unit(k_);
        for (int64_t p = 0; p < k_; ++p) {
            unit[p] = 1.0 / std::sqrt(A[p * k_ + p]);
            r[p] = unit[p] * (gradient[p] + c.slope[p] - (own > 0 ? c.beside[p] * slope / own : 0.0));
            for (int64_t l = 0; l <= p; ++l) {
                const double shared = own > 0 ? c.beside[p] * c.beside[l] / own : 0.0;
                H[p * k_ + l] = unit[p] * unit[l] * (A[p * k_ + l] - c.fewer[p * k_ + l] - shared);
            }
        }
        if (c.place >= 0) leave_out(c.place, H, r);
        if (!steady(H)) return false;
        d = r;
        cholesky_solve(H.data(), k_, d.data());
        promised = own > 0 ? slope * slope / own : 0.0, furthest = 0;
        double delta = own > 0 ? slope / own : 0.0;
        for (int64_t p = 0; p < k_; ++p) {
            promised += r[p] * d[p];
            end[p] = unit[p] * d[p];
            furthest += std::abs(end[p]) * reach[p];
            if (own > 0) delta -= c.beside[p] * end[p] / own;
        }
        furthest += std::abs(delta) * c.widest;
        end[k_] = c.b + delta;
        return promised >= 0 && std::isfinite(furthest);
    }

    // A coefficient that is no longer there.
    void leave_out(int64_t place, std::vector<double>& H, std::vector<double>& r) const {
        r[place] = 0.0;
        for (int64_t l = 0; l < k_; ++l) H[place * k_ + l] = H[l * k_ + place] = 0.0;
        H[place * k_ + place] = 1.0;
    }

    // Whether a matrix has a factor, which takes its place; pivots are compared with 1, what the model alone has on the diagonal.
    bool steady(std::vector<double>& H) const {
        for (int64_t p = 0; p < k_; ++p)
            if (!(H[p * k_ + p] > kSteady)) return false;
        cholesky(H.data(), k_);
        for (int64_t p = 0; p < k_; ++p)
            if (!(H[p * k_ + p] * H[p * k_ + p] > kSteady)) return false;
        return true;
    }
};

}  // namespace fbed
