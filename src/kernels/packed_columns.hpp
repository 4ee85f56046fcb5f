// Packed genotypes as Python holds them.
#pragma once

#include "arrays.hpp"
#include "digits.hpp"
#include "packed.hpp"

namespace fbed {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Digits = nb::ndarray<const int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutBytes = nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>>;

struct PackedColumns {
    Bytes bytes;
    Packed m;

    PackedColumns(Bytes bytes_, int64_t n) : bytes(bytes_) {
        require(n >= 0 && static_cast<int64_t>(bytes.shape(1)) == (n + 3) / 4, "four genotypes a byte");
        m = Packed{bytes.data(), n, static_cast<int64_t>(bytes.shape(0)), static_cast<int64_t>(bytes.shape(1))};
    }

    OutMatrix stats(Vector weights, double /*total*/, int64_t first, int64_t last) const {
        require(static_cast<int64_t>(weights.shape(0)) == m.n, "one weight a row");
        require(0 <= first && first <= last && last <= m.p, "column range");
        const bool equal = std::all_of(weights.data(), weights.data() + m.n, [](double w) { return w == 1.0; });
        const double* weight = equal ? nullptr : weights.data();
        return stats_of(first, last, [&](int64_t j) { return m.stats(j, weight); });
    }

    OutMatrix gather(Which which, Vector center, Vector scale) const {
        return gather_rows(which, center, scale, 0, m.n, false);
    }

    OutMatrix gather_rows(Which which, Vector center, Vector scale, int64_t first, int64_t last, bool constant) const {
        check(which, center, scale);
        double* data;
        OutMatrix out = new_block(first, last, m.n, which.shape(0), constant, data);
        nb::gil_scoped_release release;
        m.gather(which.data(), which.shape(0), center.data(), scale.data(), first, last, data);
        return out;
    }

    // A row a column: products with the vectors, which hold the rows from `first` on, and Σ v·column² of the second vector.
    OutMatrix products(Which which, Vector center, Vector scale, int64_t first, ColumnMajor vectors) const {
        check(which, center, scale);
        const int64_t rows = static_cast<int64_t>(vectors.shape(0)), count = static_cast<int64_t>(vectors.shape(1));
        require(0 <= first && first % 4 == 0 && first + rows <= m.n, "row range");
        double* data = new double[which.shape(0) * (count + 1)];
        nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
        OutMatrix out(data, {which.shape(0), static_cast<size_t>(count + 1)}, owner);
        nb::gil_scoped_release release;
        look_up();
        PackedProducts(m, first, rows, vectors.data(), count).run(which.data(), which.shape(0), center.data(), scale.data(), data);
        return out;
    }

    // A row a column: see `DigitSums`. `digits` has a row for every digit of a vector.
    OutMatrix digit_sums(Which which, Digits digits, int64_t first, int64_t last) const {
        check_range(which, m.p);
        const int64_t count = static_cast<int64_t>(digits.shape(0));
        require(static_cast<int64_t>(digits.shape(1)) == m.n && 0 <= first && first <= last && last <= count, "digits");
        const size_t width = static_cast<size_t>(2 * count + last - first);
        double* data = new double[which.shape(0) * width];
        nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
        OutMatrix out(data, {which.shape(0), width}, owner);
        nb::gil_scoped_release release;
        look_up();
        DigitSums(m, digits.data(), count, first, last).run(which.data(), which.shape(0), data);
        return out;
    }

    // The same columns on some rows.
    OutBytes rows(Which keep) const {
        check_range(keep, m.n);
        const size_t stride = (keep.shape(0) + 3) / 4, p = static_cast<size_t>(m.p);
        uint8_t* data = new uint8_t[p * stride];
        nb::capsule owner(data, [](void* q) noexcept { delete[] static_cast<uint8_t*>(q); });
        OutBytes out(data, {p, stride}, owner);
        nb::gil_scoped_release release;
        pack_rows(m, keep.data(), keep.shape(0), data);
        return out;
    }

   private:
    void check(const Which& which, const Vector& center, const Vector& scale) const {
        check_range(which, m.p);
        require(static_cast<int64_t>(center.shape(0)) == m.p && static_cast<int64_t>(scale.shape(0)) == m.p, "moments");
    }
};

}  // namespace fbed
