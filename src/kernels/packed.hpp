// Genotypes as PLINK packs them: two bits each, four to a byte, a column of samples for every variant.
//
// 00 is two copies of the first allele, 10 one, 11 none, 01 missing. A missing genotype counts as the mean of its column, which is 0
// once the column is standardised. Columns are unpacked some rows at a time into the cache and used there for all row vectors at once.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "columns.hpp"
#include "processors.hpp"

namespace fbed {

constexpr int kTwo = 0, kMissing = 1, kOne = 2, kNone = 3;
constexpr uint64_t kLowBits = 0x5555555555555555ULL;
constexpr int64_t kPackedTile = 512;  // rows unpacked at a time: with a few row vectors they stay in the first cache

// Copies of the first allele of the four genotypes of every byte; a missing one has none.
inline const std::array<std::array<double, 4>, 256>& copies_of_bytes() {
    static const auto table = [] {
        std::array<std::array<double, 4>, 256> out{};
        const double copies[4] = {2.0, 0.0, 1.0, 0.0};
        for (int byte = 0; byte < 256; ++byte)
            for (int i = 0; i < 4; ++i) out[byte][i] = copies[(byte >> (2 * i)) & 3];
        return out;
    }();
    return table;
}

// How many genotypes of each kind there are in whole bytes.
FBED_HOT inline void count_genotypes(const uint8_t* bytes, int64_t count, int64_t* kinds) {
    int64_t two = 0, missing = 0, one = 0;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint64_t word;
        std::memcpy(&word, bytes + i, 8);
        const uint64_t low = word & kLowBits, high = (word >> 1) & kLowBits;
        two += __builtin_popcountll(~(low | high) & kLowBits);
        missing += __builtin_popcountll(low & ~high);
        one += __builtin_popcountll(high & ~low);
    }
    for (; i < count; ++i)
        for (int shift = 0; shift < 8; shift += 2) {
            const int kind = (bytes[i] >> shift) & 3;
            two += kind == kTwo, missing += kind == kMissing, one += kind == kOne;
        }
    kinds[kTwo] += two, kinds[kMissing] += missing, kinds[kOne] += one, kinds[kNone] += 4 * count - two - missing - one;
}

// Copies of the first allele in the rows of `count` bytes.
FBED_HOT inline void unpack_bytes(const uint8_t* bytes, int64_t count, const double* table, double* out) {
    for (int64_t b = 0; b < count; ++b) {
        const double* four = table + 4 * bytes[b];
        for (int i = 0; i < 4; ++i) out[4 * b + i] = four[i];
    }
}

// Σ xv and Σ yv of two columns and four row vectors, and Σ x²v, Σ y²v of the second of these: all that is in the registers.
FBED_HOT inline void two_by_four(const double* x, const double* y, const double* v, int64_t apart, int64_t m, double* out_x, double* out_y) {
    const double *v0 = v, *v1 = v + apart, *v2 = v + 2 * apart, *v3 = v + 3 * apart;
    double a0 = 0, a1 = 0, a2 = 0, a3 = 0, a4 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0, b4 = 0;
#pragma omp simd reduction(+ : a0, a1, a2, a3, a4, b0, b1, b2, b3, b4)
    for (int64_t i = 0; i < m; ++i) {
        const double xv = x[i] * v1[i], yv = y[i] * v1[i];
        a0 += x[i] * v0[i], b0 += y[i] * v0[i];
        a1 += xv, b1 += yv;
        a2 += x[i] * v2[i], b2 += y[i] * v2[i];
        a3 += x[i] * v3[i], b3 += y[i] * v3[i];
        a4 += xv * x[i], b4 += yv * y[i];
    }
    out_x[0] += a0, out_x[1] += a1, out_x[2] += a2, out_x[3] += a3, out_x[4] += a4;
    out_y[0] += b0, out_y[1] += b1, out_y[2] += b2, out_y[3] += b3, out_y[4] += b4;
}

// The same for two row vectors.
FBED_HOT inline void two_by_two(const double* x, const double* y, const double* v, int64_t apart, int64_t m, double* out_x, double* out_y) {
    const double *v0 = v, *v1 = v + apart;
    double a0 = 0, a1 = 0, a4 = 0, b0 = 0, b1 = 0, b4 = 0;
#pragma omp simd reduction(+ : a0, a1, a4, b0, b1, b4)
    for (int64_t i = 0; i < m; ++i) {
        const double xv = x[i] * v1[i], yv = y[i] * v1[i];
        a0 += x[i] * v0[i], b0 += y[i] * v0[i];
        a1 += xv, b1 += yv;
        a4 += xv * x[i], b4 += yv * y[i];
    }
    out_x[0] += a0, out_x[1] += a1, out_x[4] += a4;
    out_y[0] += b0, out_y[1] += b1, out_y[4] += b4;
}

struct Packed {
    const uint8_t* data;
    int64_t n, p, stride;  // bytes of a column

    const uint8_t* column(int64_t j) const { return data + j * stride; }

    static int kind(const uint8_t* bytes, int64_t i) { return (bytes[i >> 2] >> (2 * (i & 3))) & 3; }

    // Weighted counts of the four kinds of genotypes; without weights all of them are 1.
    std::array<double, 4> counts(int64_t j, const double* weights) const {
        const uint8_t* bytes = column(j);
        std::array<double, 4> out{};
        if (weights != nullptr) {
            for (int64_t i = 0; i < n; ++i) out[kind(bytes, i)] += weights[i];
            return out;
        }
        int64_t kinds[4] = {0, 0, 0, 0};
        count_genotypes(bytes, n / 4, kinds);
        for (int64_t i = n & ~int64_t{3}; i < n; ++i) ++kinds[kind(bytes, i)];
        for (int g = 0; g < 4; ++g) out[g] = static_cast<double>(kinds[g]);
        return out;
    }

    // Mean and deviation over all rows, those that are missing at the mean of the others.
    Moments stats(int64_t j, const double* weights) const {
        const std::array<double, 4> count = counts(j, weights);
        Moments out;
        const double known = count[kTwo] + count[kOne] + count[kNone], total = known + count[kMissing];
        if (known <= 0.0) return out;
        const double center = (2.0 * count[kTwo] + count[kOne]) / known;
        out.center = center;
        out.min = count[kNone] > 0.0 ? 0.0 : count[kOne] > 0.0 ? 1.0 : 2.0;
        out.max = count[kTwo] > 0.0 ? 2.0 : count[kOne] > 0.0 ? 1.0 : 0.0;
        out.not_zero = static_cast<int64_t>(n);  // what is centred has no zeros to be gained by
        if (out.min == out.max) return out;
        const double spread = count[kTwo] * (2.0 - center) * (2.0 - center) + count[kOne] * (1.0 - center) * (1.0 - center) +
                              count[kNone] * center * center;
        out.scale = std::sqrt(spread / total);
        return out;
    }

    // Rows first..last of columns, (x - center)/scale with the missing at 0.
    void gather(const int64_t* which, int64_t count, const double* center, const double* scale, int64_t first, int64_t last,
                double* out) const {
        for (int64_t j = 0; j < count; ++j) {
            const uint8_t* bytes = column(which[j]);
            double* target = out + j * (last - first);
            const double s = scale[which[j]], c = center[which[j]], unit = s > 0 ? 1.0 / s : 0.0;
            const double value[4] = {(2.0 - c) * unit, 0.0, (1.0 - c) * unit, (0.0 - c) * unit};
            for (int64_t i = first; i < last; ++i) target[i - first] = value[kind(bytes, i)];
        }
    }

    // Calls f with every row of first..first + m that is missing; first is a multiple of 4.
    template <class F>
    static void missing(const uint8_t* bytes, int64_t first, int64_t m, F&& f) {
        const uint8_t* from = bytes + first / 4;
        int64_t b = 0;
        for (; 4 * b + 32 <= m; b += 8) {
            uint64_t word;
            std::memcpy(&word, from + b, 8);
            for (uint64_t gone = word & ~(word >> 1) & kLowBits; gone != 0; gone &= gone - 1) f(4 * b + __builtin_ctzll(gone) / 2);
        }
        for (int64_t i = 4 * b; i < m; ++i)
            if (kind(bytes, first + i) == kMissing) f(i);
    }
};

// Products of standardised columns with row vectors, and Σ v·column² of the second of these, over rows first..first + m (first a
// multiple of 4).
class PackedProducts {
   public:
    PackedProducts(const Packed& packed, int64_t first, int64_t m, const double* vectors, int64_t count)
        : packed_(packed), first_(first), m_(m), count_(count), quads_((count + 3) / 4), x_(kPackedTile), y_(kPackedTile) {
        vectors_.assign(4 * quads_ * m, 0.0);  // whole fours of them
        std::copy(vectors, vectors + count * m, vectors_.begin());
        totals_.assign(count, 0.0);
        for (int64_t k = 0; k < count; ++k)
            for (int64_t i = 0; i < m; ++i) totals_[k] += vectors[k * m + i];
    }

    // A row a column: its products, then Σ v·column². Tiles of rows are the outer loop, so that vectors stay in the cache; every
    // column's sum has the same order whatever other columns there are.
    void run(const int64_t* which, int64_t columns, const double* center, const double* scale, double* out) {
        const int64_t width = 5 * quads_ + count_;
        std::vector<double> all((columns + 1) * width, 0.0);  // the last is a place for what nobody asked for
        for (int64_t start = 0; start < m_; start += kPackedTile) {
            const int64_t m = std::min(kPackedTile, m_ - start), at = (first_ + start) / 4;
            for (int64_t j = 0; j < columns; j += 2) {
                const int64_t next = std::min(j + 1, columns - 1), later = std::min(j + kAhead, columns - 2);
                for (int64_t ahead = std::max<int64_t>(later, 0); ahead < std::min(later + 2, columns); ++ahead)
                    for (int64_t line = 0; line < kPackedTile / 4; line += 64) __builtin_prefetch(packed_.column(which[ahead]) + at + line);
                tile(packed_.column(which[j]), packed_.column(which[next]), start, m, &all[j * width],
                     &all[(j + 1 < columns ? j + 1 : columns) * width]);
            }
        }
        for (int64_t j = 0; j < columns; ++j) finish(&all[j * width], center[which[j]], scale[which[j]], out + j * (count_ + 1));
    }

   private:
    static constexpr int64_t kAhead = 8;  // columns, which lie far apart: each would wait for the memory

    // Into fives for every four vectors: their Σ xv, and Σ x²v of the second; then Σ v over the missing.
    void tile(const uint8_t* one, const uint8_t* other, int64_t start, int64_t m, double* of_one, double* of_other) {
        const double* table = copies_of_bytes()[0].data();
        unpack_bytes(one + (first_ + start) / 4, (m + 3) / 4, table, x_.data());
        unpack_bytes(other + (first_ + start) / 4, (m + 3) / 4, table, y_.data());
        const double* v = vectors_.data() + start;
        for (int64_t q = 0; q < quads_; ++q) {
            auto* products = count_ - 4 * q > 2 ? two_by_four : two_by_two;
            products(x_.data(), y_.data(), v + 4 * q * m_, m_, m, of_one + 5 * q, of_other + 5 * q);
        }
        leave_out(one, start, m, of_one + 5 * quads_);
        leave_out(other, start, m, of_other + 5 * quads_);
    }

    void leave_out(const uint8_t* bytes, int64_t start, int64_t m, double* gone) const {
        const double* v = vectors_.data() + start;
        Packed::missing(bytes, first_ + start, m, [&](int64_t i) {
            for (int64_t k = 0; k < count_; ++k) gone[k] += v[k * m_ + i];
        });
    }

    // Σ (x - c)v/s over the rows that are known, from the sums of x.
    void finish(const double* sum, double center, double scale, double* out) const {
        const double unit = scale > 0.0 ? 1.0 / scale : 0.0;
        const double* gone = sum + 5 * quads_;
        for (int64_t k = 0; k < count_; ++k) out[k] = (sum[5 * (k / 4) + k % 4] - center * (totals_[k] - gone[k])) * unit;
        out[count_] = count_ < 2 ? 0.0 : (sum[4] - center * (2.0 * sum[1] - center * (totals_[1] - gone[1]))) * unit * unit;
    }

    const Packed& packed_;
    int64_t first_, m_, count_, quads_;
    std::vector<double> x_, y_, vectors_, totals_;
};

// The genotypes of some rows, packed anew; `out` holds as many columns of (count + 3)/4 bytes.
inline void pack_rows(const Packed& from, const int64_t* rows, int64_t count, uint8_t* out) {
    const int64_t stride = (count + 3) / 4;
    for (int64_t j = 0; j < from.p; ++j) {
        const uint8_t* bytes = from.column(j);
        uint8_t* target = out + j * stride;
        for (int64_t b = 0; b < stride; ++b) {
            unsigned byte = 0;
            const int64_t end = std::min<int64_t>(4 * b + 4, count);
            for (int64_t i = 4 * b; i < end; ++i) byte |= static_cast<unsigned>(Packed::kind(bytes, rows[i])) << (2 * (i & 3));
            target[b] = static_cast<uint8_t>(byte);
        }
    }
}

}  // namespace fbed
