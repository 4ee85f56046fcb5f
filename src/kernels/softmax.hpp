// Classes: the softmax of C − 1 predictors a row, that of the first class being 0.
//
// The Hessian has a block for every pair of columns (j, l) and in it an entry for every pair of classes (c, d):
//
//     sum over rows of w_cd · z_j z_l,     w_cd = a p_c(δ_cd − p_d)
//
// which is one matrix product, of all pairs of classes with all pairs of columns; both are symmetric, so that it costs a
// quarter of (rows × parameters²) multiplications. Parameters are ordered by column, then by class. Columns that are mostly 0
// are kept as their entries, and only pairs of entries of a row are multiplied.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bounds.hpp"
#include "elementary.hpp"
#include "pair_sums.hpp"
#include "race.hpp"
#include "row_entries.hpp"

namespace fbed {

constexpr int64_t kMostRows = 128;  // of a part of the rows whose arrays stay in the cache

// What all models with the columns of S share.
struct SoftmaxRows {
    int64_t n, k, m, part;
    const double *Z, *weights;  // Z: column after column
    const int64_t* codes;
    double total = 0;
    RowEntries entries;
    bool sparse;                         // whether most pairs of values of a row are 0
    std::vector<double> rows, products;  // Z and its products of two columns, row after row, unless it is

    SoftmaxRows(const double* z, int64_t n_rows, int64_t columns, const int64_t* classes, int64_t n_classes, const double* a)
        : n(n_rows), k(columns), m(n_classes - 1), Z(z), weights(a), codes(classes) {
        part = std::clamp<int64_t>(16384 / pairs(m) / 8 * 8, 16, kMostRows);
        for (int64_t i = 0; i < n; ++i) total += weights[i];
        entries.assign(Z, n, k);
        sparse = kDense * entries.pairs() <= n * pairs(k);
        if (!sparse) multiply();
    }

    SoftmaxRows(const SparseTerms& terms, const int64_t* classes, int64_t n_classes, const double* a)
        : n(terms.n), k(terms.r), m(n_classes - 1), Z(nullptr), weights(a), codes(classes), sparse(true) {
        part = std::clamp<int64_t>(16384 / pairs(m) / 8 * 8, 16, kMostRows);
        for (int64_t i = 0; i < n; ++i) total += weights[i];
        entries.assign(terms);
    }

private:
    static constexpr int64_t kDense = 4;  // how many times quicker products of all values are, each

    void multiply() {
        rows.resize(n * k + kTile), products.resize(n * pairs(k) + kTile);
        for (int64_t i = 0; i < n; ++i) {
            double *row = rows.data() + i * k, *product = products.data() + i * pairs(k);
            for (int64_t j = 0; j < k; ++j) row[j] = Z[j * n + i];
            for (int64_t j = 0; j < k; ++j)
                for (int64_t l = j; l < k; ++l) *product++ = row[j] * row[l];
        }
    }
};

class Softmax {
    const SoftmaxRows& s;
    int64_t q;                     // columns of the model's own
    const double* own = nullptr;   // column after column
    std::vector<double> own_rows;  // row after row
    RowEntries own_entries;
    bool sparse = false;           // whether entries are looked at instead of values
    // Probabilities, a part of the rows after another, in it one class after another: at the present parameters, at the
    // fit on S, and with some set to 0; and those that derivatives are taken at.
    std::vector<double> p, shared_p, frozen_p;
    const std::vector<double>* mean = &p;
    std::vector<double> start, predictor, by_row, probability, weight, own_products, residual, slopes, null_weight, null_residual,
        null_slopes, unused;
    std::vector<int64_t> in_play, left_class;  // how many classes a row has left; those of one row,
    std::vector<double> left_p;                // and their probabilities
    static constexpr int64_t kKept = 1 << 23, kManyParameters = 24, kFewer = 6;
    static constexpr double kRaised = 1e-4;
    PairSums shared, mine;
    Symmetric null_hessian, null_factor, raised_factor, explained_hessian;
    double null_value = 0, raise = 0;
    bool on_top = false, top_at_null = false, explained = false;

public:
    static constexpr bool freezes = true, polishes = true;
    double null_deviance;

    // `parameters` are those of the fit on S; models have `own_columns` more.
    Softmax(const SoftmaxRows& rows, const double* parameters, double deviance, int64_t own_columns)
        : s(rows), q(0), null_deviance(deviance) {
        start.assign(parameters, parameters + s.k * s.m);
        p.resize(s.n * (s.m + 1));
        const int64_t room = s.part;
        sparse = s.sparse;
        by_row.resize(room * s.m), predictor.resize(room * (s.m + 1), 0.0), probability.resize(room * s.m), residual.resize(room * s.m + kTile);
        weight.resize(room * pairs(s.m) + kTile), left_class.resize(s.m), left_p.resize(s.m);
        null_value = evaluate(start.data());
        shared_p = p, top_at_null = on_top;
        q = own_columns;
        if (q > 0) prepare_null();
        start.resize((s.k + q) * s.m, 0.0);
        own_products.resize(room * n_own_products() + kTile);
    }

    int64_t size() const { return (s.k + q) * s.m; }
    double total_weight() const { return s.total; }

    void take(const double* columns) {
        own = columns;
        own_entries.assign(own, s.n, q);
        sparse = s.sparse || (s.k == 1 && 4 * own_entries.begin[s.n] <= s.n * q);
        if (sparse) return;
        own_rows.resize(s.n * q + kTile);
        for (int64_t i = 0; i < s.n; ++i)
            for (int64_t j = 0; j < q; ++j) own_rows[i * q + j] = own[j * s.n + i];
    }

    const std::vector<double>& begin() {
        mean = q > 0 ? &shared_p : &p, on_top = top_at_null;
        return start;
    }
    double begin_value() const { return null_value; }

    double evaluate(const double* parameters) {
        mean = &p;
        return deviance_at(parameters);
    }

    // Every row's class has a larger predictor than any other: looked for where none has a smaller one.
    bool separated() const { return on_top; }

    int64_t differentiate(double* gradient, Symmetric& H) {
        if (explained) return differentiate_others(gradient, H);
        const bool fresh = mean == &shared_p;
        const int64_t np = pairs(s.m);
        if (mean == &frozen_p && few_are_left()) return differentiate_few(gradient, H);
        if (!fresh) shared.reset(np, pairs(s.k), sparse);
        mine.reset(np, n_own_products(), sparse);
        slopes.assign((s.k + q) * tiled(s.m) + kTile, 0.0);
        if (fresh) slopes = null_slopes;
        for (int64_t first = 0; first < s.n; first += s.part) {
            const int64_t rows = std::min(s.part, s.n - first);
            look_up();
            const bool known = fresh && !null_weight.empty();
            double* w = known ? null_weight.data() + first * np : weight.data();
            double* r = known ? null_residual.data() + first * s.m : residual.data();
            if (!known) pull(first, rows, w, r);
            if (!fresh) add_shared(w, r, first, rows);
            if (q > 0) add_own(w, r, first, rows);
        }
        for (int64_t j = 0; j < s.k + q; ++j)
            std::copy_n(slopes.data() + j * tiled(s.m), s.m, gradient + j * s.m);
        H.resize(size());
        unpack_own(H);
        if (!fresh) unpack_shared(H);
        if (fresh) copy_leading(null_factor, H);
        return fresh ? s.k * s.m : 0;
    }

    // Half the gradient alone, at the present parameters.
    void slope(double* gradient) {
        slopes.assign((s.k + q) * tiled(s.m) + kTile, 0.0);
        for (int64_t first = 0; first < s.n; first += s.part) {
            const int64_t rows = std::min(s.part, s.n - first);
            look_up();
            pull_residual(first, rows, residual.data());
            add_slopes(residual.data(), first, rows);
        }
        for (int64_t j = 0; j < s.k + q; ++j) std::copy_n(slopes.data() + j * tiled(s.m), s.m, gradient + j * s.m);
    }

    // A factor of the Hessian at the fit on S with own columns, raised a little so that no direction is without curvature; false
    // where it would save nothing. Where derivatives are taken does not change.
    bool precondition(Symmetric& factor) {
        if (q == 0 || size() < kManyParameters) return false;
        const std::vector<double>* kept = mean;
        mean = &shared_p;
        unused.resize(size());
        const int64_t known = differentiate(unused.data(), factor);
        mean = kept;
        copy_leading(raised_factor, factor);
        for (int64_t i = known; i < size(); ++i) factor.row(i)[i] += raise;
        factorise(factor, known);
        return true;
    }

    // The Hessian itself in the place of the factor.
    void complete(Symmetric& H) const { copy_leading(null_hessian, H); }

    // z_c = v_c − Σ p_d v_d of every class, v = 0 for the first. Probabilities of 0 stay 0 whatever their z.
    FBED_HOT Reach reach(const double* step) {
        double low = 0, high = 0, far = 0;
        double centre[kMostRows], least[kMostRows], most[kMostRows], away[kMostRows];
        for (int64_t first = 0; first < s.n; first += s.part) {
            const int64_t rows = std::min(s.part, s.n - first);
            predict(step, first, rows);
            centre_of(first, rows, centre);
            std::fill(least, least + rows, kInfinite), std::fill(most, most + rows, 0.0), std::fill(away, away + rows, 0.0);
            for (int64_t c = 0; c <= s.m; ++c) {
                const double *v = predictor.data() + c * s.part, *pc = mean->data() + first * (s.m + 1) + c * rows;
#pragma omp simd
                for (int64_t i = 0; i < rows; ++i) {
                    least[i] = pc[i] > 0 && v[i] < least[i] ? v[i] : least[i];
                    most[i] = std::max(most[i], v[i]);
                    away[i] = std::max(away[i], std::abs(v[i]));
                }
            }
            for (int64_t i = 0; i < rows; ++i) {
                low = std::min(low, least[i] - centre[i]), high = std::max(high, most[i] - centre[i]);
                far = std::max(far, away[i]);
            }
        }
        return {P(high), low > -1.0 ? P(low) : kInfinite, far};
    }

    // Derivatives are taken at probabilities p̃ from now on: those whose z is below `bar` are set to 0, the others raised in
    // proportion, to sum up to 1. With z of a Newton step there, p̃(1 + z) still has the moments that the maximum has, and
    // its divergence from p is that from p̃ plus Σ a log(sum of the others): twice that is returned, infinite if none is
    // set to 0. Classes that were observed are left alone.
    FBED_HOT double freeze(const double* step, double bar) {
        if (mean != &frozen_p) frozen_p = *mean;
        mean = &frozen_p;
        double cost = 0, centre[kMostRows], lost[kMostRows];
        bool some = false;
        for (int64_t first = 0; first < s.n; first += s.part) {
            const int64_t rows = std::min(s.part, s.n - first);
            double* part = frozen_p.data() + first * (s.m + 1);
            predict(step, first, rows);
            centre_of(first, rows, centre);
            std::fill(lost, lost + rows, 0.0);
            for (int64_t c = 0; c <= s.m; ++c)
                for (int64_t i = 0; i < rows; ++i) {
                    if (predictor[c * s.part + i] - centre[i] >= bar || c == s.codes[first + i]) continue;
                    some = some || part[c * rows + i] > 0;
                    lost[i] += part[c * rows + i];
                    part[c * rows + i] = 0;
                }
            for (int64_t i = 0; i < rows; ++i)
                if (lost[i] > 0) {
                    double left = 0;
                    for (int64_t c = 0; c <= s.m; ++c) left += part[c * rows + i];
                    cost -= 2.0 * s.weights[first + i] * (lost[i] < 0.5 ? std::log1p(-lost[i]) : std::log(left));
                    for (int64_t c = 0; c <= s.m; ++c) part[c * rows + i] /= left;
                }
        }
        return some ? cost : kInfinite;
    }

    // The same for the least probabilities, as many as cost no more than `budget` together.
    double rest(double budget) {
        static constexpr int kLeast = -1100;  // exponents
        std::vector<double> sums(1 - kLeast + 1, 0.0);
        frozen_p = *mean;
        const auto place = [](double weight) { return std::clamp(exponent_of(weight), kLeast, 0) - kLeast; };
        for_others([&](double& p, double a) { sums[place(a * p)] += 4.0 * a * p; });
        int bar = 0;
        for (double sum = sums[0]; bar < -kLeast && sum <= budget; sum += sums[++bar]) {}
        for_others([&](double& p, double a) { p = place(a * p) < bar ? 0.0 : p; });
        double cost = 0;
        for (int64_t first = 0; first < s.n; first += s.part) {
            const int64_t rows = std::min(s.part, s.n - first);
            for (int64_t i = 0; i < rows; ++i) {
                double left = 0, lost = 0;
                for (int64_t c = 0; c <= s.m; ++c) {
                    const int64_t at = first * (s.m + 1) + c * rows + i;
                    left += frozen_p[at], lost += (*mean)[at] - frozen_p[at];
                }
                cost -= 2.0 * s.weights[first + i] * (lost < 0.5 ? std::log1p(-lost) : std::log(left));
                for (int64_t c = 0; c <= s.m; ++c) frozen_p[first * (s.m + 1) + c * rows + i] /= left;
            }
        }
        mean = &frozen_p;
        return cost;
    }

    void thaw(bool at_null) { mean = at_null ? &shared_p : &p, explained = false; }

    // Derivatives are taken at the fit on S from now on, but with the rows explained completely where own columns are not 0:
    // no coefficients of those do better there. Returns the deviance that these rows have lost; infinite, and nothing has
    // changed, if that is not below `limit`.
    double explain_own(double limit) {
        if (q == 0 || null_weight.empty()) return kInfinite;
        double cost = 0;
        for (int64_t i = 0; i < s.n && cost < limit; ++i)
            if (own_entries.count(i) > 0) cost -= 2.0 * s.weights[i] * std::log(shared_p[place(i, s.codes[i])]);
        if (!(cost < limit)) return kInfinite;
        frozen_p = shared_p;
        mean = &frozen_p, explained = true;
        for (int64_t i = 0; i < s.n; ++i)
            for (int64_t c = 0; own_entries.count(i) > 0 && c <= s.m; ++c) frozen_p[place(i, c)] = c == s.codes[i];
        return cost;
    }
    bool at_null() const { return mean == &shared_p; }

private:
    // Where the probability of a class is.
    int64_t place(int64_t i, int64_t c) const {
        const int64_t first = i / s.part * s.part;
        return first * (s.m + 1) + c * std::min(s.part, s.n - first) + i - first;
    }

    // At the fit on S, less the rows where own columns are not 0.
    int64_t differentiate_others(double* gradient, Symmetric& H) {
        const int64_t np = pairs(s.m);
        shared.reset(np, pairs(s.k), true);
        slopes.assign(null_slopes.size(), 0.0);
        for (int64_t i = 0; i < s.n; ++i) {
            if (own_entries.count(i) == 0) continue;
            s.entries.add_slopes(null_residual.data() + i * s.m, s.m, i, 1, slopes.data(), tiled(s.m));
            s.entries.add_pairs(null_weight.data() + i * np, np, i, 1, shared.values.data(), tiled(np));
        }
        std::fill(gradient, gradient + size(), 0.0);
        for (int64_t j = 0; j < s.k; ++j)
            for (int64_t c = 0; c < s.m; ++c) gradient[j * s.m + c] = null_slopes[j * tiled(s.m) + c] - slopes[j * tiled(s.m) + c];
        explained_hessian.resize(s.k * s.m);
        unpack_shared(explained_hessian);
        H.resize(size());
        for (int64_t i = 0; i < s.k * s.m; ++i)
            for (int64_t l = i; l < s.k * s.m; ++l) H.row(i)[l] = null_hessian.row(i)[l] - explained_hessian.row(i)[l];
        return 0;
    }

    // Whether so many probabilities are 0 that it pays to look at pairs of the others only.
    bool few_are_left() {
        if (sparse) return false;
        int64_t left = 0;
        in_play.assign(s.n, 0);
        for (int64_t first = 0; first < s.n; first += s.part) {
            const int64_t rows = std::min(s.part, s.n - first);
            const double* part = mean->data() + first * (s.m + 1);
            for (int64_t c = 0; c <= s.m; ++c)
                for (int64_t i = 0; i < rows; ++i) in_play[first + i] += part[c * rows + i] > 0;
        }
        for (int64_t i = 0; i < s.n; ++i) left += in_play[i] > 1 ? pairs(in_play[i]) : 0;
        return kFewer * left <= s.n * pairs(s.m);
    }

    // Derivatives where few classes a row are left.
    int64_t differentiate_few(double* gradient, Symmetric& H) {
        shared.reset_few(pairs(s.m), pairs(s.k));
        mine.reset_few(pairs(s.m), n_own_products());
        slope(gradient);
        for (int64_t first = 0; first < s.n; first += s.part) {
            look_up();
            add_few(first, std::min(s.part, s.n - first));
        }
        H.resize(size());
        unpack_own(H);
        unpack_shared(H);
        return 0;
    }

    // What a part of the rows adds to the sums of the pairs of classes that are left in them.
    FBED_HOT void add_few(int64_t first, int64_t rows) {
        const double* part = mean->data() + first * (s.m + 1);
        if (q > 0) multiply_own(first, rows);
        for (int64_t i = 0; i < rows; ++i) {
            if (in_play[first + i] < 2) continue;
            const double a = s.weights[first + i], *z = s.products.data() + (first + i) * pairs(s.k), *x = own_products.data() + i * n_own_products();
            int64_t count = 0;
            for (int64_t c = 0; c < s.m; ++c)
                if (const double p = part[(c + 1) * rows + i]; p > 0) left_class[count] = c, left_p[count++] = p;
            for (int64_t k = 0; k < count; ++k) {
                const int64_t c = left_class[k], begin = c * s.m - c * (c - 1) / 2 - c;
                double others = part[i];
                for (int64_t l = 0; l < count; ++l) others += l == k ? 0.0 : left_p[l];
                for (int64_t l = k; l < count; ++l) {
                    const double w = a * left_p[k] * (l == k ? others : -left_p[l]);
                    shared.add_pair(begin + left_class[l], w, z);
                    mine.add_pair(begin + left_class[l], w, x);
                }
            }
        }
    }

    int64_t n_own_products() const { return s.k * q + pairs(q); }

    // All probabilities above 0 of classes that were not observed, and the weight of their row.
    template <class F>
    void for_others(F f) {
        for (int64_t first = 0; first < s.n; first += s.part) {
            const int64_t rows = std::min(s.part, s.n - first);
            double* part = frozen_p.data() + first * (s.m + 1);
            for (int64_t c = 0; c <= s.m; ++c)
                for (int64_t i = 0; i < rows; ++i)
                    if (c != s.codes[first + i] && s.weights[first + i] * part[c * rows + i] > 0) f(part[c * rows + i], s.weights[first + i]);
        }
    }

    // Mean of the predictors over the classes.
    FBED_HOT void centre_of(int64_t first, int64_t rows, double* out) const {
        std::fill(out, out + rows, 0.0);
        for (int64_t c = 1; c <= s.m; ++c) {
            const double *v = predictor.data() + c * s.part, *pc = mean->data() + first * (s.m + 1) + c * rows;
#pragma omp simd
            for (int64_t i = 0; i < rows; ++i) out[i] += pc[i] * v[i];
        }
    }

    // Predictors of a part of the rows, one class after another; that of the first is 0.
    void predict(const double* parameters, int64_t first, int64_t rows) {
        if (sparse) {
            std::fill(predictor.begin(), predictor.begin() + rows, 0.0);
            return predict_entries(parameters, first, rows);
        }
        std::fill(predictor.begin(), predictor.end(), 0.0);
        double* out = predictor.data() + s.part;
        add_combinations(s.Z + first, s.n, parameters, s.m, s.k, rows, out, s.part);
        if (q > 0) add_combinations(own + first, s.n, parameters + s.k * s.m, s.m, q, rows, out, s.part);
    }

    void predict_entries(const double* parameters, int64_t first, int64_t rows) {
        std::fill(by_row.begin(), by_row.begin() + rows * s.m, 0.0);
        s.entries.add_predictors(parameters, s.m, first, rows, by_row.data());
        if (q > 0) own_entries.add_predictors(parameters + s.k * s.m, s.m, first, rows, by_row.data());
        for (int64_t c = 0; c < s.m; ++c)
            for (int64_t i = 0; i < rows; ++i) predictor[(c + 1) * s.part + i] = by_row[i * s.m + c];
    }

    FBED_HOT double deviance_at(const double* parameters) {
        double sum = 0;
        double top[kMostRows], total[kMostRows], observed[kMostRows];
        on_top = true;
        for (int64_t first = 0; first < s.n; first += s.part) {
            const int64_t rows = std::min(s.part, s.n - first);
            predict(parameters, first, rows);
            for (int64_t i = 0; i < rows; ++i) observed[i] = predictor[s.codes[first + i] * s.part + i];
            std::fill(top, top + rows, 0.0), std::fill(total, total + rows, 0.0);
            for (int64_t c = 1; c <= s.m; ++c)
#pragma omp simd
                for (int64_t i = 0; i < rows; ++i) top[i] = std::max(top[i], predictor[c * s.part + i]);
            if (on_top) on_top = ahead(first, rows, top, observed);
            for (int64_t c = 0; c <= s.m; ++c) {
                double* e = predictor.data() + c * s.part;
#pragma omp simd
                for (int64_t i = 0; i < rows; ++i) {
                    e[i] = exp_of_negative(e[i] - top[i]);
                    total[i] += e[i];
                }
            }
            for (int64_t i = 0; i < rows; ++i) {
                sum += s.weights[first + i] * (std::log(total[i]) + (top[i] - observed[i]));
                total[i] = 1.0 / total[i];
            }
            for (int64_t c = 0; c <= s.m; ++c) {
                double *e = predictor.data() + c * s.part, *pc = p.data() + first * (s.m + 1) + c * rows;
#pragma omp simd
                for (int64_t i = 0; i < rows; ++i) pc[i] = e[i] * total[i];
            }
        }
        return std::isfinite(sum) ? 2.0 * sum : kInfinite;
    }

    bool ahead(int64_t first, int64_t rows, const double* top, const double* observed) const {
        for (int64_t i = 0; i < rows; ++i)
            if (observed[i] < top[i]) return false;
        for (int64_t c = 0; c <= s.m; ++c)
            for (int64_t i = 0; i < rows; ++i)
                if (c != s.codes[first + i] && !(observed[i] > predictor[c * s.part + i])) return false;
        return true;
    }

    // Weights of all pairs of classes of a part of the rows, and their residuals.
    FBED_HOT void pull(int64_t first, int64_t rows, double* weight, double* residual) {
        const int64_t m = s.m, np = pairs(m);
        const double* part = mean->data() + first * (m + 1) + rows;  // the first class is left out
        const double* none = part - rows;
        for (int64_t c = 0; c < m; ++c)
            for (int64_t i = 0; i < rows; ++i) probability[i * m + c] = part[c * rows + i];
        for (int64_t i = 0; i < rows; ++i) {
            const double *pi = probability.data() + i * m, a = s.weights[first + i];
            double *w = weight + i * np, *r = residual + i * m;
            for (int64_t c = 0; c < m; ++c) {
                const double t = -a * pi[c];
                r[c] = t;
                for (int64_t d = c; d < m; ++d) w[d - c] = t * pi[d];
                w[0] = -t * (pi[c] <= 0.5 ? 1.0 - pi[c] : others(c, pi, none[i]));
                w += m - c;
            }
            if (const int64_t c = s.codes[first + i] - 1; c >= 0) r[c] = a * others(c, pi, none[i]);
        }
    }

    // The residuals alone.
    FBED_HOT void pull_residual(int64_t first, int64_t rows, double* residual) const {
        const int64_t m = s.m;
        const double* part = mean->data() + first * (m + 1) + rows;  // the first class is left out
        for (int64_t c = 0; c < m; ++c)
            for (int64_t i = 0; i < rows; ++i) residual[i * m + c] = -s.weights[first + i] * part[c * rows + i];
        for (int64_t i = 0; i < rows; ++i)
            if (const int64_t c = s.codes[first + i] - 1; c >= 0) {
                double sum = 0;
                for (int64_t d = -1; d < m; ++d) sum += d == c ? 0.0 : part[d * rows + i];
                residual[i * m + c] = s.weights[first + i] * sum;
            }
    }

    // 1 − p_c to all its digits, which decide where most rows are certain.
    double others(int64_t c, const double* pi, double first_class) const {
        double sum = first_class;
        for (int64_t d = 0; d < s.m; ++d)
            if (d != c) sum += pi[d];
        return sum;
    }

    // What rows of residuals r add to the slopes of all columns.
    void add_slopes(const double* r, int64_t first, int64_t rows) {
        double* own_slopes = slopes.data() + s.k * tiled(s.m);
        if (sparse) {
            s.entries.add_slopes(r, s.m, first, rows, slopes.data(), tiled(s.m));
            return own_entries.add_slopes(r, s.m, first, rows, own_slopes, tiled(s.m));
        }
        add_products(r, s.m, s.rows.data() + first * s.k, s.k, rows, slopes.data());
        add_products(r, s.m, own_rows.data() + first * q, q, rows, own_slopes);
    }

    // What rows of weights w and residuals r add to slopes and sums of pairs: those of the columns of S,
    void add_shared(const double* w, const double* r, int64_t first, int64_t rows) {
        if (sparse) {
            s.entries.add_slopes(r, s.m, first, rows, slopes.data(), tiled(s.m));
            return s.entries.add_pairs(w, pairs(s.m), first, rows, shared.values.data(), tiled(pairs(s.m)));
        }
        add_products(r, s.m, s.rows.data() + first * s.k, s.k, rows, slopes.data());
        shared.add(w, s.products.data() + first * pairs(s.k), rows);
    }

    // and those with own ones.
    void add_own(const double* w, const double* r, int64_t first, int64_t rows) {
        double* own_slopes = slopes.data() + s.k * tiled(s.m);
        if (sparse) {
            own_entries.add_slopes(r, s.m, first, rows, own_slopes, tiled(s.m));
            return own_entries.add_cross(s.entries, w, pairs(s.m), first, rows, mine.values.data(), tiled(pairs(s.m)));
        }
        add_products(r, s.m, own_rows.data() + first * q, q, rows, own_slopes);
        multiply_own(first, rows);
        mine.add(w, own_products.data(), rows);
    }

    // Products of own columns with all columns: those of S first, for one own column after another.
    FBED_HOT void multiply_own(int64_t first, int64_t rows) {
        double* out = own_products.data();
        for (int64_t i = 0; i < rows; ++i) {
            const double *z = s.rows.data() + (first + i) * s.k, *x = own_rows.data() + (first + i) * q;
            for (int64_t l = 0; l < q; ++l) {
                for (int64_t j = 0; j < s.k; ++j) *out++ = z[j] * x[l];
                for (int64_t j = 0; j <= l; ++j) *out++ = x[j] * x[l];
            }
        }
    }

    void unpack_shared(Symmetric& H) const {
        int64_t product = 0;
        for (int64_t j = 0; j < s.k; ++j)
            for (int64_t l = j; l < s.k; ++l) block(shared, product++, j, l, H);
    }

    void unpack_own(Symmetric& H) const {
        int64_t product = 0;
        for (int64_t l = s.k; l < s.k + q; ++l)
            for (int64_t j = 0; j <= l; ++j) block(mine, product++, j, l, H);
    }

    void block(const PairSums& sums, int64_t product, int64_t j, int64_t l, Symmetric& H) const {
        const int64_t m = s.m, apart = sums.apart();
        const double* from = sums.of(product);
        for (int64_t c = 0; c < m; ++c) {
            double* upper = H.row(j * m + c) + l * m;
            upper[c] = *from;
            from += apart;
            for (int64_t d = c + 1; d < m; ++d, from += apart) {
                upper[d] = *from;
                if (j != l) H.row(j * m + d)[l * m + c] = *from;
            }
        }
    }

    void prepare_null() {
        const int64_t kept = q;
        q = 0;
        mean = &p;
        unused.resize(s.k * s.m);
        differentiate(unused.data(), null_hessian);
        null_factor = null_hessian;
        factorise(null_factor, 0);
        raised_factor = null_hessian;
        raise = kRaised * null_hessian.largest();
        for (int64_t i = 0; i < raised_factor.size; ++i) raised_factor.row(i)[i] += raise;
        factorise(raised_factor, 0);
        q = kept;
        null_slopes = slopes;
        null_slopes.resize((s.k + q) * tiled(s.m) + kTile, 0.0);
        keep_null_weights();
    }

    // All candidates are first looked at where S is fitted: what the rows weigh there is computed once, if there is room.
    void keep_null_weights() {
        const int64_t np = pairs(s.m);
        if (s.n * np > kKept) return;
        null_weight.resize(s.n * np + kTile), null_residual.resize(s.n * s.m + kTile);
        for (int64_t first = 0; first < s.n; first += s.part)
            pull(first, std::min(s.part, s.n - first), null_weight.data() + first * np, null_residual.data() + first * s.m);
    }

    void copy_leading(const Symmetric& from, Symmetric& H) const {
        for (int64_t i = 0; i < from.size; ++i) std::copy_n(from.row(i) + i, from.size - i, H.row(i) + i);
    }
};

}  // namespace fbed
