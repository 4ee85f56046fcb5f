"""Mutants: bytes, texts and JSON that are nearly what a reader expects."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

TOKENS: tuple[bytes, ...] = tuple(
    text.encode()
    for text in (
        *("", ",", ";", "\t", "\n", "\r\n", "\r", "\0", '"', "'", "{", "}", "[", "]", "(", ")", "|", ":", "#", "\\"),
        *("nan", "NaN", "inf", "-inf", "1e308", "1e-320", "-1", "0", "1", "2147483648", "9223372036854775808"),
        *("1" * 400, "0x10", "1_000", "١٢", "∞", "ä", "\ufeff", "\ud7ff", "null", "true", "NA", "None", "2020-01-01"),
        *("/*", "*/", "//", "<script>", "..", "y", "x0", "qid:3", "1:1", "0:1", "-5:2", "99999999999:1", "=1+1"),
        *("variable", "probability", "table", "default", "property", "discrete", "network", "type"),
    )
)
MARKS = (b"\xff", b"\xfe\xff", b"\x1f\x8b", b"PK\x03\x04", b"\x93NUMPY", b"\x80\x04")  # of other kinds of files

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 2**31, 2**53 + 1, 10**400, 0.5, -0.0, 1e308, 1e-320, float("nan"), float("inf")),
    *("", "y", "x0", "converged", "forward", "add", "inf", "nan", "<script>", "é" * 300, "math.inf", "[" * 2000),
    *([], [None], [0], [1, 2], ["a"], [[]], {}, {"a": 1}, {"": None}),
)


def of_bytes(rng: random.Random, seed: bytes) -> bytes:
    """A few small changes, of which each leaves most of the file as it was."""
    out = bytearray(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        rng.choice(_CHANGES)(rng, out)
    return bytes(out)


def _place(rng: random.Random, out: bytearray) -> int:
    return rng.randrange(len(out) + 1)


def _flip(rng: random.Random, out: bytearray) -> None:
    if out:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)


def _insert(rng: random.Random, out: bytearray) -> None:
    at = _place(rng, out)
    out[at:at] = rng.choice(TOKENS if rng.random() < 0.9 else MARKS)


def _overwrite(rng: random.Random, out: bytearray) -> None:
    at, token = _place(rng, out), rng.choice(TOKENS)
    out[at : at + len(token)] = token


def _cut(rng: random.Random, out: bytearray) -> None:
    at = _place(rng, out)
    del out[at : at + rng.choice((1, 2, 5, 20, 100, 10_000))]


def _repeat(rng: random.Random, out: bytearray) -> None:
    at, length = _place(rng, out), rng.choice((1, 3, 10, 100))
    out[at:at] = out[at : at + length] * rng.choice((1, 2, 50))


def _replace_word(rng: random.Random, out: bytearray) -> None:
    """A whole field of a text by something else."""
    words = bytes(out).replace(b"\n", b",").replace(b" ", b",").split(b",")
    old = rng.choice(words)
    if old:
        out[:] = bytes(out).replace(old, rng.choice(TOKENS), rng.choice((1, 1, -1)))


def _swap_lines(rng: random.Random, out: bytearray) -> None:
    lines = bytes(out).split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    out[:] = b"\n".join(lines)


_CHANGES: Sequence[Callable[[random.Random, bytearray], None]] = (
    *(_flip, _insert, _overwrite, _cut, _repeat, _replace_word, _replace_word, _swap_lines),
)


def of_json(rng: random.Random, seed: str) -> bytes:
    """JSON with some of its parts replaced, removed or doubled; at times bytes are changed as well."""
    plain = json.loads(seed)
    for _ in range(rng.choice((1, 1, 2, 4))):
        plain = _replaced(rng, plain)
    text = json.dumps(plain).encode()
    return of_bytes(rng, text) if rng.random() < 0.1 else text


def _replaced(rng: random.Random, plain: Any) -> Any:
    """Go down at random, and change what is there."""
    if isinstance(plain, dict) and plain and rng.random() < 0.9:
        key = rng.choice(list(plain))
        roll = rng.random()
        if roll < 0.05:
            return {name: value for name, value in plain.items() if name != key}
        if roll < 0.1:
            return {**plain, rng.choice(("extra", "", key.upper())): plain[key]}
        return {**plain, key: _replaced(rng, plain[key])}
    if isinstance(plain, list) and plain and rng.random() < 0.8:
        i = rng.randrange(len(plain))
        roll = rng.random()
        if roll < 0.1:
            return plain[:i] + plain[i + 1 :]
        if roll < 0.2:
            return plain + plain[i : i + 1]
        return [*plain[:i], _replaced(rng, plain[i]), *plain[i + 1 :]]
    if isinstance(plain, (int, float)) and not isinstance(plain, bool) and rng.random() < 0.4:
        return rng.choice((-plain, plain + 1, plain * 1000, -1, 0, 0.5))
    return rng.choice(VALUES)
