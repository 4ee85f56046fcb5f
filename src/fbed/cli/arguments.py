"""From the arguments of a command to data and options of a search."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fbed.cli import large
from fbed.cli.options import EXTRAS, as_options
from fbed.errors import InvalidInput
from fbed.result.result import Result
from fbed.rules.criteria import Criterion, as_criterion
from fbed.show.text import paragraph, style_of
from fbed.tables import readers
from fbed.tables.columns import listing
from fbed.tables.plink import Genotypes
from fbed.tables.table import Name


def about_search(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything that is asked of a search in a file."""
    if arguments.fbs and arguments.k is not None:
        raise InvalidInput("-k counts the runs of early dropping, and --fbs drops nothing: leave one of them out")
    if arguments.familywise is not None:
        raise InvalidInput("--familywise sets the level of a single search: use it with fbed select")
    criterion = criterion_of(arguments)
    runs = {"k": 1 if arguments.k is None else arguments.k, "early_dropping": not arguments.fbs}
    return {**about_data(read_data(arguments), arguments), "criterion": criterion, **runs}


def with_provenance(result: Result, arguments: argparse.Namespace, data: readers.Data) -> Result:
    """The result with the command that made it, and the Python lines that read its data."""
    if result.provenance is None:
        return result
    if isinstance(data.table, Genotypes):
        call = ", ".join(map(repr, (arguments.file, *([arguments.pheno] if arguments.pheno else []))))
        return replace(
            result,
            provenance=replace(result.provenance, command=arguments.command, reading=(f"X = fbed.genotypes({call})",)),
        )
    vectors: dict[str, tuple[str, ...]] = {}
    if not data.is_frame:
        options = {"sample_weight": arguments.weights, **{name: getattr(arguments, name) for name in EXTRAS}}
        vectors = {"y": tuple(outcome_of(data, arguments).values())}
        vectors |= {name: (column,) for name, column in options.items() if column is not None}
    if isinstance(data, large.FileData):
        lines: tuple[str, ...] = (f"X = {arguments.file!r}",)
    else:
        lines = readers.python_lines(arguments.file, arguments.sep, vectors, levels_of(arguments), **_form(arguments))
    return replace(result, provenance=replace(result.provenance, command=arguments.command, reading=lines))


def read_data(arguments: argparse.Namespace) -> readers.Data:
    """The file, with what the reader has to say about it."""
    data = readers.read(arguments.file, arguments.sep, pheno=arguments.pheno, **_form(arguments))
    tell(data.notes)
    return with_levels(data, arguments)


def with_levels(data: readers.Data, arguments: argparse.Namespace) -> readers.Data:
    """The data with the reference levels and the modelled class that were asked for."""
    levels = levels_of(arguments)
    if levels is None:
        return data
    if isinstance(data.table, Genotypes):
        raise InvalidInput("--reference and --positive are not there for genotypes: order the levels in the file")
    if not data.is_frame:
        raise InvalidInput("--reference and --positive are about columns of categories, which a matrix has none of")
    if arguments.positive is not None and arguments.target is None:
        raise InvalidInput("--positive says which class of --target is modelled: name the target")
    return readers.with_levels(data, *levels)


def levels_of(arguments: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]] | None:
    """Columns with the level that shall be first, and that shall be last."""
    if not arguments.reference and arguments.positive is None:
        return None
    last = {} if arguments.positive is None else {str(arguments.target): str(arguments.positive)}
    return dict(arguments.reference), last


def _form(arguments: argparse.Namespace) -> dict[str, Any]:
    """How a text file is written, as far as it was said."""
    return {name: getattr(arguments, name) for name in ("decimal", "encoding", "na_values")}


def tell(notes: Iterable[str]) -> None:
    """Notes go to standard error, so that they are seen whatever becomes of the output."""
    look = style_of(sys.stderr)
    for note in map(as_options, notes):
        lines = paragraph(f"fbed: note: {note}") if sys.stderr.isatty() else [f"fbed: note: {note}"]
        print("\n".join(look("warn", lines)), file=sys.stderr)


def about_data(data: readers.Data, arguments: argparse.Namespace) -> dict[str, Any]:
    """Arguments that `select` and `path` have in common."""
    outcome = tuple(_column(data, name, role) for role, name in outcome_of(data, arguments).items())
    extras = {"sample_weight": ("--weights", arguments.weights)}
    extras |= {name: (f"--{name}", getattr(arguments, name)) for name in EXTRAS}
    names = [name for name, _ in arguments.group]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidInput(f"--group {repeated[0]!r} is given twice: list all its columns at once")
    return {
        "X": data.table,
        "y": outcome if len(outcome) > 1 else outcome[0],
        "family": arguments.family,
        "test": arguments.test,
        "cov": arguments.cov,
        "link": arguments.link,
        "include": _variables(data, arguments.include),
        "exclude": _variables(data, arguments.exclude),
        "groups": {name: _variables(data, columns) for name, columns in arguments.group} or None,
        "categorical": _variables(data, arguments.categorical),
        "missing": arguments.missing,
        "rare_levels": arguments.rare_levels,
        "feature_names": data.names,
        "backward": not arguments.no_backward,
        "max_features": arguments.max_features,
        "time_limit": arguments.time_limit,
        "n_jobs": arguments.n_jobs,
        "progress": not arguments.quiet,
        **{name: None if column is None else _column(data, column, role) for name, (role, column) in extras.items()},
    }


def criterion_of(arguments: argparse.Namespace) -> Criterion:
    """An option that the criterion does not have was meant for another one."""
    name = arguments.criterion.lower()
    for option, owner in (("alpha", "lr"), ("alpha_backward", "lr"), ("gamma", "ebic")):
        if getattr(arguments, option) is not None and name != owner:
            raise InvalidInput(
                f"--{option.replace('_', '-')} belongs to --criterion {owner}, but the criterion is {name!r}"
            )
    return as_criterion(name, arguments.alpha, arguments.gamma, arguments.alpha_backward)


def outcome_of(data: readers.Data, arguments: argparse.Namespace) -> dict[str, str]:
    """The option and the column of the outcome: --target, or --time and --event."""
    if arguments.time is None and arguments.event is None:
        return {"--target": _target(data, arguments.target)}
    if arguments.target is not None:
        raise InvalidInput("--target and --time/--event are both given: survival times have no --target")
    if arguments.time is None or arguments.event is None:
        raise InvalidInput("survival times need both --time and --event")
    return {"--time": arguments.time, "--event": arguments.event}


def _target(data: readers.Data, target: str | None) -> str:
    if target is not None:
        return target
    if not data.is_frame:
        return "y"
    known = listing(list(data.table.columns))
    raise InvalidInput(
        f"say which column is the outcome with --target (or --time and --event): the columns are {known}"
    )


def _column(data: readers.Data, name: str, role: str) -> Any:
    """What `select` expects: the name of a column of a frame, values otherwise."""
    values = _vector_with_hint(data, name, role)
    return name if data.is_frame else values


def _vector_with_hint(data: readers.Data, name: str, role: str) -> Any:
    try:
        return data.vector(name, role)
    except InvalidInput as error:
        if data.is_frame and len(data.table.columns) == 1:
            raise InvalidInput(f"{error}. There is one column only: is the separator right (--sep)?") from error
        raise


def _variables(data: readers.Data, wanted: Sequence[str]) -> list[Name]:
    """Names as they are; a number that is no name is an index."""
    known = set(data.table.columns if data.is_frame else data.names or ())
    known |= set(data.table.variants) if isinstance(data.table, Genotypes) else set()
    parts = [part for item in wanted for part in ([item] if item in known else item.split(",")) if part]
    return [int(item) if item not in known and item.isdecimal() else item for item in parts]
