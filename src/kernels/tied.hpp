// Models that explain every row but those that no model can tell apart: their best deviance in closed form.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "linear.hpp"
#include "terms.hpp"

namespace fbed {

// A row whose margin is less than this is not on its way to be explained.
constexpr double kOnItsWay = 1.25;

// Rows of that kind among which sets of equal ones are looked for.
constexpr size_t kMostTied = 32;

// Two rows of the same linear predictor but for this, relative, may be equal.
constexpr double kAlike = 1e-9;

// A margin of a direction beside the largest one, and what is left of it in rows that it should not move.
constexpr double kApart = 1e-6, kUnmoved = 1e-11;

// A margin in the limit: there is nothing left to explain in float64.
constexpr double kExplained = 45.0;

// Let T be sets of equal rows, each with both classes. No model tells the rows of a set apart, so that its deviance is at least
// that of a probability for each set. That is also the limit along d, where d moves no row of T and every other row to its
// side: the rest of the coefficients then gives each set its probability. So a direction like that, found at any coefficients
// on the way, ends a fit that would go on towards infinity, one unit of a margin a step.
class Tied {
   public:
    Tied(const SparseTerms& terms, const double* sign, const double* weight, const double* beta, const double* eta)
        : terms_(terms), sign_(sign), weight_(weight), beta_(beta), eta_(eta) {}

    double deviance = 0;
    std::vector<double> coefficients;  // far along d

    bool found() {
        std::vector<int64_t> left;
        for (int64_t i = 0; i < terms_.n; ++i) {
            if (sign_[i] * eta_[i] >= kOnItsWay) continue;
            if (left.size() == kMostTied) return false;
            left.push_back(i);
        }
        return !left.empty() && gather_sets(left) && look_along();
    }

   private:
    struct Set {
        int64_t row;
        double ones = 0, zeros = 0;
    };

    bool equal(int64_t p, int64_t q) const {
        const auto size = [&](int64_t i) { return terms_.row_start[i + 1] - terms_.row_start[i]; };
        const int64_t a = terms_.row_start[p], b = terms_.row_start[q];
        return size(p) == size(q) && std::equal(terms_.column_of.data() + a, terms_.column_of.data() + a + size(p), terms_.column_of.data() + b) &&
               std::equal(terms_.by_row.data() + a, terms_.by_row.data() + a + size(p), terms_.by_row.data() + b);
    }

    // The sets that the rows belong to; false where one of them has a single class.
    bool gather_sets(const std::vector<int64_t>& left) {
        for (int64_t row : left)
            if (std::none_of(sets_.begin(), sets_.end(), [&](const Set& set) { return equal(set.row, row); })) sets_.push_back({row});
        member_.assign(terms_.n, 0);
        for (Set& set : sets_) {
            const double at = eta_[set.row], alike = kAlike * std::max(1.0, std::abs(at));
            for (int64_t i = 0; i < terms_.n; ++i) {
                if (!(std::abs(eta_[i] - at) <= alike) || !equal(set.row, i)) continue;
                member_[i] = 1;
                (sign_[i] > 0 ? set.ones : set.zeros) += weight_[i];
            }
            if (!(set.ones > 0) || !(set.zeros > 0)) return false;
            const double all = set.ones + set.zeros;
            deviance += 2.0 * (set.ones * std::log(all / set.ones) + set.zeros * std::log(all / set.zeros));
        }
        return true;
    }

    // d = beta less the shortest coefficients that move the sets as beta does.
    bool look_along() {
        std::vector<double> at, target, moved(terms_.n, 0.0), d(beta_, beta_ + terms_.r), base;
        for (const Set& set : sets_) at.push_back(-eta_[set.row]), target.push_back(std::log(set.ones / set.zeros));
        if (!factorise()) return false;
        add_shortest(at, d);
        terms_.add(d.data(), moved.data());
        double most = 0, least = std::numeric_limits<double>::infinity(), stray = 0;
        for (int64_t i = 0; i < terms_.n; ++i) {
            most = std::max(most, std::abs(moved[i]));
            if (member_[i])
                stray = std::max(stray, std::abs(moved[i]));
            else
                least = std::min(least, sign_[i] * moved[i]);
        }
        if (!(least > kApart * most) || !(stray <= kUnmoved * most)) return false;
        base.assign(terms_.r, 0.0);
        add_shortest(target, base);
        return move_far(base, d, least);
    }

    // base + t·d, with t so large that the other rows have nothing left.
    bool move_far(const std::vector<double>& base, const std::vector<double>& d, double least) {
        std::vector<double> here(terms_.n, 0.0);
        terms_.add(base.data(), here.data());
        double against = 0;
        for (int64_t i = 0; i < terms_.n; ++i)
            if (!member_[i]) against = std::max(against, -sign_[i] * here[i]);
        const double t = (kExplained + against) / least;
        coefficients.resize(terms_.r);
        for (int64_t k = 0; k < terms_.r; ++k) coefficients[k] = base[k] + t * d[k];
        return std::all_of(coefficients.begin(), coefficients.end(), [](double v) { return std::isfinite(v); });
    }

    // The Gram matrix of the sets' rows.
    bool factorise() {
        const size_t m = sets_.size();
        std::vector<int64_t> rows;
        for (const Set& set : sets_) rows.push_back(set.row);
        rows_ = terms_.gathered(rows);  // column after column
        gram_.assign(m * m, 0.0);
        for (int64_t k = 0; k < terms_.r; ++k)
            for (size_t i = 0; i < m; ++i)
                for (size_t j = 0; j <= i; ++j) gram_[i * m + j] += rows_[k * m + i] * rows_[k * m + j];
        return cholesky(gram_.data(), static_cast<int64_t>(m)) > kSound;
    }

    // out += the shortest coefficients that move the sets by so much.
    void add_shortest(std::vector<double> by, std::vector<double>& out) const {
        const size_t m = sets_.size();
        cholesky_solve(gram_.data(), static_cast<int64_t>(m), by.data());
        for (int64_t k = 0; k < terms_.r; ++k)
            for (size_t i = 0; i < m; ++i) out[k] += rows_[k * m + i] * by[i];
    }

    const SparseTerms& terms_;
    const double *sign_, *weight_, *beta_, *eta_;
    std::vector<Set> sets_;
    std::vector<char> member_;
    std::vector<double> rows_, gram_;
};

}  // namespace fbed
