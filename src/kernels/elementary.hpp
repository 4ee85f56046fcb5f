// exp and log1p that a compiler can turn into vector instructions: no branches, no calls, no tables.
#pragma once

#include <cstdint>
#include <cstring>

namespace fbed {

// exp(x) for x <= 0, to 1 ulp or so; 0 below -700. x = k log 2 + r with |r| <= log(2)/2, and a polynomial for exp(r).
inline double exp_of_negative(double x) {
    const double clipped = x < -700.0 ? -700.0 : x;
    const double magic = 6755399441055744.0;  // 1.5 · 2^52: adding it leaves the rounded integer in the low bits
    const double shifted = clipped * 1.4426950408889634 + magic;
    const double k = shifted - magic;
    const double r = (clipped - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double p = 1.6059043836821613e-10;
    p = p * r + 2.0876756987868100e-09;
    p = p * r + 2.5052108385441720e-08;
    p = p * r + 2.7557319223985893e-07;
    p = p * r + 2.7557319223985888e-06;
    p = p * r + 2.4801587301587302e-05;
    p = p * r + 1.9841269841269841e-04;
    p = p * r + 1.3888888888888889e-03;
    p = p * r + 8.3333333333333332e-03;
    p = p * r + 4.1666666666666664e-02;
    p = p * r + 1.6666666666666666e-01;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    uint64_t bits;  // unsigned: the shift drops the high bits, which a signed number must not
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    return x < -700.0 ? 0.0 : p * power;
}

// The power of two below a positive number; -1023 of those that are next to 0.
inline int exponent_of(double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<int>(bits >> 52 & 0x7ff) - 1023;
}

// log(1 + e) for -1/2 <= e <= 1, by 2 atanh(e/(2 + e)).
inline double log1p_of_unit(double e) {
    const double s = e / (2.0 + e), q = s * s;
    double p = 1.0 / 35.0;  // written out: a loop in here would keep the compiler from using vectors outside
    p = p * q + 1.0 / 33.0;
    p = p * q + 1.0 / 31.0;
    p = p * q + 1.0 / 29.0;
    p = p * q + 1.0 / 27.0;
    p = p * q + 1.0 / 25.0;
    p = p * q + 1.0 / 23.0;
    p = p * q + 1.0 / 21.0;
    p = p * q + 1.0 / 19.0;
    p = p * q + 1.0 / 17.0;
    p = p * q + 1.0 / 15.0;
    p = p * q + 1.0 / 13.0;
    p = p * q + 1.0 / 11.0;
    p = p * q + 1.0 / 9.0;
    p = p * q + 1.0 / 7.0;
    p = p * q + 1.0 / 5.0;
    p = p * q + 1.0 / 3.0;
    p = p * q + 1.0;
    return 2.0 * s * p;
}

// log(x) of a normal positive number: of its power of two, and of what that leaves, which is from 1 to 2. Right to 1e-16 beside 1.
inline double log_of_positive(double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const uint64_t small = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL, shifted = (bits >> 52) | 0x4330000000000000ULL;
    double rest, power;
    std::memcpy(&rest, &small, sizeof rest);
    std::memcpy(&power, &shifted, sizeof power);  // 2^52 and the exponent, which is 1023 for 1
    return (power - 4503599627371519.0) * 6.93147180559945309417e-01 + log1p_of_unit(rest - 1.0);
}

}  // namespace fbed
