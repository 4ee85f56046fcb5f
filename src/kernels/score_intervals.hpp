// From the score statistics of candidates to intervals of their likelihood ratios, many at a time.
//
//   P(m)·score − 2N²  ≤  LR  ≤  (score + N²)·P(−m − f)
//
// m is how far the step of a candidate can move a row, N² what the fit is short of its maximum, and f how far that moves
// a row. Scores and information may be rounded: the interval is that of whatever they may have been.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bounds.hpp"

namespace fbed {

struct FitIsShort {
    double gain, drift, deviance;  // N², f, and the deviance, which nobody lowers by more
};

struct LikelihoodRatio {  // an interval that holds it
    double lower, upper;
};

constexpr double SUM_SLACK = 1e-9;  // rounding of sums, relative

inline LikelihoodRatio anything(const FitIsShort& fit) { return {0.0, fit.deviance * (1.0 + SUM_SLACK)}; }

inline LikelihoodRatio score_interval(double least, double score, double furthest, const FitIsShort& fit) {
    const double all = anything(fit).upper, back = -(furthest + fit.drift);
    const double lower = P(furthest) * least * (1.0 - SUM_SLACK) - 2.0 * fit.gain;
    const double upper = back > -1.0 ? (score + fit.gain) * P(back) * (1.0 + SUM_SLACK) : all;
    return {lower > 0.0 ? lower : 0.0, upper < all ? upper : all};  // a step beyond all numbers tells nothing
}

// A candidate's score and the information that the model leaves of its own, each with what rounding may have done, and
// how far a unit step moves a row.
struct Candidate {
    double score, by_score, left, by_left, own, reach;

    // Whether too little is left of it to trust sums of products.
    bool delicate(double part) const {
        return !(left - by_left > part * own && std::isfinite(std::abs(score) + by_score));
    }

    LikelihoodRatio interval(double stretch, const FitIsShort& fit) const {
        const double size = std::abs(score), most = size + by_score, least = std::max(size - by_score, 0.0);
        const double information = left - by_left;
        return score_interval(least * least / (left + by_left), most * most / information, stretch * most / information * reach, fit);
    }
};

}  // namespace fbed
