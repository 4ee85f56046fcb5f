"""Small PLINK files for tests, and what they hold as numbers."""

from __future__ import annotations

import numpy as np

COPIES = np.array([2.0, np.nan, 1.0, 0.0])  # of the first allele, by the two bits of a genotype


def packed(codes):
    """Two bits each, four to a byte, a row of bytes a variant."""
    n, p = codes.shape
    whole = np.vstack([codes, np.zeros((-n % 4, p), np.uint8)]).T.reshape(p, -1, 4).astype(np.uint8)
    return np.ascontiguousarray((whole << np.array([0, 2, 4, 6], np.uint8)).sum(axis=2).astype(np.uint8))


def written(stem, codes):
    """The three files; samples are called I0, I1, …, variants rs0, rs1, …"""
    n, p = codes.shape
    stem.with_suffix(".bed").write_bytes(bytes((0x6C, 0x1B, 0x01)) + packed(codes).tobytes())
    stem.with_suffix(".bim").write_text("".join(f"1\trs{j}\t0\t{1000 + j}\tA\tG\n" for j in range(p)))
    stem.with_suffix(".fam").write_text("".join(f"F{i} I{i} 0 0 0 -9\n" for i in range(n)))
    return str(stem)


def random_codes(rng, n, p, missing=0.02):
    """Common and rare variants, one without variation, one that is all missing, and a copy."""
    copies = rng.binomial(2, rng.choice([0.01, 0.1, 0.3, 0.5, 0.9], p), (n, p))
    codes = np.array([3, 2, 0], np.uint8)[copies]
    codes[rng.random((n, p)) < missing] = 1
    codes[:, 3], codes[:, 4], codes[:, 5] = 3, 1, codes[:, 6]
    return codes


def imputed(codes, weights=None):
    """Copies as numbers, missing ones at the weighted mean of their variant."""
    raw = COPIES[codes]
    known = ~np.isnan(raw)
    weights = np.ones(len(codes)) if weights is None else np.asarray(weights, float)
    total = weights @ known
    mean = (weights @ np.where(known, raw, 0.0)) / np.where(total > 0, total, 1.0)
    return np.where(known, raw, mean)
