// Packed genotypes times whole numbers: vectors of rows are given by digits from −64 to 64, and sums of 0, 1 or 2 times a digit are
// exact in any order. Four genotypes of a byte go to four planes, so that a shift and a look-up unpack 32 bytes at a time, and digits
// are put into the same order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "packed.hpp"

#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define FBED_AVX2 1
#else
#define FBED_AVX2 0
#endif

namespace fbed {

constexpr int64_t kDigitBytes = 512;            // of a column at a time
constexpr int64_t kDigitRows = 4 * kDigitBytes;  // 64 sums of 32 products stay within 16 bits

// Copies of the first allele, and whether there are two, of the rows of kDigitBytes bytes, plane by plane.
inline void unpack_planes(const uint8_t* bytes, uint8_t* copies, uint8_t* two) {
    for (int k = 0; k < 4; ++k)
        for (int64_t b = 0; b < kDigitBytes; ++b) {
            const int kind = (bytes[b] >> (2 * k)) & 3;
            copies[k * kDigitBytes + b] = kind == kTwo ? 2 : kind == kOne ? 1 : 0;
            two[k * kDigitBytes + b] = kind == kTwo ? 1 : 0;
        }
}

// Σ xd over kDigitRows rows for `count` digits, which lie one after the other.
inline void digit_dots(const uint8_t* x, const int8_t* d, int64_t count, double* out) {
    for (int64_t j = 0; j < count; ++j, d += kDigitRows) {
        int32_t sum = 0;
        for (int64_t i = 0; i < kDigitRows; ++i) sum += static_cast<int32_t>(x[i]) * d[i];
        out[j] += sum;
    }
}

#if FBED_AVX2
__attribute__((target("avx2"))) inline void unpack_planes_avx2(const uint8_t* bytes, uint8_t* copies, uint8_t* two) {
    const __m256i mask = _mm256_set1_epi8(3);
    const __m256i copies_of = _mm256_broadcastsi128_si256(_mm_setr_epi8(2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m256i two_of = _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    for (int64_t b = 0; b < kDigitBytes; b += 32) {
        __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + b));
        for (int k = 0; k < 4; ++k) {
            const __m256i kind = _mm256_and_si256(word, mask);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(copies + k * kDigitBytes + b), _mm256_shuffle_epi8(copies_of, kind));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(two + k * kDigitBytes + b), _mm256_shuffle_epi8(two_of, kind));
            word = _mm256_srli_epi16(word, 2);
        }
    }
}

__attribute__((target("avx2"))) inline double sum_of_16(__m256i v) {
    const __m256i pairs = _mm256_madd_epi16(v, _mm256_set1_epi16(1));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    alignas(16) int32_t out[4];
    _mm_store_si128(reinterpret_cast<__m128i*>(out), four);
    return static_cast<double>(out[0] + out[1] + out[2] + out[3]);
}

__attribute__((target("avx2"))) inline void digit_dots_avx2(const uint8_t* x, const int8_t* d, int64_t count, double* out) {
    const auto at = [](const void* p) __attribute__((target("avx2"))) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); };
    int64_t j = 0;
    for (; j + 4 <= count; j += 4, d += 4 * kDigitRows) {
        __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
        for (int64_t i = 0; i < kDigitRows; i += 32) {
            const __m256i v = at(x + i);
            s0 = _mm256_add_epi16(s0, _mm256_maddubs_epi16(v, at(d + i)));
            s1 = _mm256_add_epi16(s1, _mm256_maddubs_epi16(v, at(d + kDigitRows + i)));
            s2 = _mm256_add_epi16(s2, _mm256_maddubs_epi16(v, at(d + 2 * kDigitRows + i)));
            s3 = _mm256_add_epi16(s3, _mm256_maddubs_epi16(v, at(d + 3 * kDigitRows + i)));
        }
        out[j] += sum_of_16(s0), out[j + 1] += sum_of_16(s1), out[j + 2] += sum_of_16(s2), out[j + 3] += sum_of_16(s3);
    }
    for (; j < count; ++j, d += kDigitRows) {
        __m256i s = _mm256_setzero_si256(), t = s;
        for (int64_t i = 0; i < kDigitRows; i += 64) {
            s = _mm256_add_epi16(s, _mm256_maddubs_epi16(at(x + i), at(d + i)));
            t = _mm256_add_epi16(t, _mm256_maddubs_epi16(at(x + i + 32), at(d + i + 32)));
        }
        out[j] += sum_of_16(_mm256_add_epi16(s, t));
    }
}
#endif

// For columns and digits: Σ copies·d of all, Σ d over rows of two copies of the digits first..last, and Σ d over missing rows of all.
class DigitSums {
   public:
    DigitSums(const Packed& packed, const int8_t* digits, int64_t count, int64_t first, int64_t last)
        : packed_(packed), count_(count), first_(first), last_(last), tiles_((packed.n + kDigitRows - 1) / kDigitRows),
          arranged_(tiles_ * count * kDigitRows, 0), copies_(kDigitRows), two_(kDigitRows), digits_(digits) {
        for (int64_t k = 0; k < count; ++k)
            for (int64_t i = 0; i < packed.n; ++i) {
                const int64_t within = i % kDigitRows;
                arranged_[((i / kDigitRows) * count + k) * kDigitRows + (within % 4) * kDigitBytes + within / 4] = digits[k * packed.n + i];
            }
    }

    int64_t width() const { return 2 * count_ + last_ - first_; }

    void run(const int64_t* which, int64_t columns, double* out) {
#if FBED_AVX2
        const bool fast = __builtin_cpu_supports("avx2");
#endif
        std::fill(out, out + columns * width(), 0.0);
        uint8_t end[kDigitBytes];
        for (int64_t t = 0; t < tiles_; ++t) {
            const int64_t at = t * kDigitBytes, bytes = std::min(kDigitBytes, packed_.stride - at);
            const int8_t* d = &arranged_[t * count_ * kDigitRows];
            for (int64_t j = 0; j < columns; ++j) {
                const uint8_t* from = packed_.column(which[j]) + at;
                const uint8_t* later = packed_.column(which[std::min(j + 6, columns - 1)]) + at;
                for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(later + line);
                if (bytes < kDigitBytes) {
                    std::fill(std::copy(from, from + bytes, end), end + kDigitBytes, uint8_t{0});
                    from = end;
                }
                double* sum = out + j * width();
                const int8_t* some = d + first_ * kDigitRows;
#if FBED_AVX2
                if (fast) {
                    unpack_planes_avx2(from, copies_.data(), two_.data());
                    digit_dots_avx2(copies_.data(), d, count_, sum);
                    digit_dots_avx2(two_.data(), some, last_ - first_, sum + count_);
                } else
#endif
                {
                    unpack_planes(from, copies_.data(), two_.data());
                    digit_dots(copies_.data(), d, count_, sum);
                    digit_dots(two_.data(), some, last_ - first_, sum + count_);
                }
                leave_out(which[j], t * kDigitRows, sum + count_ + last_ - first_);
            }
        }
    }

   private:
    void leave_out(int64_t j, int64_t first, double* gone) const {
        Packed::missing(packed_.column(j), first, std::min(kDigitRows, packed_.n - first), [&](int64_t i) {
            for (int64_t k = 0; k < count_; ++k) gone[k] += digits_[k * packed_.n + first + i];
        });
    }

    const Packed& packed_;
    int64_t count_, first_, last_, tiles_;
    std::vector<int8_t> arranged_;
    std::vector<uint8_t> copies_, two_;
    const int8_t* digits_;
};

}  // namespace fbed
