// Arrays that come from Python and go back to it, their sizes checked at the door.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "columns.hpp"
#include "pause.hpp"

namespace fbed {

namespace nb = nanobind;

using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MaybeVector = std::optional<Vector>;
using RowMajor = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ColumnMajor = nb::ndarray<const double, nb::ndim<2>, nb::f_contig, nb::device::cpu>;
using Which = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using InOut = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using InOutColumns = nb::ndarray<double, nb::ndim<2>, nb::f_contig, nb::device::cpu>;
using Anything = nb::ndarray<nb::ro, nb::device::cpu>;
using OutVector = nb::ndarray<nb::numpy, double, nb::ndim<1>>;
using OutRows = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;
using OutFlags = nb::ndarray<nb::numpy, bool, nb::ndim<1>>;
using OutMatrix = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

inline void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(what);
}

inline Kind kind_of(const nb::dlpack::dtype& t) {
    using C = nb::dlpack::dtype_code;
    const auto code = static_cast<C>(t.code);
    if (code == C::Int) {
        if (t.bits == 8) return Kind::i8;
        if (t.bits == 16) return Kind::i16;
        if (t.bits == 32) return Kind::i32;
        if (t.bits == 64) return Kind::i64;
    }
    if (code == C::UInt) {
        if (t.bits == 8) return Kind::u8;
        if (t.bits == 16) return Kind::u16;
        if (t.bits == 32) return Kind::u32;
        if (t.bits == 64) return Kind::u64;
    }
    if (code == C::Float && t.bits == 32) return Kind::f32;
    if (code == C::Float && t.bits == 64) return Kind::f64;
    throw std::invalid_argument("unsupported element type");
}

inline OutVector new_vector(size_t n, double*& data) {
    data = new double[n]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    return OutVector(data, {n}, owner);
}

inline OutRows new_numbers(size_t n, int64_t*& data) {
    data = new int64_t[n]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<int64_t*>(p); });
    return OutRows(data, {n}, owner);
}

inline OutFlags new_flags(size_t n, bool*& data) {
    data = new bool[n]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<bool*>(p); });
    return OutFlags(data, {n}, owner);
}

// n × count, column-major
inline OutMatrix new_columns(size_t n, size_t count, double*& data) {
    data = new double[n * count];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    return OutMatrix(data, {n, count}, owner, {1, static_cast<int64_t>(n)});
}

// a copy, row-major
inline OutMatrix new_rows(int64_t rows, int64_t count, double*& data) {
    data = new double[rows * count];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    return OutMatrix(data, {static_cast<size_t>(rows), static_cast<size_t>(count)}, owner);
}

inline OutMatrix new_rows(const std::vector<double>& values, int64_t rows, int64_t count) {
    double* data;
    OutMatrix out = new_rows(rows, count, data);
    std::copy(values.begin(), values.end(), data);
    return out;
}

inline void check_range(const Which& which, int64_t p) {
    for (size_t j = 0; j < which.shape(0); ++j) require(which(j) >= 0 && which(j) < p, "column index out of range");
}

// center, scale, min, max, number of values that are not finite, and that are not 0: for columns first..last
template <class Read>
inline OutMatrix stats_of(int64_t first, int64_t last, Read&& read) {
    const size_t count = static_cast<size_t>(last - first);
    double* data;
    OutMatrix out = new_columns(count, 6, data);
    nb::gil_scoped_release release;
    for (size_t j = 0; j < count; ++j) {
        look_up();
        const Moments m = read(first + static_cast<int64_t>(j));
        data[j] = m.center;
        data[count + j] = m.scale;
        data[2 * count + j] = m.min;
        data[3 * count + j] = m.max;
        data[4 * count + j] = static_cast<double>(m.not_finite);
        data[5 * count + j] = static_cast<double>(m.not_zero);
    }
    return out;
}

// Room for `count` columns of the rows first..last, after a column of ones if there is to be a constant.
inline OutMatrix new_block(int64_t first, int64_t last, int64_t n, size_t count, bool constant, double*& data) {
    require(0 <= first && first <= last && last <= n, "row range");
    const size_t length = static_cast<size_t>(last - first);
    OutMatrix out = new_columns(length, count + constant, data);
    if (constant) std::fill(data, data + length, 1.0), data += length;
    return out;
}

}  // namespace fbed
