// What groups of columns explain of the rest of an outcome, from products of columns alone.
#pragma once

#include <vector>

#include "arrays.hpp"
#include "processors.hpp"

namespace fbed {

// Below `spanned`, what is left of a column (of norm 1) is taken for rounding: whether it is has to be proved by others.
struct Limits {
    double spanned, delicate;
};

struct GroupGain {
    double explained = 0;
    int64_t rank = 0;
    bool delicate = false;
};

// C = G − WᵀW of the columns of a group, factorised one column after another, without those that are spanned. W has a row
// for every column of the model, P entries each; `score` is what products with the outcome are after these; `room` is for
// w² + w values.
FBED_HOT inline GroupGain group_gain(const double* G, const double* W, int64_t k, int64_t P, const double* score, int64_t first,
                                     int64_t w, const Limits& limits, bool* spanned, double* room) {
    double *C = room, *s = C + w * w;
    for (int64_t i = 0; i < w; ++i) {
        s[i] = score[first + i];
        for (int64_t j = 0; j < w; ++j) C[i * w + j] = G[(first + i) * P + first + j];
    }
    for (int64_t r = 0; r < k; ++r) {
        const double* row = W + r * P + first;
        for (int64_t i = 0; i < w; ++i) {
            const double t = row[i];
#pragma omp simd
            for (int64_t j = i; j < w; ++j) C[i * w + j] -= t * row[j];
        }
    }
    GroupGain out;
    for (int64_t i = 0; i < w; ++i) {
        const double* row = C + i * w;
        const double pivot = row[i];
        if (!(pivot > limits.spanned)) {
            spanned[i] = true;
            continue;
        }
        out.delicate = out.delicate || pivot <= limits.delicate;
        out.explained += s[i] * s[i] / pivot;
        ++out.rank;
        for (int64_t l = i + 1; l < w; ++l) {
            const double t = row[l] / pivot;
            s[l] -= t * s[i];
#pragma omp simd
            for (int64_t j = l; j < w; ++j) C[l * w + j] -= t * row[j];
        }
    }
    return out;
}

// For every group, given by its first column and its width: what it explains, how many of its columns are new, whether
// that is delicate; and for every column of all groups, one after another, whether it seems to be spanned.
inline std::tuple<OutVector, OutVector, OutFlags, OutFlags> group_gains(RowMajor G, RowMajor W, Vector score, Which first,
                                                                        Which width, double spanned, double delicate) {
    const int64_t P = static_cast<int64_t>(G.shape(0)), k = static_cast<int64_t>(W.shape(0));
    const size_t count = first.shape(0);
    require(G.shape(1) == G.shape(0) && static_cast<int64_t>(W.shape(1)) == P && static_cast<int64_t>(score.shape(0)) == P, "sizes");
    require(width.shape(0) == count, "a width a group");
    int64_t total = 0, widest = 0;
    for (size_t g = 0; g < count; ++g) {
        require(first(g) >= 0 && width(g) >= 0 && first(g) + width(g) <= P, "column index out of range");
        total += width(g), widest = std::max<int64_t>(widest, width(g));
    }
    double *explained, *rank;
    bool *close, *in_span;
    OutVector out = new_vector(count, explained), ranks = new_vector(count, rank);
    OutFlags closes = new_flags(count, close), spans = new_flags(static_cast<size_t>(total), in_span);
    std::vector<double> room(widest * widest + widest);
    nb::gil_scoped_release release;
    for (size_t g = 0; g < count; ++g) {
        const GroupGain one = group_gain(G.data(), W.data(), k, P, score.data(), first(g), width(g), {spanned, delicate}, in_span, room.data());
        explained[g] = one.explained, rank[g] = static_cast<double>(one.rank), close[g] = one.delicate;
        in_span += width(g);
    }
    return {out, ranks, closes, spans};
}

}  // namespace fbed
