// Sums over rows of products of pairs of classes and pairs of columns, by tiles or entry by entry.
#pragma once

#include <cstdint>
#include <vector>

#include "tiles.hpp"

namespace fbed {

inline int64_t pairs(int64_t k) { return k * (k + 1) / 2; }

// Sums over rows of all pairs of classes with some products of columns, whichever of the two fills tiles better.
struct PairSums {
    int64_t n_pairs = 0, n_products = 0;
    bool by_product = false;  // whether products of columns lie beside each other
    std::vector<double> values;

    void reset(int64_t of_classes, int64_t of_columns, bool of_entries) {
        n_pairs = of_classes, n_products = of_columns;
        begin(!of_entries && tiled(n_products) * n_pairs < tiled(n_pairs) * n_products);
    }

    // For few pairs of classes a row, each with all products.
    void reset_few(int64_t of_classes, int64_t of_columns) {
        n_pairs = of_classes, n_products = of_columns;
        begin(true);
    }

    // A row's products, for one pair of classes.
    FBED_INLINE void add_pair(int64_t pair, double weight, const double* products) {
        double* to = values.data() + pair * tiled(n_products);
#pragma omp simd
        for (int64_t j = 0; j < n_products; ++j) to[j] += weight * products[j];
    }

    void begin(bool products_side_by_side) {
        by_product = products_side_by_side;
        values.assign((by_product ? tiled(n_products) * n_pairs : tiled(n_pairs) * n_products) + kTile, 0.0);
    }
    void add(const double* weights, const double* products, int64_t rows) {
        if (n_products == 0) return;
        if (by_product) return add_products(products, n_products, weights, n_pairs, rows, values.data());
        add_products(weights, n_pairs, products, n_products, rows, values.data());
    }
    // where the sums of a product begin, and how far apart those of two pairs of classes are
    const double* of(int64_t product) const { return values.data() + (by_product ? product : product * tiled(n_pairs)); }
    int64_t apart() const { return by_product ? tiled(n_products) : 1; }
};

}  // namespace fbed
