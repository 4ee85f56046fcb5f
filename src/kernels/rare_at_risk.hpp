// Columns that are mostly 0 beside a fitted proportional hazards model; T are the rows where a column x is not 0.
//
// The partial likelihood is a product of terms, those of Efron where deaths are tied, each of which compares a row with all that are at
// risk: p_ti = h_i(1 − f_t·dying_i)/(R − f_t·D). Along x alone, at coefficient b, its denominator grows by the factor 1 + δ_t,
// δ_t = Σ_T p_ti(e^{b x_i} − 1), a sum that changes only where a row of T comes to be at risk. So what the likelihood is along x costs a few
// operations a term, and no look at any other column. What is found there is enough to enclose the likelihood ratio; the
// proof is in docs/engine.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "at_risk.hpp"
#include "cox.hpp"
#include "elementary.hpp"
#include "matrices.hpp"
#include "pause.hpp"
#include "processors.hpp"

namespace fbed {

class RareAtRisk {
    static constexpr double kAlong = 1e-9, kStride = 2.0, kFurthest = 40.0;
    static constexpr double kSmall = 0.5;  // in size, up to where a series for log(1 + δ) has all digits
    static constexpr int kSteps = 60;

    // What has changed from a term on: a row of T has come to be at risk, or a part of it is not; nobody has, in a new stratum.
    struct Change {
        int64_t term;
        double part;
        int64_t row;  // of T; -1 where a stratum ends
    };

    // The same rows of T at risk in some terms: their sums of h(e^{bx} − 1), hx·e^{bx}, hx²·e^{bx}, h|x|e^{bx} and h.
    struct Piece {
        int64_t first, last;
        double grown = 0, slope = 0, square = 0, size = 0, before = 0;
    };

    struct Column {
        std::vector<int64_t> at;
        std::vector<double> x, hazard;
        std::vector<Change> changes;
        double events = 0, widest = 0, least = 0, most = 0;  // Σ x of those who die; largest |x|, and the ends with 0
        bool dies = false;
    };

    struct Along {
        double slope = 0, curvature = 0;
    };

    RiskRows rows_;
    std::vector<double> hazard_, expected_, weight_, leverage_;
    std::vector<int64_t> first_term_, set_of_row_, end_of_row_;  // a row is at risk from the terms of its set to the end of its stratum
    std::vector<double> inverse_, count_, part_;                  // of a term: 1/(R − fD), c and f
    std::vector<double> beside_;                                  // of a row: what the means of others at risk are from the centre

   public:
    // `leverage` is of every row the square of how far it is from some centre, in the metric of the model's information.
    RareAtRisk(Vector event, Which closes, Flags starts, Vector deaths, Vector hazard, Vector expected, Vector weight, Vector leverage)
        : rows_(risk_rows(event, closes, starts)),
          hazard_(hazard.data(), hazard.data() + hazard.shape(0)),
          expected_(expected.data(), expected.data() + expected.shape(0)),
          weight_(weight.data(), weight.data() + weight.shape(0)),
          leverage_(leverage.data(), leverage.data() + leverage.shape(0)) {
        const size_t n = event.shape(0);
        require(hazard_.size() == n && expected_.size() == n && weight_.size() == n && leverage_.size() == n, "sizes");
        check_range(closes, static_cast<int64_t>(deaths.shape(0)) + 1);
        read_terms(deaths.data(), static_cast<int64_t>(deaths.shape(0)));
        place_rows();
        look_beside();
    }

    // Of columns `which` of a matrix whose rows are these, each a row of the answer: where the likelihood is largest along it, what the
    // log-likelihood gains there; the part of the model's information that T has at most; the largest δ; the largest odds of T
    // against others at risk; Σ E|x|, the curvature, the spread of x with 0 and the largest |x|. Not a number where there is no
    // such place. And residuals of all rows there, a column each.
    template <class Columns>
    std::tuple<OutMatrix, OutMatrix> along(const Columns& X, Which which) const {
        check_range(which, X.m.p);
        require(X.m.n == rows_.n, "as many rows");
        const int64_t count = static_cast<int64_t>(which.shape(0));
        double *told, *residual;
        OutMatrix facts = new_rows(count, kFacts, told), residuals = new_columns(rows_.n, count, residual);
        nb::gil_scoped_release release;
        std::vector<int32_t> at(rows_.n);
        std::vector<double> values(rows_.n);
        for (int64_t j = 0; j < count; ++j) {
            look_up();
            const int64_t m = X.m.support(which.data()[j], at.data(), values.data());
            tell(gathered(at.data(), values.data(), m), told + j * kFacts, residual + j * rows_.n);
        }
        return {facts, residuals};
    }

    static constexpr int64_t kFacts = 9;

   private:
    void read_terms(const double* deaths, int64_t n_sets) {
        double dying = 0;
        Sum risk;
        first_term_.reserve(n_sets + 1);
        for (int64_t i = 0; i < rows_.n; ++i) {
            if (rows_.starts[i]) risk = Sum{};
            risk.add(hazard_[i]);
            dying += rows_.event[i] * hazard_[i];
            if (rows_.closes[i] == 0) continue;
            require(rows_.closes[i] == static_cast<int64_t>(first_term_.size()) + 1, "tied sets in order");
            const double d = deaths[rows_.closes[i] - 1], sum = risk.total();
            first_term_.push_back(static_cast<int64_t>(inverse_.size()));
            for (int64_t m = 0; m < n_terms(d); ++m) {
                const double f = static_cast<double>(m) / d;
                part_.push_back(f), count_.push_back(std::min(d - static_cast<double>(m), 1.0));
                inverse_.push_back(1.0 / (sum - f * dying));
            }
            dying = 0;
        }
        first_term_.push_back(static_cast<int64_t>(inverse_.size()));
    }

    void place_rows() {
        const int64_t n_sets = static_cast<int64_t>(first_term_.size()) - 1;
        set_of_row_.resize(rows_.n), end_of_row_.resize(rows_.n);
        int64_t next = n_sets, end = n_sets;
        for (int64_t i = rows_.n; i-- > 0;) {
            if (rows_.closes[i] > 0) next = rows_.closes[i] - 1;
            set_of_row_[i] = next, end_of_row_[i] = end;
            if (rows_.starts[i]) end = next;
        }
    }

    // Σ c_t p_ti b_t of every row, b_t = Σ_i p_ti·leverage_i: a mean is no further from the centre than the rows are on average.
    void look_beside() {
        std::vector<double> share(first_term_.size() - 1, 0.0), own(share.size(), 0.0);
        double dying = 0;
        Sum risk;
        for (int64_t i = 0; i < rows_.n; ++i) {
            if (rows_.starts[i]) risk = Sum{};
            risk.add(hazard_[i] * leverage_[i]);
            dying += rows_.event[i] * hazard_[i] * leverage_[i];
            if (rows_.closes[i] == 0) continue;
            const int64_t g = rows_.closes[i] - 1;
            for (int64_t t = first_term_[g]; t < first_term_[g + 1]; ++t) {
                const double mean = std::max(0.0, risk.total() - part_[t] * dying) * inverse_[t];
                share[g] += count_[t] * mean * inverse_[t];
                own[g] += count_[t] * part_[t] * mean * inverse_[t];
            }
            dying = 0;
        }
        beside_.resize(rows_.n);
        expected_events(rows_, hazard_.data(), share.data(), own.data(), beside_.data());
    }

    // Rows of T that are ever at risk.
    Column gathered(const int32_t* at, const double* values, int64_t m) const {
        Column c;
        int64_t end = -1;
        for (int64_t q = 0; q < m; ++q) {
            const int64_t i = at[q];
            if (values[q] == 0.0 || !(hazard_[i] > 0.0) || set_of_row_[i] >= end_of_row_[i]) continue;
            const int64_t row = static_cast<int64_t>(c.at.size());
            if (end >= 0 && end != end_of_row_[i]) c.changes.push_back({first_term_[end], 0.0, -1});
            end = end_of_row_[i];
            c.at.push_back(i), c.x.push_back(values[q]), c.hazard.push_back(hazard_[i]);
            c.changes.push_back({first_term_[set_of_row_[i]], 1.0, row});
            c.widest = std::max(c.widest, std::abs(values[q]));
            c.least = std::min(c.least, values[q]), c.most = std::max(c.most, values[q]);
            if (rows_.event[i] != 0.0) note_death(c, row);
        }
        if (end >= 0) c.changes.push_back({first_term_[end], 0.0, -1});
        std::stable_sort(c.changes.begin(), c.changes.end(), [](const Change& a, const Change& b) { return a.term < b.term; });
        return c;
    }

    // Who dies counts for less and less in the terms of his set.
    void note_death(Column& c, int64_t row) const {
        const int64_t i = c.at[row], set = set_of_row_[i];
        c.events += rows_.event[i] * weight_[i] * c.x[row];
        c.dies = true;
        for (int64_t t = first_term_[set]; t < first_term_[set + 1]; ++t)
            if (part_[t] > 0.0) c.changes.push_back({t, -part_[t], row}), c.changes.push_back({t + 1, part_[t], row});
    }

    // The terms of all pieces, at b; far out, hazards that fall are 0.
    static void cut(const Column& c, double b, std::vector<Piece>& pieces) {
        pieces.clear();
        Piece now{};
        for (size_t k = 0; k < c.changes.size(); ++k) {
            const Change& change = c.changes[k];
            const int64_t next = k + 1 < c.changes.size() ? c.changes[k + 1].term : change.term;
            if (change.row < 0) {
                now = Piece{};
                continue;
            }
            const double x = c.x[change.row], h = change.part * c.hazard[change.row], there = std::isinf(b) ? 0.0 : h * std::exp(b * x);
            now.grown += std::isinf(b) ? -h : h * std::expm1(b * x);
            now.slope += x * there, now.square += x * x * there, now.size += std::abs(x) * there, now.before += h;
            now.first = change.term, now.last = next;
            if (next > change.term) pieces.push_back(now);
        }
    }

    FBED_HOT Along slope_of(const std::vector<Piece>& pieces) const {
        double slope = 0, curvature = 0;
        for (const Piece& piece : pieces) {
            const double grown = piece.grown, first = piece.slope, second = piece.square;
            const double *inverse = inverse_.data(), *count = count_.data();
#pragma omp simd reduction(+ : slope, curvature)
            for (int64_t t = piece.first; t < piece.last; ++t) {
                const double r = inverse[t] / (1.0 + grown * inverse[t]), mean = first * r;
                slope -= count[t] * mean;
                curvature += count[t] * (second * r - mean * mean);
            }
        }
        return {slope, curvature};
    }

    // Where the likelihood is largest along x; not a number where that is nowhere near.
    double maximise(const Column& c, std::vector<Piece>& pieces) const {
        if (!c.dies && (c.least == 0.0 || c.most == 0.0)) return c.most > 0.0 ? -kInfinite : kInfinite;
        double b = 0, low = -kInfinite, high = kInfinite, stride = kStride / c.widest;
        for (int step = 0; step < kSteps; ++step) {
            cut(c, b, pieces);
            const Along here = slope_of(pieces);
            const double slope = c.events + here.slope;
            if (!std::isfinite(slope) || !(here.curvature > 0.0)) return kNothing;
            if (slope * slope <= kAlong * kAlong * here.curvature) return b;
            (slope > 0 ? low : high) = b;
            const double newton = slope / here.curvature;
            double next = b + std::clamp(newton, -stride, stride);
            if (std::abs(newton) >= stride) stride *= 2.0;
            if (!(next > low && next < high)) next = 0.5 * (low + high);
            if (std::abs(next) * c.widest > kFurthest) return kNothing;
            if (next == b) return b;
            b = next;
        }
        return b;
    }

    void tell(const Column& c, double* told, double* residual) const {
        std::fill(told, told + kFacts, kNothing);
        std::fill(residual, residual + rows_.n, 0.0);
        std::vector<Piece> pieces;
        if (c.at.empty()) return;
        const double b = maximise(c, pieces);
        if (std::isnan(b)) return;
        cut(c, b, pieces);
        const Weighed found = weigh(pieces);
        const double gain = (std::isinf(b) ? 0.0 : b * c.events) - found.lost;
        if (!std::isfinite(gain)) return;
        double share = found.most;
        for (int64_t i : c.at) share += 2.0 * (expected_[i] * leverage_[i] + beside_[i]);
        const double facts[kFacts] = {b, gain, share, found.ahead, found.odds, found.size, slope_of(pieces).curvature, c.most - c.least, c.widest};
        std::copy_n(facts, kFacts, told);
        write_residuals(c, b, pieces, residual);
    }

    // What the terms lose at b, and the most that T has of one: of its probability before, of growth, of odds there; and Σ E|x|.
    struct Weighed {
        double lost = 0, most = 0, ahead = 0, odds = 0, size = 0;
    };

    Weighed weigh(const std::vector<Piece>& pieces) const {
        Weighed out;
        Sum lost;
        for (const Piece& piece : pieces) {
            weigh_piece(piece, out);
            const double largest = std::abs(piece.grown) * *std::max_element(inverse_.begin() + piece.first, inverse_.begin() + piece.last);
            lost.add(largest < kSmall ? loss_of_small(piece) : loss_of(piece));
        }
        out.lost = lost.total();
        return out;
    }

    FBED_HOT void weigh_piece(const Piece& piece, Weighed& out) const {
        const double before = std::max(0.0, piece.before), grown = piece.grown, *inverse = inverse_.data(), *count = count_.data();
        double most = out.most, ahead = out.ahead, odds = out.odds, size = 0;
#pragma omp simd reduction(max : most, ahead, odds) reduction(+ : size)
        for (int64_t t = piece.first; t < piece.last; ++t) {
            const double delta = grown * inverse[t], q = before * inverse[t];
            size += count[t] * inverse[t] / (1.0 + delta);
            most = std::max(most, q), ahead = std::max(ahead, delta);
            odds = std::max(odds, q < 1.0 ? std::max(0.0, q + delta) / (1.0 - q) : kInfinite);
        }
        out.most = most, out.ahead = ahead, out.odds = odds, out.size += piece.size * size;
    }

    double loss_of(const Piece& piece) const {
        double sum = 0;
        for (int64_t t = piece.first; t < piece.last; ++t) sum += count_[t] * std::log1p(piece.grown * inverse_[t]);
        return sum;
    }

    FBED_HOT double loss_of_small(const Piece& piece) const {
        const double grown = piece.grown, *inverse = inverse_.data(), *count = count_.data();
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t t = piece.first; t < piece.last; ++t) sum += count[t] * log1p_of_unit(grown * inverse[t]);
        return sum;
    }

    void write_residuals(const Column& c, double b, const std::vector<Piece>& pieces, double* residual) const {
        std::vector<double> hazard(hazard_), inverse(inverse_), share(first_term_.size() - 1), own(share.size());
        for (size_t q = 0; q < c.at.size(); ++q) hazard[c.at[q]] = std::isinf(b) ? 0.0 : c.hazard[q] * std::exp(b * c.x[q]);
        for (const Piece& piece : pieces)
            for (int64_t t = piece.first; t < piece.last; ++t) inverse[t] /= 1.0 + piece.grown * inverse[t];
        for (size_t g = 0; g < share.size(); ++g)
            for (int64_t t = first_term_[g]; t < first_term_[g + 1]; ++t)
                share[g] += count_[t] * inverse[t], own[g] += count_[t] * part_[t] * inverse[t];
        expected_events(rows_, hazard.data(), share.data(), own.data(), residual);
        for (int64_t i = 0; i < rows_.n; ++i) residual[i] = hazard_[i] > 0.0 ? rows_.event[i] * weight_[i] - residual[i] : 0.0;
    }

    static constexpr double kInfinite = std::numeric_limits<double>::infinity();
    static constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace fbed
