"""Reader of the Bayesian network interchange format (.bif), plain or compressed by gzip.

A file is read in two steps: syntax (text → blocks) and meaning (blocks → tables). As the format's definition
has it, commas and bars are white space, comments are those of C++, and blocks come in any order.
"""

import gzip
import math
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from fbed.graphs.errors import GraphError, listing
from fbed.graphs.probability import as_distributions

_TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
    | (?P<unclosed> /\* )
    | "(?P<quoted> [^"\n]* )"
    | (?P<bare> [{}()\[\];"] | [^\s,|{}()\[\];"]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_MOST_NUMBERS = 2**24  # of all tables together: the largest networks in use have some 10⁵ or 10⁶
_MOST_AXES = 32  # of an array of NumPy, in every version in use
_PUNCTUATION = frozenset('{}()[];"')


@dataclass(frozen=True)
class BifNetwork:
    """The contents of a .bif file, by name of variable and in the order of their declaration.

    The axes of a table are the parents, in their order, and then the variable itself.
    """

    levels: dict[str, tuple[str, ...]]
    parents: dict[str, tuple[str, ...]]
    tables: dict[str, NDArray[np.float64]]


def read_bif(path: str | PathLike[str]) -> BifNetwork:
    """The network in a file.

    Raises
    ------
    GraphError
        When the file does not follow the format, with the line and the block.
    """
    source = _Source(str(path), _read_text(Path(path)))
    variables, blocks = _Syntax(source).file()
    return _meaning(source, variables, blocks)


def _read_text(path: Path) -> str:
    data = path.read_bytes()
    try:
        # By content rather than by name: downloads lose or gain a .gz easily.
        return (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise GraphError(
            f"{path}: expected a text in the .bif format, plain or compressed by gzip, but it cannot be "
            f"read: {problem}. Download it again, or save it as UTF-8."
        ) from problem


class _Token(NamedTuple):
    text: str
    at: int  # offset in the file
    quoted: bool

    def is_mark(self, mark: str) -> bool:
        return self.text == mark and not self.quoted


@dataclass(frozen=True)
class _Source:
    name: str
    text: str

    def tokens(self) -> Iterator[_Token]:
        for match in _TOKEN.finditer(self.text):
            if match["unclosed"]:  # the first one: looking for the end of each would take quadratic time
                self.fail(match.start(), "a comment", "it never ends. Close it by '*/', or remove it.")
            if match["quoted"] is not None:
                yield _Token(match["quoted"], match.start(), True)
            elif match["bare"] is not None:
                yield _Token(match["bare"], match.start(), False)

    def place(self, at: int, block: str) -> str:
        return f"{self.name}, line {bisect_left(self._line_ends, at) + 1}, in {block}"

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    def fail(self, at: int, block: str, problem: str) -> NoReturn:
        raise GraphError(f"{self.place(at, block)}: {problem}")


@dataclass(frozen=True)
class _Entry:
    """One line of numbers of a probability block."""

    kind: str  # 'table', 'default' or 'row'
    labels: tuple[str, ...]  # the levels of the parents, for a row
    numbers: list[float]
    at: int


@dataclass(frozen=True)
class _Block:
    """A probability block."""

    parents: tuple[str, ...]
    entries: list[_Entry]
    at: int


class _Syntax:
    """Text → blocks: a parser with one method for each rule of the grammar."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._tokens = list(source.tokens())
        self._next = 0
        self._block = "the file"
        self._variables: dict[str, tuple[str, ...]] = {}
        self._probabilities: dict[str, _Block] = {}

    def file(self) -> tuple[dict[str, tuple[str, ...]], dict[str, _Block]]:
        readers = {"network": self._network, "variable": self._variable, "probability": self._probability}
        while self._next < len(self._tokens):
            self._block = "the file"
            keyword = self._take()
            if keyword.text not in readers:
                self._fail(keyword, "'network', 'variable' or 'probability'")
            readers[keyword.text]()
        return self._variables, self._probabilities

    def _network(self) -> None:
        name = self._word("the name of the network")
        self._block = f"the network block {name.text!r}"
        self._expect("{")
        while not self._at("}"):
            self._property(self._take())
        self._expect("}")

    def _variable(self) -> None:
        name = self._word("the name of a variable")
        self._block = f"the variable block of {name.text!r}"
        if name.text in self._variables:
            self._source.fail(name.at, self._block, "it is declared a second time. Remove or rename one of them.")
        self._expect("{")
        levels: tuple[str, ...] = ()
        while not self._at("}"):
            statement = self._take()
            if statement.text == "type" and not levels:
                levels = self._levels()
            else:
                self._property(statement)
        if not levels:
            self._fail(self._take(), "'type discrete [ number ] { level, level, ... };'")
        self._expect("}")
        self._variables[name.text] = levels

    def _levels(self) -> tuple[str, ...]:
        if (kind := self._take()).text != "discrete":
            self._fail(kind, "'discrete', the only type of variable that is read")
        self._expect("[")
        count = self._word("the number of levels")
        self._expect("]")
        self._expect("{")
        levels = [word.text for word in self._words("}", "a level")]
        self._expect(";")
        if str(len(levels)) != count.text or len(set(levels)) < len(levels):
            problem = f"expected {count.text} different levels, got {len(levels)}: {listing(levels)}."
            self._source.fail(count.at, self._block, f"{problem} Correct the number in [ ] or the levels.")
        return tuple(levels)

    def _probability(self) -> None:
        opening = self._expect("(")
        names = [word.text for word in self._words(")", "the name of a variable")]
        if not names:
            self._fail(opening, "'( variable | parent, parent, ... )' with a variable inside")
        self._block = f"the probability block of {names[0]!r}"
        if names[0] in self._probabilities:
            self._source.fail(opening.at, self._block, "it is the second one of this variable. Remove one of them.")
        self._expect("{")
        entries: list[_Entry] = []
        while not self._at("}"):
            entries.extend(self._entry())
        self._expect("}")
        self._probabilities[names[0]] = _Block(tuple(names[1:]), entries, opening.at)

    def _entry(self) -> list[_Entry]:
        first = self._take()
        if first.is_mark("("):
            labels = tuple(word.text for word in self._words(")", "a level"))
            return [_Entry("row", labels, self._numbers(), first.at)]
        if first.text in ("table", "default"):
            return [_Entry(first.text, (), self._numbers(), first.at)]
        self._property(first)
        return []

    def _numbers(self) -> list[float]:
        return [self._number(word) for word in self._words(";", "a number")]

    def _number(self, word: _Token) -> float:
        try:
            return float(word.text)
        except ValueError:
            self._fail(word, "a number")

    def _property(self, keyword: _Token) -> None:
        if keyword.text != "property":
            self._fail(keyword, "a statement of this block or 'property ... ;'")
        while not self._take().is_mark(";"):
            pass

    def _words(self, end: str, what: str) -> list[_Token]:
        words = []
        while not self._at(end):
            words.append(self._word(what))
        self._expect(end)
        return words

    def _word(self, what: str) -> _Token:
        token = self._take()
        if token.text in _PUNCTUATION and not token.quoted:
            self._fail(token, what)
        return token

    def _expect(self, mark: str) -> _Token:
        token = self._take()
        if not token.is_mark(mark):
            self._fail(token, repr(mark))
        return token

    def _at(self, mark: str) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next].is_mark(mark)

    def _take(self) -> _Token:
        if self._next == len(self._tokens):
            end = len(self._source.text.rstrip())
            self._source.fail(end, self._block, "the file ends in the middle of the block. Download it again?")
        self._next += 1
        return self._tokens[self._next - 1]

    def _fail(self, token: _Token, expected: str) -> NoReturn:
        hint = " (a quotation mark without its partner)" if token.is_mark('"') else ""
        self._source.fail(token.at, self._block, f"expected {expected}, got {token.text!r}{hint}.")


def _meaning(source: _Source, levels: dict[str, tuple[str, ...]], blocks: dict[str, _Block]) -> BifNetwork:
    """Blocks → tables, in the order of the variables."""
    if not levels:
        raise GraphError(f"{source.name}: expected variable blocks, got none. Is it a .bif file?")
    for name, block in blocks.items():
        _check_declared(source, name, block, levels)
    if missing := [name for name in levels if name not in blocks]:
        raise GraphError(
            f"{source.name}: expected a probability block for every variable, but {listing(missing)} has none."
        )
    parents = {name: blocks[name].parents for name in levels}
    _check_sizes(source, blocks, levels)
    tables = {name: _Table(source, name, blocks[name], levels).filled() for name in levels}
    return BifNetwork(levels, parents, tables)


def _check_declared(source: _Source, name: str, block: _Block, levels: dict[str, tuple[str, ...]]) -> None:
    where = f"the probability block of {name!r}"
    if unknown := [variable for variable in (name, *block.parents) if variable not in levels]:
        problem = f"the variable {unknown[0]!r} is not declared. Add a variable block for it, or correct the name."
        source.fail(block.at, where, problem)
    if len({name, *block.parents}) <= len(block.parents):
        source.fail(block.at, where, f"a variable comes twice in ({listing([name, *block.parents])}). Remove it.")


def _check_sizes(source: _Source, blocks: dict[str, _Block], levels: dict[str, tuple[str, ...]]) -> None:
    """A few lines can declare tables that no memory holds."""
    total = 0
    for name, block in blocks.items():
        shape = [len(levels[variable]) for variable in (*block.parents, name)]
        total += math.prod(shape)
        if len(shape) > _MOST_AXES or total > _MOST_NUMBERS:
            limits = f"{_MOST_AXES - 1} parents, and {_MOST_NUMBERS:,} probabilities in all tables"
            problem = f"it has {len(block.parents)} parents, and its table cannot be held: at most {limits} are read."
            source.fail(block.at, f"the probability block of {name!r}", problem)


class _Table:
    """The table of one variable, filled entry by entry."""

    def __init__(self, source: _Source, name: str, block: _Block, levels: dict[str, tuple[str, ...]]) -> None:
        self._source, self._block, self._levels = source, block, levels
        self._where = f"the probability block of {name!r}"
        self._own = len(levels[name])
        self._shape = tuple(len(levels[parent]) for parent in block.parents)
        self._values = np.full((*self._shape, self._own), np.nan)  # NaN: not given yet

    def filled(self) -> NDArray[np.float64]:
        fill = {"row": self._row, "table": self._whole, "default": self._default}
        # A default is for what the other entries leave open, wherever it stands.
        for entry in sorted(self._block.entries, key=lambda entry: entry.kind == "default"):
            fill[entry.kind](entry)
        if np.isnan(self._values).any():
            at = np.argwhere(np.isnan(self._values))[0][:-1]
            labels = [self._levels[parent][i] for parent, i in zip(self._block.parents, at, strict=True)]
            combination = f" for the parents' levels ({', '.join(labels)})" if labels else ""
            self._fail(self._block.at, f"there are no probabilities{combination}. Add them, or a default.")
        return self._values

    def _row(self, entry: _Entry) -> None:
        at = self._position(entry)
        if not np.isnan(self._values[at]).all():
            self._fail(entry.at, f"the row ({', '.join(entry.labels)}) is given twice. Remove one of them.")
        self._values[at] = self._distributions(entry, (self._own,))

    def _whole(self, entry: _Entry) -> None:
        if not np.isnan(self._values).all():
            self._fail(entry.at, "a table comes after other probabilities. Keep the table or the rows.")
        # A table counts like an odometer over (variable, parent, ...): the variable itself turns slowest.
        self._values = self._distributions(entry, (self._own, *self._shape))

    def _default(self, entry: _Entry) -> None:
        row = self._distributions(entry, (self._own,))
        self._values = np.where(np.isnan(self._values), row, self._values)

    def _position(self, entry: _Entry) -> tuple[int, ...]:
        if len(entry.labels) != len(self._shape):
            problem = f"expected a level for each of the parents ({', '.join(self._block.parents)}), got"
            self._fail(entry.at, f"{problem} ({', '.join(entry.labels)}).")
        pairs = zip(self._block.parents, entry.labels, strict=True)
        return tuple(self._level(entry, parent, label) for parent, label in pairs)

    def _level(self, entry: _Entry, parent: str, label: str) -> int:
        known = self._levels[parent]
        if label not in known:
            self._fail(entry.at, f"expected a level of {parent!r} ({listing(known)}), got {label!r}.")
        return known.index(label)

    def _distributions(self, entry: _Entry, shape: tuple[int, ...]) -> NDArray[np.float64]:
        if len(entry.numbers) != np.prod(shape):
            size = " × ".join(map(str, shape))
            self._fail(entry.at, f"expected {size} numbers in this entry, got {len(entry.numbers)}.")
        values = np.moveaxis(np.reshape(entry.numbers, shape), 0, -1)
        return as_distributions(values, self._source.place(entry.at, self._where))

    def _fail(self, at: int, problem: str) -> NoReturn:
        self._source.fail(at, self._where, problem)
