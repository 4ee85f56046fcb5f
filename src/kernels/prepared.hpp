// A fitted logistic model on the rows of it that are known, in a basis that is orthonormal in their curvature.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "logistic.hpp"
#include "whiten.hpp"

namespace fbed {

// A row that a direction does not move; coefficients of a basis that leave rounding in rows that they should not move.
constexpr double kStill = 1e-9, kLarge = 1e6;

// A model as it comes: columns that span it, column after column or without zeros, and what there is for each row of the data.
struct Model {
    int64_t n = 0, r = 0;
    std::shared_ptr<const SparseTerms> terms;
    const double *Z = nullptr, *weight = nullptr, *y = nullptr, *eta = nullptr, *offset = nullptr;

    double rounding = 1.0;  // of Z, where its columns come from some that are next to others, beside that of one that does not

    Model(ColumnMajor Z_, Vector weight_, Vector y_, Vector eta_, const MaybeVector& offset_, double rounding_ = 1.0)
        : n(static_cast<int64_t>(Z_.shape(0))), r(static_cast<int64_t>(Z_.shape(1))), Z(Z_.data()), weight(weight_.data()),
          y(y_.data()), eta(eta_.data()), rounding(rounding_) {
        check(weight_, y_, eta_, offset_);
    }

    Model(std::shared_ptr<const SparseTerms> columns, Vector weight_, Vector y_, Vector eta_, const MaybeVector& offset_)
        : n(columns->n), r(columns->r), terms(std::move(columns)), weight(weight_.data()), y(y_.data()), eta(eta_.data()) {
        check(weight_, y_, eta_, offset_);
    }

    Whitened whitened(const double* c) const { return terms ? terms->whitened(c) : whiten(Z, n, r, c, nullptr, weak()); }
    // What rounding may have left of a direction that moves no row.
    double weak() const { return std::max(kWeak, kBlur * rounding); }
    // Σ c·z² of a column.
    double square(int64_t k, const double* c) const {
        const auto value = [c](int64_t i, double z) { return c[i] * z * z; };
        return terms ? terms->sum(k, value) : DenseTerms{Z, n, r}.sum(k, value);
    }
    void add(const double* c, double* out) const { terms ? terms->add(c, out) : add_columns(Z, n, r, c, out); }

   private:
    void check(Vector weight_, Vector y_, Vector eta_, const MaybeVector& offset_) {
        const size_t rows = static_cast<size_t>(n);
        require(weight_.shape(0) == rows && y_.shape(0) == rows && eta_.shape(0) == rows, "one value a row");
        require(!offset_ || offset_->shape(0) == rows, "one offset a row");
        if (offset_) offset = offset_->data();
    }
};

// Rows of a sparse model that are kept side by side: all of them are looked at otherwise, which costs little.
constexpr int64_t kAtHand = 256;

struct Prepared {
    Room G;
    std::vector<double> T, a, sign, eta, weight, mu, w, res, dev, g0, norm, all_eta, offset;
    Whitened basis;         // G = Z·basis.M
    std::vector<double> Z;  // kept where rows are not known, column after column
    std::shared_ptr<const SparseTerms> terms;  // or without zeros
    std::optional<SparseBasis> sparse;
    std::optional<RowsOnDemand> demanded;
    std::shared_ptr<const SparseTerms> own_terms;  // all columns of the model, on all rows of the data
    std::vector<double> all_signs, all_weights, all_offsets;  // of these rows; no offsets where there are none
    mutable std::vector<int32_t> free_ways;  // how many directions move a row that have no part in the basis
    mutable std::once_flag counted;
    mutable Sorted by_norm;
    mutable std::once_flag sorted;
    // What a row has left to explain, how it pulls at the model and what it knows about it.
    struct Leaving {
        double cost, pull, leverage;
    };
    std::vector<Leaving> leaving;
    std::vector<int32_t> row_of, place;  // the rows of the model among all rows, and where each row is (-1: nowhere)
    double total_weight = 0, total_ones = 0;
    bool only_intercept = false;  // and every row is active
    Null f;

    // Of the rows that are known, those with active = 0 are idle. The basis may be known already.
    Prepared(const Model& model, const std::vector<char>& known, const std::vector<double>& active, double deviance,
             double idle_cost, const Whitened* whitened = nullptr) {
        place.assign(model.n, -1);
        all_eta.assign(model.eta, model.eta + model.n);
        for (auto* values : {&eta, &weight, &a, &sign}) values->reserve(model.n);
        row_of.reserve(model.n);
        for (int64_t row = 0; row < model.n; ++row) {
            if (!known[row]) continue;
            place[row] = static_cast<int32_t>(row_of.size());
            row_of.push_back(static_cast<int32_t>(row));
            eta.push_back(model.eta[row]), weight.push_back(model.weight[row]), a.push_back(active[row]);
            sign.push_back(model.y[row] > 0.5 ? 1.0 : -1.0);
            if (model.offset) offset.push_back(model.offset[row]);
            total_weight += a.back();
            total_ones += sign.back() > 0 ? a.back() : 0.0;
            f.has_idle = f.has_idle || a.back() == 0.0;
        }
        const size_t n = row_of.size();
        f.n = static_cast<int64_t>(n);
        for (auto* values : {&mu, &w, &res, &dev, &norm}) values->resize(n);
        f.a = a.data(), f.sign = sign.data(), f.eta = eta.data(), f.mu = mu.data(), f.w = w.data();
        f.res = res.data(), f.dev = dev.data(), f.weight = weight.data(), f.norm = norm.data(), f.sorted = &by_norm;
        if (model.offset) f.offset = offset.data();
        f.idle_deviance = idle_cost;
        f.deviance = deviance;
        f.blur = kBlur * model.rounding;
        look_at_rows();
        span(model, whitened);
        measure_rows();
        const auto same = [&](double v) { return std::abs(v - eta[0]) <= 1e-12; };
        only_intercept = f.r == 1 && f.n == model.n && !f.has_idle && std::all_of(eta.begin(), eta.end(), same);
    }
    Prepared(const Prepared&) = delete;

    // Whether directions that are free move none of the rows that are active, and the others leave no rounding in them.
    bool is_sound(const Model& model) const {
        for (double v : basis.M)
            if (!(std::abs(v) < kLarge)) return false;
        const int64_t none = model.r - basis.kept;
        std::vector<double> moved(model.n), direction(model.r);
        for (int64_t j = 0; j < none; ++j) {
            for (int64_t k = 0; k < model.r; ++k) direction[k] = basis.free[k * none + j];
            std::fill(moved.begin(), moved.end(), 0.0);
            model.add(direction.data(), moved.data());
            for (int64_t i = 0; i < f.n; ++i)
                if (a[i] > 0 && !(std::abs(moved[row_of[i]]) < kStill)) return false;
        }
        return true;
    }

    // The model on the rows that are known, gathered where these are not all.
    const double* columns_of(const Model& model, std::vector<double>& gathered) const {
        if (model.terms) {
            gathered = model.terms->gathered({row_of.begin(), row_of.end()});
            return gathered.data();
        }
        if (f.n == model.n) return model.Z;
        gathered.resize(f.n * model.r);
        for (int64_t k = 0; k < model.r; ++k)
            for (int64_t i = 0; i < f.n; ++i) gathered[k * f.n + i] = model.Z[k * model.n + row_of[i]];
        return gathered.data();
    }

    // G, row after row and column after column.
    void span(const Model& model, const Whitened* whitened) {
        std::vector<double> gathered, curvature(f.n);
        for (int64_t i = 0; i < f.n; ++i) curvature[i] = a[i] * w[i];
        if (model.terms) {
            std::vector<double> everywhere(model.n, 0.0);
            for (int64_t i = 0; i < f.n; ++i) everywhere[row_of[i]] = curvature[i];
            basis = whitened ? *whitened : model.terms->whitened(everywhere.data());
            if (!basis.alive.empty()) {
                keep_all_rows(model);
                const bool all = f.n == model.n && model.terms->is_all(basis.alive);
                return span_sparsely(all ? model.terms : std::make_shared<const SparseTerms>(model.terms->part(place, f.n, basis.alive)));
            }
        }
        const double* columns = columns_of(model, gathered);
        if (!model.terms) basis = whitened ? *whitened : whiten(columns, f.n, model.r, curvature.data(), nullptr, model.weak());
        span_densely(columns, model.r);
    }

    void keep_all_rows(const Model& model) {
        own_terms = model.terms;
        all_weights.assign(model.weight, model.weight + model.n);
        if (model.offset) all_offsets.assign(model.offset, model.offset + model.n);
        for (int64_t row = 0; row < model.n; ++row) all_signs.push_back(model.y[row] > 0.5 ? 1.0 : -1.0);
    }

    void span_sparsely(std::shared_ptr<const SparseTerms> columns) {
        f.r = basis.kept;
        f.stride = whole(f.r);
        sparse.emplace(std::move(columns), basis);
        demanded.emplace(*sparse);
        f.sparse = &*sparse, f.demanded = &*demanded;
    }

    void span_densely(const double* columns, int64_t r) {
        f.r = basis.kept;
        f.stride = whole(f.r);
        std::vector<double> direction(r);
        G = new_room(f.n * f.stride);
        T.assign(f.n * f.r, 0.0);
        for (int64_t k = 0; k < f.r; ++k) {
            int64_t last = 0;  // the basis of a plain factor is a triangle
            for (int64_t j = 0; j < r; ++j) {
                direction[j] = basis.M[j * f.r + k];
                if (direction[j] != 0.0) last = j + 1;
            }
            add_columns(columns, f.n, last, direction.data(), T.data() + k * f.n);
        }
        for (int64_t i = 0; i < f.n; ++i) {
            for (int64_t k = 0; k < f.r; ++k) G[i * f.stride + k] = T[k * f.n + i];
            std::fill_n(G.get() + i * f.stride + f.r, f.stride - f.r, 0.0);
        }
        f.G = G.get(), f.T = T.data();
    }

    FBED_HOT void look_at_rows() {
        const double *s = sign.data(), *linear = eta.data();
        double *mean = mu.data(), *curvature = w.data(), *residual = res.data(), *left = dev.data();
#pragma omp simd
        for (int64_t i = 0; i < f.n; ++i) {
            const double m = s[i] * linear[i], e = exp_of_negative(-std::abs(m)), one = 1.0 / (1.0 + e);
            const double wrong = m >= 0 ? e * one : one, right = m >= 0 ? one : e * one;
            mean[i] = s[i] > 0 ? right : wrong;
            curvature[i] = wrong * right;
            residual[i] = s[i] * wrong;
            left[i] = log1p_of_unit(e) - std::min(m, 0.0);
        }
    }

    // Row norms of G, and what the fit itself has left.
    FBED_HOT void measure_rows() {
        double* length = norm.data();
        std::fill(norm.begin(), norm.end(), 0.0);
        if (f.sparse) f.sparse->norms2(length);
        for (int64_t k = 0; !f.sparse && k < f.r; ++k) {
            const double* t = f.T + k * f.n;
#pragma omp simd
            for (int64_t i = 0; i < f.n; ++i) length[i] += t[i] * t[i];
        }
        std::vector<double> score(f.n);
        leaving.resize(f.n);
        for (int64_t i = 0; i < f.n; ++i) {
            length[i] = std::sqrt(length[i]);
            double& most = a[i] == 0.0 ? f.idle_kappa : f.kappa;
            most = std::max(most, length[i]);
            score[i] = a[i] * res[i];
            leaving[i] = {2.0 * a[i] * dev[i], std::abs(score[i]) * length[i], a[i] * w[i] * length[i] * length[i]};
        }
        g0.assign(f.r, 0.0);
        f.products(score.data(), g0.data());
        for (double v : g0) f.inexact += v * v;
        f.g0 = g0.data();
    }

    // One value for each row of the data, 0 where it is not known.
    template <class Value>
    OutVector for_all_rows(Value&& value) const {
        double* data;
        OutVector out = new_vector(place.size(), data);
        for (int64_t i = 0; i < f.n; ++i) data[row_of[i]] = value(i);
        return out;
    }
    OutVector curvature() const {
        return for_all_rows([this](int64_t i) { return a[i] * w[i]; });
    }
    OutVector score() const {
        return for_all_rows([this](int64_t i) { return a[i] * res[i]; });
    }
    OutMatrix whitener() const { return new_rows(basis.M, basis.r, basis.kept); }
    OutMatrix free() const { return new_rows(basis.free, basis.r, basis.r - basis.kept); }
    OutMatrix spanned() const {
        double* data;
        OutMatrix out = new_columns(f.n, f.r, data);
        if (f.T) {
            std::copy_n(f.T, f.n * f.r, data);
            return out;
        }
        for (int64_t i = 0; i < f.n; ++i) {
            const double* g = f.row(i);
            for (int64_t k = 0; k < f.r; ++k) data[k * f.n + i] = g[k];
        }
        return out;
    }
    OutRows rows() const {
        int64_t* data;
        OutRows out = new_numbers(row_of.size(), data);
        std::copy(row_of.begin(), row_of.end(), data);
        return out;
    }

    // Rows, those with the largest norm first: only some columns ask for them.
    void sort_rows() const {
        std::call_once(sorted, [this] {
            const int64_t count = by_norm.count = f.sparse ? std::min(f.n, kAtHand) : f.n;
            std::vector<int32_t> order(f.n);
            std::iota(order.begin(), order.end(), 0);
            const auto larger = [this](int32_t p, int32_t q) { return norm[p] > norm[q]; };
            if (count < f.n) std::nth_element(order.begin(), order.begin() + count, order.end(), larger);
            std::sort(order.begin(), order.begin() + count, larger);
            by_norm.length = whole(count);
            for (auto* column : {&by_norm.a, &by_norm.mu, &by_norm.norm}) column->assign(by_norm.length, 0.0);
            by_norm.T.assign(f.r * by_norm.length, 0.0);
            for (int64_t i = 0; i < count; ++i) {
                const int64_t row = order[i];
                by_norm.a[i] = a[row], by_norm.mu[i] = mu[row], by_norm.norm[i] = norm[row];
            }
            for (int64_t i = 0; i < count; ++i) {
                const double* g = f.row(order[i]);
                for (int64_t k = 0; k < f.r; ++k) by_norm.T[k * by_norm.length + i] = g[k];
            }
        });
    }

    // How many of the directions that move idle rows only move each row.
    void count_free_ways() const {
        std::call_once(counted, [this] {
            const int64_t none = basis.r - basis.kept;
            std::vector<double> moved(place.size()), direction(basis.r);
            free_ways.assign(place.size(), 0);
            for (int64_t j = 0; j < none; ++j) {
                for (int64_t k = 0; k < basis.r; ++k) direction[k] = basis.free[k * none + j];
                std::fill(moved.begin(), moved.end(), 0.0);
                own_terms->add(direction.data(), moved.data());
                for (size_t row = 0; row < place.size(); ++row) free_ways[row] += moved[row] != 0.0;
            }
        });
    }

    // The columns of all rows, for those that are not known.
    void keep(const Model& model) {
        terms = model.terms;
        if (model.Z) Z.assign(model.Z, model.Z + model.n * model.r);
    }
    bool keeps_model() const { return terms || !Z.empty(); }

    int64_t all_rows() const { return static_cast<int64_t>(place.size()); }
};

}  // namespace fbed
