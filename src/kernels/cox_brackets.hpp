// Intervals of deviances of survival times near a fitted model: with a column x more, or on the way to a smaller model.
//
// Steps are nearly Newton's: the Hessian of the model's own columns stays the one of the fit, what concerns x is up to date. So a
// step costs a few operations a value that is not 0, and wherever steps end, the deviance there is at least that of the maximum.
// How far it is from it: let u be the change of the linear predictors since the fit, R_e and R'_e the sums of hazards of term e
// before and after. A row's part of a risk set has changed by the factor exp(u_i)R_e/R'_e, which is c or more, so that the Hessian
// there is at least cH, H the one at the fit. With gradient g, λ² = gᵀH⁻¹g and κ² the largest xᵀH⁻¹x of a row, a direction of
// length s (in the Hessian there) moves no two rows apart by more than 2κs/√c. Third derivatives are at most that times the second, so
// a deviance that is lower lies within a distance at which the Hessian has not halved as long as 8κλ <= c; and by Taylor's formula
//
//     deviance there − 1.25λ²/c  <=  least deviance  <=  deviance there.
//
// Rows that survive and have no hazard left are *gone*: risk sets without them have lower deviances, and nearly the same ones. A
// column that is not 0, with one sign, on survivors only sends them there: its coefficient is infinite and its rows T are gone. What they
// take from the Hessian is known: with τ_i = Σ_e p_e(i)(x_i − x̄_e)ᵀH⁻¹(x_i − x̄_e), p a row's part of a risk set, and q their largest
// part together, it is at most Στ_i/(1 − q)² of it. (T's own mean apart, Σ_T p(v − a)² <= Σ_T p(v − v̄)²/(1 − q)², a the mean without T.)
//
// Partial likelihoods do not change when a column is shifted: columns are given less their most common value, so that words and levels
// are mostly 0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cox_models.hpp"
#include "linear.hpp"
#include "partial_likelihood.hpp"
#include "pause.hpp"

namespace fbed {

// Columns without their zeros, rows in the order of their times.
struct NonZeros {
    std::vector<int64_t> begin{0}, row;
    std::vector<double> value;

    // The column's entries on the rows that are gone (predictor −∞), or on the others.
    void add(const double* column, const CoxOrder& r, const std::vector<double>& eta, bool gone) {
        for (int64_t i = 0; i < r.n; ++i)
            if (const double v = column[r.order[i]]; v != 0.0 && std::isfinite(eta[i]) != gone) row.push_back(i), value.push_back(v);
        begin.push_back(static_cast<int64_t>(row.size()));
    }
    void clear() { begin.assign(1, 0), row.clear(), value.clear(); }
    int64_t size() const { return static_cast<int64_t>(begin.size()) - 1; }

    double product(int64_t j, const double* v) const {
        double sum = 0;
        for (int64_t q = begin[j]; q < begin[j + 1]; ++q) sum += value[q] * v[row[q]];
        return sum;
    }
    void move(int64_t j, double by, double* v) const {
        if (by != 0.0)
            for (int64_t q = begin[j]; q < begin[j + 1]; ++q) v[row[q]] += by * value[q];
    }
};

// H times a column beside the rows: its products with other columns are their entries of the Hessian.
inline void bend(PartialLikelihood& at, const CoxOrder& r, const double* x, const double* expected, std::vector<double>& mean,
                 double* out) {
    at.per_term(x, mean.data());
    for (int64_t e = 0; e < r.n_terms; ++e) mean[e] *= r.multiplicity[e] / (at.denominator[e] * at.denominator[e]);
    at.spread(mean.data(), out);
    for (int64_t i = 0; i < r.n; ++i) out[i] = expected[i] * x[i] - out[i];
}

// What a fitted model shares with all its neighbours.
class CoxFitted {
    static constexpr double kSteady = 1e-7;   // least pivot of a Hessian whose solutions are right
    static constexpr double kGone = 1e-7;     // expected events of a row that is as good as out of all risk sets
    static constexpr int64_t kMost = 1 << 22;  // values of whitened rows that are worth their memory

public:
    static constexpr double kNever = std::numeric_limits<double>::infinity();

    const CoxOrder& r;
    double range, deviance = 0;      // of all rows
    int64_t k = 0;                   // columns that move rows which are not gone
    NonZeros columns, beyond;        // on the rows that are at risk, and on those who are gone
    std::vector<double> predictor;   // of all rows
    std::vector<double> eta;         // −∞ where a row is gone
    std::vector<double> factor, reach, taken, log_risk;  // κ² and τ of rows, log R of terms

    CoxFitted(const CoxOrder& rows, double widest, const double* X, int64_t size, const double* fitted, bool with_more)
        : r(rows), range(widest), predictor(rows.n), reach(rows.n, 0.0), taken(rows.n, kNever), log_risk(rows.n_terms) {
        for (int64_t i = 0; i < r.n; ++i) predictor[i] = fitted[r.order[i]];
        PartialLikelihood there(r, range);
        if (!there.look(predictor.data(), deviance)) return;
        std::vector<double> share(r.n_terms), expected(r.n);
        there.expect(share.data(), expected.data());
        eta = predictor;
        for (int64_t i = 0; i < r.n; ++i)
            if (r.event_weights[i] == 0.0 && expected[i] < kGone) eta[i] = -kNever;
        for (int64_t j = 0; j < size; ++j)
            if (moves(X + j * r.n)) columns.add(X + j * r.n, r, eta, false), beyond.add(X + j * r.n, r, eta, true);
        k = columns.size();
        double kept;
        if (!there.look(eta.data(), kept)) return;
        there.expect(share.data(), expected.data());
        for (int64_t e = 0; e < r.n_terms; ++e) log_risk[e] = std::log(there.denominator[e]) + there.top;
        factorise(there, expected);
        if (sound()) measure(there, expected, with_more);
    }

    bool sound() const { return steady_ > kSteady; }

    void forward(double* b) const {
        for (int64_t i = 0; i < k; ++i) {
            const double* row = factor.data() + i * k;
            b[i] = (b[i] - dot(row, b, static_cast<size_t>(i))) / row[i];
        }
    }
    void backward(double* b) const {
        for (int64_t i = k; i-- > 0;) {
            const double *row = factor.data() + i * k, t = b[i] /= row[i];
            for (int64_t l = 0; l < i; ++l) b[l] -= row[l] * t;
        }
    }

    // Whether a column moves rows that are not gone.
    bool moves(const double* column) const {
        for (int64_t i = 0; i < r.n; ++i)
            if (column[r.order[i]] != 0.0 && std::isfinite(eta[i])) return true;
        return false;
    }

private:
    double steady_ = 0;

    void factorise(PartialLikelihood& there, const std::vector<double>& expected) {
        std::vector<double> column(r.n), bent(r.n), mean(r.n_terms);
        factor.assign(k * k, 0.0);
        for (int64_t j = 0; j < k; ++j) {
            look_up();
            std::fill(column.begin(), column.end(), 0.0);
            columns.move(j, 1.0, column.data());
            bend(there, r, column.data(), expected.data(), mean, bent.data());
            for (int64_t l = 0; l <= j; ++l) factor[j * k + l] = columns.product(l, bent.data());
        }
        steady_ = k ? cholesky(factor.data(), k) : 1.0;
    }

    // Rows as L⁻¹x, and from them κ² and, where columns are to come, τ.
    void measure(PartialLikelihood& there, const std::vector<double>& expected, bool with_more) {
        std::vector<std::vector<std::pair<int64_t, double>>> of_row(r.n);
        for (int64_t j = 0; j < k; ++j)
            for (int64_t q = columns.begin[j]; q < columns.begin[j + 1]; ++q) of_row[columns.row[q]].emplace_back(j, columns.value[q]);
        std::vector<double> inverse(k * k, 0.0), sum(k), rows;  // column j of L⁻¹ is row j
        for (int64_t j = 0; j < k; ++j) {
            look_up();
            inverse[j * k + j] = 1.0;
            forward(inverse.data() + j * k);
        }
        const bool all = with_more && r.n * k <= kMost;
        if (all) rows.assign(r.n * k, 0.0);  // column after column
        for (int64_t i = 0; i < r.n; ++i) {
            std::fill(sum.begin(), sum.end(), 0.0);
            for (const auto& [j, v] : of_row[i])
                for (int64_t l = j; l < k; ++l) sum[l] += v * inverse[j * k + l];
            reach[i] = dot(sum.data(), sum.data(), static_cast<size_t>(k));
            for (int64_t l = 0; all && l < k; ++l) rows[l * r.n + i] = sum[l];
        }
        if (all) weigh(there, expected, rows);
    }

    // τ_i = Σ_e p_e(i)|f_i − f̄_e|² of rows f.
    void weigh(PartialLikelihood& there, const std::vector<double>& expected, const std::vector<double>& rows) {
        std::vector<double> mean(r.n_terms), squares(r.n_terms, 0.0), part(r.n);
        for (int64_t i = 0; i < r.n; ++i) taken[i] = expected[i] * reach[i];
        for (int64_t l = 0; l < k; ++l) {
            look_up();
            const double* f = rows.data() + l * r.n;
            there.per_term(f, mean.data());
            for (int64_t e = 0; e < r.n_terms; ++e) {
                const double average = mean[e] / there.denominator[e];
                mean[e] = average * r.multiplicity[e] / there.denominator[e];
                squares[e] += average * mean[e];
            }
            there.spread(mean.data(), part.data());
            for (int64_t i = 0; i < r.n; ++i) taken[i] -= 2.0 * f[i] * part[i];
        }
        there.spread(squares.data(), part.data());
        for (int64_t i = 0; i < r.n; ++i) taken[i] = std::max(taken[i] + part[i], 0.0);
    }
};

class CoxNeighbour {
    static constexpr double kRounding = 1e-8, kSharp = 1e-9, kStride = 2.0, kApart = 1e-9, kNear = 1e-2, kFar = 30.0, kLeastLeft = 0.1;
    static constexpr double kNever = CoxFitted::kNever;
    static constexpr int kSteps = 40, kAlong = 12, kHalvings = 12;

    const CoxFitted& f_;
    const CoxOrder& r_;
    PartialLikelihood likelihood_;
    double value_ = 0;                 // deviance without those who are gone
    NonZeros x_;                       // the column more, if there is one that still moves rows
    bool pure_ = false;                // whether its rows have left
    double left_ = 1;                  // part of the Hessian that they have left
    double before_ = 0;                // what the model leaves of the information of x at the fit,
    std::vector<double> cross_;        // and L⁻¹ times its entries of the Hessian with the model's columns there
    double gradient_x_ = 0, own_ = 0;  // slope and curvature of x where we are
    std::vector<double> eta_, trial_, dense_, share_, expected_, bent_, mean_, slope_, along_, step_, moved_;
    double moved_x_ = 0;

public:
    explicit CoxNeighbour(const CoxFitted& fitted)
        : f_(fitted), r_(fitted.r), likelihood_(fitted.r, fitted.range), cross_(fitted.k), eta_(r_.n), trial_(r_.n), dense_(r_.n, 0.0),
          share_(r_.n_terms), expected_(r_.n), bent_(r_.n), mean_(r_.n_terms), slope_(fitted.k), along_(fitted.k), step_(fitted.k),
          moved_(fitted.k) {}

    // The interval of the likelihood ratio of a column beside the fit, and about how the predictors of the maximum differ, in Python's order.
    void enclose(const double* column, double& lower, double& upper, double* move) {
        lower = 0, upper = kNever;
        std::fill(move, move + r_.n, 0.0);
        begin();
        if (f_.moves(column)) x_.add(column, r_, f_.eta, false), leave();
        if (!likelihood_.look(eta_.data(), value_) || !(left_ > 0)) return;
        if (moves_column()) {
            if (!prepare_column()) return;
            climb_along();
        }
        const double missing = climb(), least = value_ - missing;
        double real;
        if (!really(column, move, real)) return;
        const double gain = std::max(f_.deviance - real, 0.0), most = std::max(f_.deviance - least, gain), rounding = kRounding * (1.0 + most);
        lower = std::max(0.0, gain - rounding), upper = most + rounding;
    }

    // The interval of the least deviance of the model, from where it is.
    void settle(double& lower, double& upper) {
        lower = 0, upper = kNever;
        begin();
        if (!likelihood_.look(eta_.data(), value_)) return;
        const double missing = climb();
        trial_ = f_.predictor;
        move_model(trial_);
        if (!likelihood_.look(trial_.data(), upper)) return;
        lower = std::max(0.0, std::min(value_ - missing, upper) - kRounding * (1.0 + f_.deviance - value_));
    }

private:
    bool with_column() const { return x_.size() > 0; }
    bool moves_column() const { return with_column() && !pure_; }

    void begin() {
        eta_ = f_.eta;
        x_.clear();
        pure_ = false, left_ = 1, moved_x_ = 0;
        std::fill(moved_.begin(), moved_.end(), 0.0);
    }

    // Survivors on whom x has one sign leave all risk sets.
    void leave() {
        const auto [least, most] = std::minmax_element(x_.value.begin(), x_.value.end());
        const auto dies = [&](int64_t i) { return r_.event_weights[i] != 0.0; };
        double value;
        if ((*least < 0 && *most > 0) || std::any_of(x_.row.begin(), x_.row.end(), dies) || !likelihood_.look(eta_.data(), value)) return;
        pure_ = true;
        double taken = 0, largest = 0;
        std::fill(dense_.begin(), dense_.end(), 0.0);
        for (const int64_t i : x_.row) taken += f_.taken[i], dense_[i] = 1.0, eta_[i] = -kNever;
        likelihood_.per_term(dense_.data(), mean_.data());
        for (int64_t e = 0; e < r_.n_terms; ++e) largest = std::max(largest, mean_[e] / likelihood_.denominator[e]);
        left_ = f_.k ? 1.0 - taken / ((1.0 - largest) * (1.0 - largest)) : 1.0;
        if (!(left_ > kLeastLeft)) left_ = 0;
    }

    bool prepare_column() {
        std::fill(dense_.begin(), dense_.end(), 0.0);
        x_.move(0, 1.0, dense_.data());
        slopes(true);
        cross_ = along_;
        f_.forward(cross_.data());
        before_ = own_ - inner(cross_, cross_);
        return before_ > kApart * own_;
    }

    // Slopes where we are, and what x bends: its curvature, and that with the model's columns if they are asked for.
    void slopes(bool with_model) {
        likelihood_.expect(share_.data(), expected_.data());
        if (moves_column()) {
            bend(likelihood_, r_, dense_.data(), expected_.data(), mean_, bent_.data());
            own_ = x_.product(0, bent_.data());
        }
        for (int64_t i = 0; i < r_.n; ++i) expected_[i] = r_.event_weights[i] - expected_[i];
        gradient_x_ = moves_column() ? x_.product(0, expected_.data()) : 0.0;
        for (int64_t j = 0; with_model && j < f_.k; ++j) {
            slope_[j] = f_.columns.product(j, expected_.data());
            if (moves_column()) along_[j] = f_.columns.product(j, bent_.data());
        }
    }

    // Steps of x alone: rare words go far, and the model hardly moves.
    void climb_along() {
        double widest = 0;
        for (const double v : x_.value) widest = std::max(widest, std::abs(v));
        for (int i = 0; i < kAlong && own_ > 0 && gradient_x_ * gradient_x_ > kNear * own_; ++i) {
            look_up();
            std::fill(step_.begin(), step_.end(), 0.0);
            if (!advance(std::clamp(gradient_x_ / own_, -kStride / widest, kStride / widest))) return;
            slopes(false);
        }
    }

    // Steps of everything; returns how much lower the deviance may be than where they end.
    double climb() {
        double missing = kNever;
        for (int i = 0; i < kSteps; ++i) {
            look_up();
            slopes(true);
            f_.forward(slope_.data());
            missing = std::min(missing_here(), missing);
            if (missing <= kSharp * (1.0 + std::abs(f_.deviance - value_))) break;
            double delta = 0;
            if (moves_column()) {
                f_.forward(along_.data());
                const double left = own_ - inner(along_, along_);
                if (!(left > kApart * own_)) break;
                delta = (gradient_x_ - inner(along_, slope_)) / left;
            }
            for (int64_t j = 0; j < f_.k; ++j) step_[j] = slope_[j] - (moves_column() ? delta * along_[j] : 0.0);
            f_.backward(step_.data());
            const double was = value_;
            if (!advance(delta)) break;
            missing -= was - value_;  // known of the last place, and here so much less
        }
        return std::max(missing, 0.0);
    }

    double inner(const std::vector<double>& a, const std::vector<double>& b) const { return dot(a.data(), b.data(), static_cast<size_t>(f_.k)); }

    // Along `step_` and by `delta` along x, halved until the deviance falls.
    bool advance(double delta) {
        double size = 1.0;
        for (int i = 0; i < kHalvings; ++i, size /= 2) {
            trial_ = eta_;
            for (int64_t j = 0; j < f_.k; ++j) f_.columns.move(j, size * step_[j], trial_.data());
            if (moves_column()) x_.move(0, size * delta, trial_.data());
            double there;
            if (!likelihood_.look(trial_.data(), there) || !(there < value_)) continue;
            std::swap(eta_, trial_);
            value_ = there;
            for (int64_t j = 0; j < f_.k; ++j) moved_[j] += size * step_[j];
            moved_x_ += size * delta;
            return true;
        }
        likelihood_.look(eta_.data(), value_);
        return false;
    }

    // 1.25λ²/c where that holds; `slope_` is L⁻¹ times the slopes of the model's columns.
    double missing_here() {
        double squared = inner(slope_, slope_);
        const double own = moves_column() ? gradient_x_ - inner(cross_, slope_) : 0.0;
        if (moves_column()) squared += own * own / before_;
        const double c = left_ * least_factor();
        if (!(8.0 * std::sqrt(furthest() * squared) <= c)) return kNever;
        return 1.25 * squared / c;
    }

    // The least exp(u)R/R' of a row at risk.
    double least_factor() const {
        double least = kNever, factor = 0;
        int64_t i = r_.n;
        for (int64_t e = r_.n_terms; e-- > 0;) {
            for (const int64_t first = r_.first[r_.term_group[e]]; i > first; --i)
                if (std::isfinite(eta_[i - 1])) least = std::min(least, eta_[i - 1] - f_.eta[i - 1]);
            factor = std::min(factor, least + f_.log_risk[e] - std::log(likelihood_.denominator[e]) - likelihood_.top);
        }
        return std::exp(factor);
    }

    // κ² of the model with x.
    double furthest() {
        double most = 0;
        std::vector<double>& beside = bent_;
        if (moves_column()) {
            beside = dense_;
            step_ = cross_;
            f_.backward(step_.data());
            for (int64_t j = 0; j < f_.k; ++j) f_.columns.move(j, -step_[j], beside.data());
        }
        for (int64_t i = 0; i < r_.n; ++i)
            if (std::isfinite(eta_[i])) most = std::max(most, f_.reach[i] + (moves_column() ? beside[i] * beside[i] / before_ : 0.0));
        return most;
    }

    // By what the model's coefficients have moved.
    void move_model(std::vector<double>& predictor) const {
        for (int64_t j = 0; j < f_.k; ++j) f_.columns.move(j, moved_[j], predictor.data()), f_.beyond.move(j, moved_[j], predictor.data());
    }

    // The deviance with those who were gone where the coefficients take them; those who leave with x are as far as need be.
    bool really(const double* column, double* move, double& deviance) {
        std::vector<double>& there = trial_;
        there = f_.predictor;
        move_model(there);
        double least = kNever;
        for (const double v : x_.value) least = std::min(least, std::abs(v));
        const double by = pure_ ? -std::copysign(kFar / least, x_.value.front()) : moved_x_;
        for (int64_t i = 0; i < r_.n; ++i) {
            there[i] += by * column[r_.order[i]];
            move[r_.order[i]] = there[i] - f_.predictor[i];
        }
        for (size_t q = 0; pure_ && q < x_.row.size(); ++q) there[x_.row[q]] = -kNever;
        return likelihood_.look(there.data(), deviance);
    }
};

// Python's view: the model on columns X (less their most common values) that was fitted with some predictors.
struct CoxBrackets {
    CoxFits of;  // keeps the order of the rows alive
    CoxFitted fitted;

    CoxBrackets(const CoxFits& fits, ColumnMajor X, Vector predictor)
        : of(fits), fitted(of.rows, of.rules.range, checked(fits, X, predictor), static_cast<int64_t>(X.shape(1)), predictor.data(), true) {}

    static const double* checked(const CoxFits& fits, const ColumnMajor& X, const Vector& predictor) {
        const size_t n = static_cast<size_t>(fits.rows.n);
        require(X.shape(0) == n && predictor.shape(0) == n, "sizes");
        return X.data();
    }

    std::tuple<OutVector, OutVector, OutMatrix> enclose(ColumnMajor X) const {
        const size_t n = static_cast<size_t>(fitted.r.n), count = X.shape(1);
        require(X.shape(0) == n && fitted.sound(), "sizes");
        double *lower, *upper, *move;
        OutVector low = new_vector(count, lower), high = new_vector(count, upper);
        OutMatrix moves = new_columns(n, count, move);
        nb::gil_scoped_release release;
        CoxNeighbour near(fitted);
        for (size_t j = 0; j < count; ++j) near.enclose(X.data() + j * n, lower[j], upper[j], move + j * n);
        return {low, high, moves};
    }
};

// The interval of the least deviance of a model, from some predictors of it; open where nothing can be told.
inline std::tuple<double, double> settle_cox(const CoxFits& fits, ColumnMajor X, Vector predictor) {
    const double* columns = CoxBrackets::checked(fits, X, predictor);
    double lower = 0, upper = std::numeric_limits<double>::infinity();
    nb::gil_scoped_release release;
    const CoxFitted there(fits.rows, fits.rules.range, columns, static_cast<int64_t>(X.shape(1)), predictor.data(), false);
    if (there.sound()) CoxNeighbour(there).settle(lower, upper);
    return {lower, upper};
}

inline void bind_cox_brackets(nb::module_& m) {
    nb::class_<CoxBrackets>(m, "CoxBrackets")
        .def(nb::init<const CoxFits&, ColumnMajor, Vector>(), nb::arg("fits"), nb::arg("X"), nb::arg("predictor"))
        .def_prop_ro("sound", [](const CoxBrackets& b) { return b.fitted.sound(); })
        .def("enclose", &CoxBrackets::enclose);
    m.def("settle_cox", &settle_cox);
}

}  // namespace fbed
