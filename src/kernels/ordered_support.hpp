// Classes in order as `class_looks.hpp` sees them. A row is two logistic terms, one for each edge of its class (see ordered.hpp), of
// which `missed` is the probability that it is on the other side; the first class has no lower edge and the last no upper one.
//
// Terms that are next to certain, .001 of deviance together, are certain in what bounds from above.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "elementary.hpp"
#include "linear.hpp"
#include "ordered.hpp"
#include "row_entries.hpp"

namespace fbed {

class OrderedFitted {
    static constexpr double kSpent = 1e-3;

public:
    const OrderedRows& s;
    RowEntries z;
    std::vector<int64_t> code;
    std::vector<double> a, eta, theta, nu, missed;  // missed: [row][upper edge, lower edge], 0 where certain or without such an edge
    std::vector<double> furthest;  // |z| of a row by a step of length 1, at most
    double spent = 0, kappa = 0, kappa_gap = 0, total = 0, deviance = 0;
    std::vector<double> parameters;

    OrderedFitted(const OrderedRows& rows, const double* fitted)
        : s(rows), code(rows.n), a(rows.n), eta(rows.n, 0.0), theta(rows.n_classes, 0.0), nu(rows.n_classes, 0.0), missed(2 * rows.n, 0.0),
          parameters(fitted, fitted + rows.k + rows.n_classes - 2) {
        read_rows();
        for (int64_t i = 0; i < s.n; ++i) z.add_predictors(fitted, 1, i, 1, eta.data() + i);
        for (int64_t c = 1; c + 1 < s.n_classes; ++c) {
            theta[c] = fitted[s.k + c - 1];
            deviance -= 2.0 * s.total[c] * std::log(-std::expm1(theta[c - 1] - theta[c]));
            nu[c] = 1.0 / std::expm1(theta[c] - theta[c - 1]);
        }
        for (int64_t i = 0; i < s.n; ++i)
            for (int edge = 0; edge < 2; ++edge)
                if (has_edge(i, edge)) {
                    deviance += 2.0 * a[i] * loss(margin(i, edge));
                    missed[2 * i + edge] = set_aside(margin(i, edge), i, spent);
                }
    }

    int64_t size() const { return s.k + further(); }
    int64_t further() const { return s.n_classes - 2; }
    int64_t n_rows() const { return s.n; }
    const RowEntries& entries() const { return z; }
    double weight(int64_t i) const { return a[i]; }
    double total_weight() const { return total; }
    bool all_kept() const { return spent == 0; }

    bool has_edge(int64_t i, int edge) const { return edge == 0 ? code[i] + 1 < s.n_classes : code[i] > 0; }
    // θ_y − η and η − θ_{y−1}: how far a row is on its side
    double margin(int64_t i, int edge) const { return edge == 0 ? theta[code[i]] - eta[i] : eta[i] - theta[code[i] - 1]; }
    // Parameter of a row's edge, -1 for the first threshold, which is 0.
    int64_t threshold(int64_t i, int edge) const {
        const int64_t c = edge == 0 ? code[i] : code[i] - 1;
        return c == 0 ? -1 : s.k + c - 1;
    }
    static double sign(int edge) { return edge == 0 ? -1.0 : 1.0; }  // of η in a margin
    static double share_missed(double t) { return t > 0 ? std::exp(-t) / (1.0 + std::exp(-t)) : 1.0 / (1.0 + std::exp(t)); }
    static double loss(double t) { return t > 0 ? std::log1p(std::exp(-t)) : std::log1p(std::exp(t)) - t; }

    void differentiate(double* gradient, Symmetric& H) const {
        std::fill(gradient, gradient + size(), 0.0);
        H.resize(size());
        for (int64_t i = 0; i < s.n; ++i)
            for (int edge = 0; edge < 2; ++edge) {
                const double part = missed[2 * i + edge];
                if (!(part > 0)) continue;  // certain, or no such edge, which has no threshold either
                add_slope(i, edge, a[i] * part, gradient);
                add_block(i, edge, a[i] * part * (1.0 - part), H);
            }
        for (int64_t c = 1; c + 1 < s.n_classes; ++c) {  // the gap between the thresholds c − 1 and c
            const double slope = s.total[c] * nu[c], curved = slope * (1.0 + nu[c]);
            const int64_t j = s.k + c - 1;
            gradient[j] += slope, H.row(j)[j] += curved;
            if (c > 1) gradient[j - 1] -= slope, H.row(j - 1)[j - 1] += curved, H.row(j - 1)[j] -= curved;
        }
    }

    void look_at_rows(const Symmetric& inverse, double* leverage) {
        furthest.assign(s.n, 0.0);
        for (int64_t i = 0; i < s.n; ++i) {
            if (i % 1024 == 0) look_up();
            double both = 0;
            for (int64_t e = z.begin[i]; e < z.begin[i + 1]; ++e)
                for (int64_t f = z.begin[i]; f < z.begin[i + 1]; ++f) both += z.value[e] * z.value[f] * inverse.row(z.column[e])[z.column[f]];
            leverage[i] = 0;
            for (int edge = 0; edge < 2; ++edge) {
                const double part = missed[2 * i + edge];
                if (!(part > 0)) continue;
                double square = both;
                if (const int64_t j = threshold(i, edge); j >= 0) {
                    for (int64_t e = z.begin[i]; e < z.begin[i + 1]; ++e) square -= 2.0 * z.value[e] * inverse.row(z.column[e])[j];
                    square += inverse.row(j)[j];
                }
                square = std::max(0.0, square);
                leverage[i] += a[i] * part * (1.0 - part) * square;
                furthest[i] = std::max(furthest[i], std::max(part, 1.0 - part) * std::sqrt(square));
            }
            kappa = std::max(kappa, furthest[i]);
        }
        for (int64_t c = 1; c + 1 < s.n_classes; ++c) {
            const int64_t j = s.k + c - 1;
            double square = inverse.row(j)[j];
            if (c > 1) square += inverse.row(j - 1)[j - 1] - 2.0 * inverse.row(j - 1)[j];
            kappa_gap = std::max(kappa_gap, (1.0 + nu[c]) * std::sqrt(std::max(0.0, square)));
        }
    }

    double above(double length, double far) const {
        if (!(far * length < 1.0) || !(kappa_gap * length < 1.0)) return kInfinite;
        return std::max(P(-far * length), gap_factor(kappa_gap * length));
    }

    // Where the coefficients of a column are.
    int64_t first_of(int64_t j) const { return j; }
    int64_t coefficients_of_column() const { return 1; }

    // What is missed of an edge, 0 if that is next to nothing, which then costs something.
    double set_aside(double t, int64_t i, double& cost) const {
        const double part = share_missed(t), bar = kSpent / (4.0 * static_cast<double>(s.n));
        if (a[i] * part >= bar) return part;
        cost += 2.0 * a[i] * loss(t);
        return 0;
    }

    // slope += t times the derivative of a margin in the parameters of S
    void add_slope(int64_t i, int edge, double t, double* slope) const {
        const double sign = OrderedFitted::sign(edge);
        for (int64_t e = z.begin[i]; e < z.begin[i + 1]; ++e) slope[z.column[e]] += sign * t * z.value[e];
        if (const int64_t j = threshold(i, edge); j >= 0) slope[j] -= sign * t;
    }

    // H += w times the product of that derivative with itself
    void add_block(int64_t i, int edge, double w, Symmetric& H) const {
        const int64_t j = threshold(i, edge);
        for (int64_t e = z.begin[i]; e < z.begin[i + 1]; ++e) {
            double* row = H.row(z.column[e]);
            for (int64_t f = e; f < z.begin[i + 1]; ++f) row[z.column[f]] += w * z.value[e] * z.value[f];
            if (j >= 0) row[j] -= w * z.value[e];
        }
        if (j >= 0) H.row(j)[j] += w;
    }

    // How far a step of S moves a margin.
    double moved(int64_t i, int edge, const double* e) const {
        double v = 0;
        for (int64_t q = z.begin[i]; q < z.begin[i + 1]; ++q) v += z.value[q] * e[z.column[q]];
        if (const int64_t j = threshold(i, edge); j >= 0) v -= e[j];
        return sign(edge) * v;
    }

    // Largest z of a gap.
    double widest_gap(const double* e) const {
        double most = 0;
        for (int64_t c = 1; c + 1 < s.n_classes; ++c) {
            const int64_t j = s.k + c - 1;
            most = std::max(most, (1.0 + nu[c]) * (e[j] - (c > 1 ? e[j - 1] : 0.0)));
        }
        return most;
    }

    // Half the deviance of the gaps at a step, less that of the fit.
    double gaps_lost(const double* e) const {
        double sum = 0;
        for (int64_t c = 1; c + 1 < s.n_classes; ++c) {
            const int64_t j = s.k + c - 1;
            const double gap = theta[c] - theta[c - 1], there = gap + e[j] - (c > 1 ? e[j - 1] : 0.0);
            if (!(there > 0)) return kInfinite;
            sum += s.total[c] * (std::log(-std::expm1(-gap)) - std::log(-std::expm1(-there)));
        }
        return sum;
    }

private:
    void read_rows() {
        std::vector<double> columns(s.Z.size());
        std::vector<int64_t> place(s.n);
        for (int64_t c = 0; c < s.n_classes; ++c)
            for (int64_t q = s.first[c]; q < s.first[c + 1]; ++q) {
                const int64_t i = s.order[q];
                code[i] = c, a[i] = s.weights[q], total += a[i], place[i] = q;
                for (int64_t j = 0; !s.sparse && j < s.k; ++j) columns[j * s.n + i] = s.Z[j * s.n + q];
            }
        if (s.sparse) z = s.entries.in_order(place);
        else z.assign(columns.data(), s.n, s.k);
    }
};

// The rows T of one column after another; x is in units of its largest value.
class OrderedSupport {
    static constexpr double kStride = 3.0, kArrived = 1e-20, kFar = 200.0, kHarmless = 1e-3, kGone = 25.0, kAlike = 0.02;
    static constexpr double kSmallest = 1e-3;  // of the largest value: beside less, fits end before they have explained its rows
    static constexpr int kSteps = 60, kHalves = 30;

    const OrderedFitted& f;
    int64_t T = 0;
    bool pure = false, leaves = false;
    std::vector<int64_t> at;
    std::vector<double> x, there;  // there: missed at b, [row of T][edge]
    double b = 0, slope = 0, curved = 0, unit = 1;
    std::tuple<bool, double, std::vector<double>, double, double, double, double, double> at_maximum;

public:
    double gained = 0, certain = 0, left = 0, aside = 0;

    explicit OrderedSupport(const OrderedFitted& fit) : f(fit) {}

    int64_t own() const { return pure || leaves ? 0 : 1; }
    int64_t row_count() const { return T; }
    int64_t row(int64_t q) const { return at[q]; }

    // Back to where x has no coefficient yet.
    void go_to_fit() {
        at_maximum = {pure, b, there, slope, curved, gained, certain, left};
        pure = false, b = gained = certain = left = 0;
        std::fill(there.begin(), there.end(), 0.0);
        look_along();
    }
    void return_to_maximum() { std::tie(pure, b, there, slope, curved, gained, certain, left) = std::move(at_maximum); }

    bool take(const std::vector<int32_t>& rows, const std::vector<double>& values, int64_t count) {
        T = count, b = 0, left = 0, leaves = false;
        at.assign(rows.begin(), rows.begin() + count), x.assign(values.begin(), values.begin() + count);
        there.assign(2 * T, 0.0);
        unit = 0;
        for (double v : x) unit = std::max(unit, std::abs(v));
        for (double v : x)
            if (!(std::abs(v) > kSmallest * unit)) return false;
        bool up = true, down = true;  // whether all rows are explained as b rises, or falls
        for (int64_t q = 0; q < T; ++q) {
            x[q] /= unit;
            const int64_t last = f.s.n_classes - 1, code = f.code[at[q]];
            up = up && code == (x[q] > 0 ? last : 0), down = down && code == (x[q] > 0 ? 0 : last);
        }
        pure = up || down;
        if (pure) {
            gained = lost(false), certain = lost(true);
            return std::isfinite(gained);
        }
        if (!maximise()) return false;
        certain = f.all_kept() ? gained : value_at(b, true);
        look_along();
        return std::isfinite(gained) && std::isfinite(certain);
    }

    // The rows of a column of S without what its coefficient has told of them.
    bool leave(int64_t j, const std::vector<int32_t>& rows, const std::vector<double>& values, int64_t count) {
        T = count, b = -f.parameters[j], left = aside = 0, pure = false, leaves = true;
        at.assign(rows.begin(), rows.begin() + count), x.assign(values.begin(), values.begin() + count);
        there.assign(2 * T, 0.0);
        for (int64_t q = 0; q < T; ++q)
            for (int edge = 0; edge < 2; ++edge)
                if (f.has_edge(at[q], edge))
                    there[2 * q + edge] = f.set_aside(f.margin(at[q], edge) + OrderedFitted::sign(edge) * x[q] * b, at[q], aside);
        gained = certain = value_at(b, true);
        return std::isfinite(gained);
    }

    void move_slope(double* out) const {
        for (int64_t q = 0; q < T; ++q)
            for (int edge = 0; edge < 2; ++edge) {
                const double change = there[2 * q + edge] - f.missed[2 * at[q] + edge];
                if (change != 0) f.add_slope(at[q], edge, f.a[at[q]] * change, out);
            }
    }

    void border(Symmetric& H, double* own_slope) {
        const int64_t K = f.size();
        for (int64_t q = 0; q < T; ++q)
            for (int edge = 0; edge < 2; ++edge) {
                const int64_t i = at[q];
                const double here = f.missed[2 * i + edge], now = there[2 * q + edge], w = f.a[i] * now * (1.0 - now);
                if (here != now) f.add_block(i, edge, w - f.a[i] * here * (1.0 - here), H);
                if (own() == 0 || !(w > 0)) continue;
                for (int64_t e = f.z.begin[i]; e < f.z.begin[i + 1]; ++e) H.row(f.z.column[e])[K] += w * x[q] * f.z.value[e];
                if (const int64_t j = f.threshold(i, edge); j >= 0) H.row(j)[K] -= w * x[q];
                H.row(K)[K] += w * x[q] * x[q];
            }
        if (own() > 0) *own_slope = slope;
    }

    // Where the step leads: the coefficient of x as it is, far out if it is infinite.
    void end(const double* e, double* out) const {
        if (!pure) {
            *out = (b + e[f.size()]) / unit;
            return;
        }
        double nearest = 1.0;
        for (double v : x) nearest = std::min(nearest, std::abs(v));
        const bool up = (x[0] > 0) == (f.code[at[0]] > 0);
        const double away = nearest > kAlike ? kGone / nearest : std::numeric_limits<double>::quiet_NaN();
        *out = (up ? away : -away) / unit;
    }

    double reach(const double* e) const {
        double low = 0;
        for (int64_t q = 0; q < T; ++q)
            for (int edge = 0; edge < 2; ++edge)
                if (const double part = there[2 * q + edge]; part > 0)
                    low = std::min(low, least(part, f.moved(at[q], edge, e) + (own() == 0 ? 0.0 : OrderedFitted::sign(edge) * x[q] * e[f.size()])));
        return low;
    }

    double reach_elsewhere(const double* e, double length, double low) const {
        low = std::min(low, -kHarmless);
        size_t next = 0;
        for (int64_t i = 0; i < f.s.n; ++i) {
            const bool mine = next < at.size() && at[next] == i;
            next += mine;
            if (mine || f.furthest[i] * length <= -low) continue;
            for (int edge = 0; edge < 2; ++edge)
                if (const double part = f.missed[2 * i + edge]; part > 0) low = std::min(low, least(part, f.moved(i, edge, e)));
        }
        return low;
    }

    double above(double low, const double* e) const {
        const double gap = f.widest_gap(e);
        return low > -1.0 && gap < 1.0 ? std::max(P(low), gap_factor(gap)) : kInfinite;
    }

    // Nothing is set aside on the way.
    double freeze(const double*, double, double, Symmetric&, double*) const { return kInfinite; }

    double gained_without(const double* e) const { return gained_by(e); }

    // What the likelihood gains with the whole step, twice.
    double gained_by(const double* e) const {
        double sum = -f.gaps_lost(e);
        size_t next = 0;
        for (int64_t i = 0; i < f.s.n; ++i) {
            const bool mine = next < at.size() && at[next] == i;
            const double moved_by = !mine || pure ? 0.0 : x[next] * (b + (own() == 0 ? 0.0 : e[f.size()]));
            next += mine;
            for (int edge = 0; edge < 2; ++edge)
                if (f.has_edge(i, edge)) {
                    const double t = f.margin(i, edge);
                    sum += f.a[i] * (OrderedFitted::loss(t) - (mine && pure ? 0.0 : OrderedFitted::loss(t + f.moved(i, edge, e) + OrderedFitted::sign(edge) * moved_by)));
                }
        }
        return 2.0 * sum;
    }

private:
    // What rows lose that are explained completely.
    double lost(bool everything) const {
        double sum = 0;
        for (int64_t q = 0; q < T; ++q)
            for (int edge = 0; edge < 2; ++edge)
                if (f.has_edge(at[q], edge) && (everything || f.missed[2 * at[q] + edge] > 0)) sum += 2.0 * f.a[at[q]] * OrderedFitted::loss(f.margin(at[q], edge));
        return sum;
    }

    double value_at(double coefficient, bool everything) const {
        double sum = 0;
        for (int64_t q = 0; q < T; ++q)
            for (int edge = 0; edge < 2; ++edge)
                if (f.has_edge(at[q], edge) && (everything || f.missed[2 * at[q] + edge] > 0)) {
                    const double t = f.margin(at[q], edge);
                    sum += 2.0 * f.a[at[q]] * (OrderedFitted::loss(t) - OrderedFitted::loss(t + OrderedFitted::sign(edge) * x[q] * coefficient));
                }
        return sum;
    }

    void look_along() {
        slope = curved = 0;
        for (int64_t q = 0; q < T; ++q)
            for (int edge = 0; edge < 2; ++edge)
                if (f.missed[2 * at[q] + edge] > 0) {
                    const double part = OrderedFitted::share_missed(f.margin(at[q], edge) + OrderedFitted::sign(edge) * x[q] * b), w = f.a[at[q]];
                    there[2 * q + edge] = part;
                    slope += w * OrderedFitted::sign(edge) * x[q] * part, curved += w * x[q] * x[q] * part * (1.0 - part);
                }
    }

    bool maximise() {
        gained = 0;
        for (int round = 0; round < kSteps; ++round) {
            look_along();
            if (!(curved > 0)) return false;
            left = slope * slope / curved;
            if (left <= kArrived * std::max(1.0, gained)) return true;
            double part = std::min(1.0, kStride * curved / std::abs(slope)), value = -kInfinite;
            const double from = b, close = left < 1e-9 ? 1e-12 * std::max(1.0, gained) : 0.0;
            for (int attempt = 0; attempt < kHalves && !(value >= gained - close); ++attempt, part /= 2.0) {
                b = from + part * slope / curved;
                value = std::abs(b) > kFar ? -kInfinite : value_at(b, false);
            }
            if (!(value >= gained - close)) {
                b = from;
                look_along();
                return left <= 1e-12 * std::max(1.0, gained);
            }
            gained = value;
        }
        return false;
    }

    static double least(double missed, double v) { return std::min(missed * v, -(1.0 - missed) * v); }
};

}  // namespace fbed
