"""PLINK's genotypes (.bed, .bim, .fam) beside a table of phenotypes and covariates of the same samples.

The packed bytes stay in their file and are mapped into memory: nothing is unpacked but what is looked at. A genotype is
the number of copies of the first allele of the .bim file; a missing one counts as the mean of its variant.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from fbed.errors import InvalidInput
from fbed.tables.columns import hint, listing
from fbed.tables.mixed_storage import Packed

_MAGIC = bytes((0x6C, 0x1B, 0x01))  # a .bed file that has one variant after the other
FAMILY, PERSON = ("FID", "#FID", "fid"), ("IID", "#IID", "iid")

NOTE = (
    "genotypes are numbers of copies of the first allele of the .bim file (A1); missing genotypes count as the mean of "
    "their variant"
)


@dataclass(frozen=True)
class Genotypes:
    """Packed genotypes of samples, and columns of numbers or text beside them.

    Attributes
    ----------
    packed : the genotypes, a column a variant.
    variants : name of each variant.
    samples : name of each sample, in the order of the rows.
    beside : phenotypes and covariates of the same rows; those that are forced in by name are part of the model, all
        others are outcomes, weights and the like, or are not looked at.
    notes : what was done to bring them together.
    """

    packed: Packed
    variants: tuple[str, ...]
    samples: tuple[str, ...]
    beside: nw.DataFrame[Any] | None = None
    considered: frozenset[str] = frozenset()
    notes: tuple[str, ...] = field(default=(NOTE,))

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and variants."""
        return self.packed.shape

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def columns(self) -> list[str]:
        """Columns of the table beside the genotypes."""
        return [] if self.beside is None else list(self.beside.columns)

    def __getitem__(self, name: str) -> Any:
        """One of these columns."""
        if self.beside is None:
            raise KeyError(name)
        return self.beside[name].to_native()

    def considering(self, names: Iterable[Any]) -> Genotypes:
        """The same with some columns of the table beside as variables."""
        wanted = {name for name in names if isinstance(name, str)}
        return replace(self, considered=self.considered | (wanted & set(self.columns)))

    def covariates(self) -> dict[str, Any]:
        """Columns beside the genotypes that are variables."""
        if self.beside is None:
            return {}
        return {name: self.beside[name] for name in self.beside.columns if name in self.considered}

    def frame(self, names: Iterable[str], filled: bool = True) -> Any:
        """Variants and covariates of some names as a pandas data frame, missing genotypes at the mean or NaN."""
        import pandas as pd

        place = {name: j for j, name in enumerate(self.variants)}
        known = set(self.columns)
        columns = {}
        for name in names:
            if name in place:
                j = place[name]
                columns[name] = self.packed.column(j) if filled else self.packed.values(np.array([j]))[:, 0]
            elif name in known and self.beside is not None:
                columns[name] = self.beside[name].to_numpy()
            else:
                raise InvalidInput(f"{name!r} is no variant and no column beside them: {hint(name, [*known, *place])}")
        return pd.DataFrame(columns)


def genotypes(path: str | Path, pheno: Any = None) -> Genotypes:
    """Open PLINK genotypes for `fbed.select`.

    Parameters
    ----------
    path : str
        The .bed file, or what the .bed, .bim and .fam files have in common: ``"cohort"`` for cohort.bed and so on.
    pheno : file name, mapping of columns, or data frame, optional
        Phenotypes and covariates, matched by its column IID (and FID where there is one) with the .fam file. Samples
        that it does not have are left out.

    Returns
    -------
    Genotypes

    Examples
    --------
    ``fbed.select(fbed.genotypes("cohort", "pheno.tsv"), "bmi", include=["age", "sex", "pc1"])``
    """
    stem = stem_of(path)
    people = _words(f"{stem}.fam", 6)
    variants, told = _variant_names(_words(f"{stem}.bim", 6))
    packed = Packed(_mapped(f"{stem}.bed", len(people), len(variants)), len(people))
    found = Genotypes(packed, variants, tuple(person[1] for person in people), notes=(NOTE, *told))
    return found if pheno is None else _matched(found, people, _frame(pheno))


def is_plink(path: str | Path) -> bool:
    """Whether a name is that of PLINK's files: of one of them, or of what their names have in common."""
    return Path(path).suffix == ".bed" or (not os.path.isfile(path) and os.path.isfile(f"{path}.bed"))


def stem_of(path: str | Path) -> str:
    """What the three files have in common; an error where one of them is not there."""
    text = str(path)
    stem = text[: -len(".bed")] if text.endswith(".bed") else text
    absent = [f"{stem}{end}" for end in (".bed", ".bim", ".fam") if not Path(f"{stem}{end}").is_file()]
    if absent:
        raise InvalidInput(f"{absent[0]}: no such file; PLINK's genotypes are three files: .bed, .bim and .fam")
    return stem


def _words(path: str, at_least: int) -> list[list[str]]:
    """The words of every line."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    short = next((i for i, words in enumerate(lines) if len(words) < at_least), None)
    if short is not None:
        raise InvalidInput(
            f"{path}: line {short + 1} has {len(lines[short])} words, expected {at_least}: is this a PLINK file?"
        )
    if not lines:
        raise InvalidInput(f"{path} is empty")
    return lines


def _variant_names(lines: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], list[str]]:
    """Identifiers of the variants; by place and alleles where there is none, or several have the same."""
    counts = Counter(words[1] for words in lines)
    bare = [words[1] == "." or counts[words[1]] > 1 for words in lines]
    if not any(bare):
        return tuple(words[1] for words in lines), []
    names = [
        f"{words[0]}:{words[3]}:{words[5]}:{words[4]}" if own else words[1]
        for words, own in zip(lines, bare, strict=True)
    ]
    seen: Counter[str] = Counter()
    for i, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[i] = f"{name}#{seen[name]}"
    if len(set(names)) < len(names):
        names = [f"{name}@{i}" for i, name in enumerate(names)]
    note = f"{sum(bare):,} variants without an identifier of their own are called chromosome:position:A2:A1"
    return tuple(names), [note]


def _mapped(path: str, n: int, p: int) -> NDArray[np.uint8]:
    """The bytes of a .bed file, a row a variant, where they lie in the file."""
    size, stride = Path(path).stat().st_size, -(-n // 4)
    with open(path, "rb") as file:
        head = file.read(3)
    if head[:2] != _MAGIC[:2]:
        raise InvalidInput(f"{path} is no PLINK .bed file: it begins with {head!r}, expected {_MAGIC!r}")
    if head != _MAGIC:
        raise InvalidInput(
            f"{path} has one sample after the other, as old versions of PLINK wrote it: let `plink --make-bed` write "
            "it anew, one variant after the other"
        )
    if size != 3 + p * stride:
        raise InvalidInput(
            f"{path} has {size:,} bytes, expected {3 + p * stride:,} for the {n:,} samples of the .fam file and the "
            f"{p:,} variants of the .bim file: do the three files belong together?"
        )
    return np.memmap(path, dtype=np.uint8, mode="r", offset=3, shape=(p, stride))


def _frame(pheno: Any) -> nw.DataFrame[Any]:
    """Phenotypes behind one interface."""
    if isinstance(pheno, (str, Path)):
        from fbed.tables import readers

        pheno = readers.phenotypes(str(pheno))
    if isinstance(pheno, Mapping):
        import pandas as pd

        pheno = pd.DataFrame(pheno)
    frame = nw.from_native(pheno, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise InvalidInput(
            f"pheno must be a file, mapping of columns or data frame with a column IID, got a {type(pheno).__name__}"
        )
    return frame


def _matched(found: Genotypes, people: Sequence[Sequence[str]], frame: nw.DataFrame[Any]) -> Genotypes:
    """Samples and rows of the table brought together, in the order of the .fam file."""
    person = next((name for name in frame.columns if name in PERSON), None)
    family = next((name for name in frame.columns if name in FAMILY), None)
    if person is None:
        raise InvalidInput(
            f"pheno has no column IID that says which sample a row is: its columns are {listing(list(frame.columns))}"
        )
    keys = [str(value) for value in frame[person].to_list()]
    wanted = [one[1] for one in people]
    if family is not None:
        keys = [f"{value} {key}" for value, key in zip(frame[family].to_list(), keys, strict=True)]
        wanted = [f"{one[0]} {one[1]}" for one in people]
    _refuse_repeated(keys, "pheno")
    _refuse_repeated(wanted, "the .fam file")
    place = {key: i for i, key in enumerate(keys)}
    both = np.array([i for i, key in enumerate(wanted) if key in place], dtype=np.intp)
    if len(both) == 0:
        raise InvalidInput(
            f"pheno and the .fam file have no sample in common: pheno begins with {keys[:1]}, the .fam file with "
            f"{wanted[:1]}; the first words are family and person, if pheno has a column FID"
        )
    rows = [place[wanted[i]] for i in both.tolist()]
    beside = nw.maybe_reset_index(frame.drop([name for name in (person, family) if name is not None])[rows, :])
    known = set(found.variants) & set(beside.columns)
    if known:
        raise InvalidInput(f"pheno has columns that are called like variants: {listing(sorted(known))}: rename them")
    notes, packed = list(found.notes), found.packed
    if len(both) < len(wanted):
        notes.append(
            f"{len(wanted) - len(both):,} of {len(wanted):,} samples are not in the table of phenotypes: left out"
        )
        packed = packed.rows(both)
    samples = tuple(found.samples[i] for i in both.tolist())
    return Genotypes(packed, found.variants, samples, beside, notes=tuple(notes))


def _refuse_repeated(keys: Sequence[str], where: str) -> None:
    repeated = [key for key, count in Counter(keys).items() if count > 1]
    if repeated:
        raise InvalidInput(f"{where} has samples more than once: {listing(repeated)}: keep one row of each")
