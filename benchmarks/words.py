"""``python -m benchmarks.words``: searches on tables of word counts, whose classes are nearly separated.

Documents of two classes are about some topics of their class and some that both share. Words have Zipf frequencies; a
topic prefers words of its own. Short or long documents, classes of any size, counts or mere presence.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from scipy import sparse

import fbed
from fbed.rules.p_values import Floats


@dataclass(frozen=True)
class Corpus:
    """What a table of words looks like."""

    n_documents: int
    n_words: int
    length: float  # words in a typical document
    first_class: float = 0.5  # part of the documents
    topics: int = 6  # of each class; as many are shared by both
    clear: float = 12.0  # how much more often a topic has its own words
    counts: bool = True


CORPORA = {
    "like BASEHOCK": Corpus(1993, 4862, 100.0),
    "like PCMAC": Corpus(1943, 3289, 60.0, clear=10.0),
    "like RELATHE": Corpus(1427, 4322, 80.0, first_class=0.55, clear=8.0),
    "short": Corpus(3000, 4000, 15.0),
    "long": Corpus(800, 6000, 300.0, clear=5.0),
    "rare class": Corpus(4000, 3000, 60.0, first_class=0.05),
    "presence": Corpus(1500, 5000, 60.0, counts=False),
    "many documents": Corpus(10_000, 20_000, 40.0),
    "unclear": Corpus(5000, 10_000, 60.0, clear=2.0),
}


def documents(corpus: Corpus, seed: int = 0) -> tuple[sparse.csc_matrix, Floats]:
    """Words by document, and the class of each document."""
    rng = np.random.default_rng(seed)
    y = (rng.random(corpus.n_documents) < corpus.first_class).astype(float)
    frequency = 1.0 / (np.arange(corpus.n_words) + 2.7)
    own = rng.random((3 * corpus.topics, corpus.n_words)) < 0.04
    topics = frequency * np.where(own, corpus.clear * rng.gamma(1.0, 1.0, own.shape), 0.7)
    topics /= topics.sum(axis=1, keepdims=True)
    lengths = rng.poisson(corpus.length * rng.lognormal(0.0, 0.7, corpus.n_documents)) + 3
    rows, words = [], []
    for i, (kind, length) in enumerate(zip(y, lengths, strict=True)):
        about = rng.integers(corpus.topics, size=2) + corpus.topics * np.array([kind, 2.0]).astype(int)
        share = rng.beta(2.0, 1.0)
        mixture = share * topics[about[0]] + (1.0 - share) * topics[about[1]]
        found = rng.choice(corpus.n_words, size=length, p=mixture)
        rows.append(np.full(length, i))
        words.append(found)
    where = (np.concatenate(rows), np.concatenate(words))
    table = sparse.coo_matrix((np.ones(len(where[0])), where), shape=(corpus.n_documents, corpus.n_words)).tocsc()
    if not corpus.counts:
        table.data[:] = 1.0
    return table[:, np.diff(table.indptr) > 1].tocsc(), y


SEARCHES = {
    "K=0": {"k": 0},
    "K=1": {"k": 1},
    "EBIC K=0": {"k": 0, "criterion": "ebic"},
    "EBIC K=1": {"k": 1, "criterion": "ebic"},
}


def main() -> None:
    """Processor seconds of every search on every corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(CORPORA))
    asked = parser.parse_args()
    for name in asked.only:
        X, y = documents(CORPORA[name])
        for search, options in SEARCHES.items():
            best = np.inf
            for _ in range(asked.turns):
                start = time.process_time()
                result = fbed.select(X, y, n_jobs=1, **options)
                best = min(best, time.process_time() - start)
            print(f"{name:14} {X.shape} {search:9} {best:7.3f} s  {len(result.selected):3} words", flush=True)


if __name__ == "__main__":
    main()
