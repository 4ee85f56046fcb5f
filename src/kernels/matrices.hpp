// Dense and sparse matrices as Python sees them.
#pragma once

#include "arrays.hpp"
#include "columns.hpp"
#include "moments_across.hpp"

namespace fbed {

struct DenseColumns {
    std::vector<Anything> arrays;
    std::vector<ColumnApart> apart;
    Dense m;

    explicit DenseColumns(Anything a) : arrays{a} {
        require(a.ndim() == 2, "expected a matrix");
        m = Dense{a.data(), kind_of(a.dtype()), static_cast<int64_t>(a.shape(0)), static_cast<int64_t>(a.shape(1)),
                  a.stride(0), a.stride(1)};
    }

    // Columns that lie apart, each in its own type.
    DenseColumns(std::vector<Anything> columns, int64_t n) : arrays(std::move(columns)) {
        for (const Anything& a : arrays) {
            require(a.ndim() == 1 && static_cast<int64_t>(a.shape(0)) == n && (n <= 1 || a.stride(0) == 1), "columns");
            apart.push_back({a.data(), kind_of(a.dtype())});
        }
        m = Dense{nullptr, Kind::f64, n, static_cast<int64_t>(apart.size()), 1, n, apart.data()};
    }
    DenseColumns(const DenseColumns&) = delete;  // `m` points into `apart`
    DenseColumns& operator=(const DenseColumns&) = delete;

    OutMatrix stats(Vector weights, double total, int64_t first, int64_t last) const {
        require(static_cast<int64_t>(weights.shape(0)) == m.n, "one weight a row");
        require(0 <= first && first <= last && last <= m.p, "column range");
        const bool equal = std::all_of(weights.data(), weights.data() + m.n, [](double w) { return w == 1.0; });
        const double* weight = equal ? nullptr : weights.data();
        return m.row_stride == 1 ? stats_along(weight, total, first, last) : stats_across(weight, total, first, last);
    }

    OutVector dots(Which which, Vector v) const {
        check_range(which, m.p);
        require(static_cast<int64_t>(v.shape(0)) == m.n, "one value a row");
        double* data;
        OutVector out = new_vector(which.shape(0), data);
        nb::gil_scoped_release release;
        m.dots(which.data(), which.shape(0), v.data(), data);
        return out;
    }

    OutMatrix gather(Which which, Vector center, Vector scale) const {
        return gather_rows(which, center, scale, 0, m.n, false);
    }

    OutMatrix gather_rows(Which which, Vector center, Vector scale, int64_t first, int64_t last, bool constant) const {
        check_range(which, m.p);
        require(static_cast<int64_t>(center.shape(0)) == m.p && static_cast<int64_t>(scale.shape(0)) == m.p, "moments");
        double* data;
        OutMatrix out = new_block(first, last, m.n, which.shape(0), constant, data);
        nb::gil_scoped_release release;
        m.rows(first, last).gather(which.data(), which.shape(0), center.data(), scale.data(), data);
        return out;
    }

   private:
    OutMatrix stats_along(const double* weights, double total, int64_t first, int64_t last) const {
        const double zero = 0, one = 1;
        std::vector<double> values;
        return stats_of(first, last, [&](int64_t j) {
            if (const double* column = m.in_place(j)) return moments(column, weights, nullptr, m.n, m.n, total);
            values.resize(m.n);
            m.gather_one(j, zero, one, values.data());
            return moments(values.data(), weights, nullptr, m.n, m.n, total);
        });
    }

    OutMatrix stats_across(const double* weights, double total, int64_t first, int64_t last) const {
        MomentsAcross across(m, weights, total);
        Moments found[MomentsAcross::kWidth];
        return stats_of(first, last, [&](int64_t j) {
            const int64_t place = (j - first) % MomentsAcross::kWidth;
            if (place == 0) {
                std::fill(std::begin(found), std::end(found), Moments{});
                across.find(j, std::min(MomentsAcross::kWidth, last - j), found);
            }
            return found[place];
        });
    }
};

struct SparseColumns {
    Anything indptr, indices, data;
    Sparse m;

    SparseColumns(Anything indptr_, Anything indices_, Anything data_, int64_t n)
        : indptr(indptr_), indices(indices_), data(data_) {
        const Kind kind = kind_of(indices.dtype());
        require(kind == kind_of(indptr.dtype()) && (kind == Kind::i32 || kind == Kind::i64), "index types");
        require(indices.shape(0) == data.shape(0) && indptr.shape(0) >= 1, "CSC arrays");
        require(n < std::numeric_limits<int32_t>::max(), "too many rows");
        m = Sparse{data.data(), kind_of(data.dtype()), indices.data(), indptr.data(), kind == Kind::i64, n,
                   static_cast<int64_t>(indptr.shape(0)) - 1};
        require(m.begin(0) == 0 && m.begin(m.p) <= static_cast<int64_t>(indices.shape(0)), "CSC arrays");
        if (m.wide) require_order(static_cast<const int64_t*>(m.indices));
        else require_order(static_cast<const int32_t*>(m.indices));
    }

    // Rows of a column are written to without another look at them, and looked for by halving.
    template <class Index>
    void require_order(const Index* index) const {
        for (int64_t j = 0; j < m.p; ++j) require(m.begin(j) <= m.begin(j + 1), "CSC arrays");
        for (int64_t j = 0; j < m.p; ++j)
            for (int64_t i = m.begin(j), before = -1; i < m.begin(j + 1); before = index[i++])
                require(before < index[i] && index[i] < m.n, "the rows of every column in order");
    }

    OutMatrix stats(Vector weights, double total, int64_t first, int64_t last) const {
        require(static_cast<int64_t>(weights.shape(0)) == m.n, "one weight a row");
        require(0 <= first && first <= last && last <= m.p, "column range");
        std::vector<double> values(m.n);
        std::vector<int32_t> rows(m.n);
        return stats_of(first, last, [&](int64_t j) {
            const int64_t count = m.column(j, rows.data(), values.data());
            return moments(values.data(), weights.data(), rows.data(), count, m.n, total);
        });
    }

    OutMatrix gather(Which which, Vector center, Vector scale) const {
        check_range(which, m.p);
        require(static_cast<int64_t>(center.shape(0)) == m.p && static_cast<int64_t>(scale.shape(0)) == m.p, "moments");
        double* data_out;
        OutMatrix out = new_columns(m.n, which.shape(0), data_out);
        nb::gil_scoped_release release;
        m.gather(which.data(), which.shape(0), center.data(), scale.data(), data_out);
        return out;
    }

    OutMatrix gather_rows(Which which, Vector center, Vector scale, int64_t first, int64_t last, bool constant) const {
        check_range(which, m.p);
        require(static_cast<int64_t>(center.shape(0)) == m.p && static_cast<int64_t>(scale.shape(0)) == m.p, "moments");
        double* out_data;
        OutMatrix out = new_block(first, last, m.n, which.shape(0), constant, out_data);
        nb::gil_scoped_release release;
        m.gather_rows(which.data(), which.shape(0), center.data(), scale.data(), first, last, out_data);
        return out;
    }

    // x'v for every column: one pass over the stored entries.
    OutVector dots(Which which, Vector v) const {
        check_range(which, m.p);
        require(static_cast<int64_t>(v.shape(0)) == m.n, "one value a row");
        double* out_data;
        OutVector out = new_vector(which.shape(0), out_data);
        nb::gil_scoped_release release;
        std::vector<double> values(m.n);
        std::vector<int32_t> rows(m.n);
        for (size_t j = 0; j < which.shape(0); ++j) {
            const int64_t count = m.column(which.data()[j], rows.data(), values.data());
            for (int64_t i = 0; i < count; ++i) out_data[j] += values[i] * v.data()[rows[i]];
        }
        return out;
    }

    // Products of columns as they are with rows of vectors, for rows from `first` on, and of their squares with the second vector.
    std::tuple<OutMatrix, OutVector> products(Which which, int64_t first, RowMajor V) const {
        check_range(which, m.p);
        const int64_t last = first + static_cast<int64_t>(V.shape(0));
        require(0 <= first && last <= m.n, "rows");
        double *along, *own;
        OutMatrix a = new_columns(V.shape(1), which.shape(0), along);
        OutVector o = new_vector(which.shape(0), own);
        nb::gil_scoped_release release;
        std::fill(along, along + V.shape(1) * which.shape(0), 0.0);
        m.products(which.data(), static_cast<int64_t>(which.shape(0)), first, last, V.data(), static_cast<int64_t>(V.shape(1)), along, own);
        return {a, o};
    }
};

// Rows and values of a column that are not 0.
template <class Columns>
std::tuple<OutRows, OutVector> support_of(const Columns& columns, int64_t j) {
    require(0 <= j && j < columns.m.p, "a column");
    std::vector<int32_t> rows(columns.m.n);
    std::vector<double> values(columns.m.n);
    const int64_t count = columns.m.support(j, rows.data(), values.data());
    int64_t* at;
    double* x;
    OutRows r = new_numbers(static_cast<size_t>(count), at);
    OutVector v = new_vector(static_cast<size_t>(count), x);
    std::copy_n(rows.begin(), count, at);
    std::copy_n(values.begin(), count, x);
    return {r, v};
}

inline void bind_matrices(nb::module_& m) {
    nb::class_<DenseColumns>(m, "DenseColumns")
        .def(nb::init<Anything>())
        .def(nb::init<std::vector<Anything>, int64_t>())
        .def_prop_ro("is_across", [](const DenseColumns& columns) { return columns.m.row_stride != 1; })
        .def("stats", &DenseColumns::stats)
        .def("dots", &DenseColumns::dots)
        .def("gather", &DenseColumns::gather)
        .def("gather_rows", &DenseColumns::gather_rows)
        .def("support", &support_of<DenseColumns>);
    nb::class_<SparseColumns>(m, "SparseColumns")
        .def(nb::init<Anything, Anything, Anything, int64_t>())
        .def("stats", &SparseColumns::stats)
        .def("gather", &SparseColumns::gather)
        .def("gather_rows", &SparseColumns::gather_rows)
        .def("products", &SparseColumns::products)
        .def("support", &support_of<SparseColumns>)
        .def("dots", &SparseColumns::dots);
}

}  // namespace fbed
