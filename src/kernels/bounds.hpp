// The four functions behind every certificate, safe near 0 where the plain formulas cancel.
//
//   h(z)  = (1+z)log(1+z) - z
//   P(z)  = 2h(z)/z²                              decreasing, P(0) = 1,    z >= -1
//   P4(z) = 2[h(z) - z²/2 + z³/6]/z⁴              decreasing, P4(0) = 1/6, z >= -1
//   E4(z) = 2[exp(z) - 1 - z - z²/2 - z³/6]/z⁴    increasing, E4(0) = 1/12
#pragma once

#include <cmath>

namespace fbed {

// sum over k >= First of (-z)^(k-First) * 2/(k(k-1)): the tail of 2h(z) after its leading terms, for |z| <= 0.1.
template <int First>
inline double h_series(double z) {
    double sum = 0.0;
    for (int k = First + 15; k >= First; --k) sum = 2.0 / (k * (k - 1.0)) - z * sum;
    return sum;
}

inline double h(double z) { return z <= -1.0 ? 1.0 : (1.0 + z) * std::log1p(z) - z; }

inline double P(double z) { return std::abs(z) < 0.1 ? h_series<2>(z) : 2.0 * h(z) / (z * z); }

inline double P4(double z) {
    if (std::abs(z) < 0.1) return h_series<4>(z);
    return 2.0 * (h(z) - z * z / 2.0 + z * z * z / 6.0) / (z * z * z * z);
}

inline double E4(double z) {
    if (std::abs(z) < 0.5) {
        double term = 1.0 / 24.0, sum = 0.0;
        for (int k = 4; k < 22; ++k) {
            sum += term;
            term *= z / (k + 1.0);
        }
        return 2.0 * sum;
    }
    if (z > 600.0) return 1e300;
    return 2.0 * (std::expm1(z) - z - z * z / 2.0 - z * z * z / 6.0) / (z * z * z * z);
}

}  // namespace fbed
