// Rows written as columns.
#pragma once

#include "arrays.hpp"

namespace fbed {

// What lies row after row, in columns: `out` has a row for every column. Only the size of an element matters. Some rows, so that
// threads can share them. Tiles of rows and columns stay in the nearest cache, where it costs nothing to go across them; a
// column of a tile is whole lines of memory when it leaves.
template <class T>
void to_columns(nb::ndarray<const T, nb::ndim<2>, nb::device::cpu> rows,
                nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, int64_t first, int64_t last) {
    const int64_t n = rows.shape(0), p = rows.shape(1), down = rows.stride(0), across = rows.stride(1);
    require(static_cast<int64_t>(out.shape(0)) == p && static_cast<int64_t>(out.shape(1)) == n, "sizes");
    require(0 <= first && first <= last && last <= n, "row range");
    const T* source = rows.data();
    T* target = out.data();
    nb::gil_scoped_release release;
    constexpr int64_t length = 64, width = 16;
    T tile[width][length];
    for (int64_t i = first; i < last; i += length) {
        look_up();
        const int64_t m = std::min(length, last - i);
        for (int64_t j = 0; j < p; j += width) {
            const int64_t count = std::min(width, p - j);
            for (int64_t r = 0; r < m; ++r)
                for (int64_t c = 0; c < count; ++c) tile[c][r] = source[(i + r) * down + (j + c) * across];
            for (int64_t c = 0; c < count; ++c) std::copy(tile[c], tile[c] + m, target + (j + c) * n + i);
        }
    }
}

}  // namespace fbed
