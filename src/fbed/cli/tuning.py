"""`fbed tune`, `fbed predict` and `fbed validate`: from a file to a saved model, and from that to predictions."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from fbed.cli.arguments import about_data, read_data, tell, with_provenance
from fbed.cli.explain import read_result
from fbed.cli.report import check_path
from fbed.errors import InvalidInput
from fbed.result.fitted import FinalModel
from fbed.result.json_form import finite
from fbed.show.performance import performance_text, validation_text
from fbed.show.text import style_of, summary
from fbed.tables import readers
from fbed.tuning.choice import RULES
from fbed.tuning.final_models import WAYS
from fbed.tuning.tune import tune
from fbed.tuning.validate import validate

_TUNE = """\
examples:
  fbed tune data.csv --target y --save model.json
  fbed tune data.csv --target y --choose 1se --final firth --report report.html
  fbed tune trial.csv --time months --event died --save model.json
  fbed tune visits.csv --target score --fold-groups patient --cv 10

The settings of the search are chosen by cross-validation, and what the whole
procedure is worth is estimated by BBC-CV. The saved model is a result as JSON:
fbed predict, fbed validate, fbed report and fbed explain read it."""

_PREDICT = """\
examples:
  fbed predict model.json new.csv > predictions.csv
  fbed predict model.json new.csv --kind class --keep id
  fbed predict model.json new.csv --interval 0.9
  fbed predict model.json new.csv --kind survival --times 12 24 60

Columns are found by name. What was done about missing values and levels that
the model has not seen is told on standard error."""

_VALIDATE = """\
examples:
  fbed validate model.json new.csv --target y
  fbed validate model.json trial2.csv --time months --event died --json"""

Add = Callable[[argparse.ArgumentParser], None]


def add_parsers(commands: Any, add_data: Add, add_grid: Add) -> None:
    """Add the three commands; options about data and grid are those of `fbed path`."""
    plain = argparse.RawDescriptionHelpFormatter
    tuning = commands.add_parser(
        "tune",
        help="choose settings by cross-validation, and save a model that predicts",
        description="Choose settings by cross-validation,\nfit on all rows, and estimate performance.",
        epilog=_TUNE,
        formatter_class=plain,
    )
    add_data(tuning)
    add_grid(tuning)
    _add_tuning(tuning)
    tuning.set_defaults(run=run_tune)
    predicting = commands.add_parser(
        "predict",
        help="predictions of a saved model for the rows of a file",
        description="Predict the rows of a file by a saved model.",
        epilog=_PREDICT,
        formatter_class=plain,
    )
    _add_new_rows(predicting)
    predicting.add_argument("--kind", default="response", help="response (default), link, class or survival")
    predicting.add_argument("--times", nargs="+", type=float, metavar="TIME", help="of --kind survival")
    predicting.add_argument("--interval", type=float, metavar="LEVEL", help="prediction intervals, of linear models")
    predicting.add_argument("--keep", nargs="+", default=[], metavar="COLUMN", help="columns to write beside them")
    predicting.add_argument("-o", "--output", metavar="FILE", help="where to (default: standard output, as CSV)")
    predicting.set_defaults(run=run_predict, reference=[], positive=None)
    validating = commands.add_parser(
        "validate",
        help="what a saved model is worth on new rows whose outcome is known",
        description="Discrimination and calibration of a saved model on the rows of a file,\nwith intervals.",
        epilog=_VALIDATE,
        formatter_class=plain,
    )
    _add_new_rows(validating)
    validating.add_argument("--target", metavar="COLUMN", help="the outcome")
    validating.add_argument("--time", metavar="COLUMN", help="survival times, instead of --target")
    validating.add_argument("--event", metavar="COLUMN", help="1 or true where --time ends with the event")
    validating.add_argument("--weights", metavar="COLUMN", help="frequencies: weight 2 is the row twice")
    validating.add_argument("--trials", metavar="COLUMN", help="number of trials, when the target counts successes")
    validating.add_argument("--json", action="store_true", help="everything as JSON instead of a table")
    validating.set_defaults(run=run_validate, reference=[], positive=None)


def _add_tuning(parser: argparse.ArgumentParser) -> None:
    tuning = parser.add_argument_group("tuning")
    tuning.add_argument("--cv", type=int, default=5, metavar="N", help="folds (default 5)")
    tuning.add_argument("--fold-groups", metavar="COLUMN", help="rows that stay in one fold (default: --cluster)")
    tuning.add_argument("--scoring", metavar="NAME", help="deviance (default), roc_auc, r2, c_index, …")
    tuning.add_argument("--choose", default="min", metavar="RULE", help=f"{' or '.join(RULES)} (default min)")
    tuning.add_argument("--final", default="auto", metavar="WAY", help=f"{', '.join(WAYS)} (default auto)")
    tuning.add_argument("--bootstraps", type=int, default=500, metavar="N", help="samples of BBC-CV (default 500)")
    tuning.add_argument("--seed", type=int, default=0, metavar="N", help="of folds and samples (default 0)")
    tuning.add_argument("--resume", metavar="FILE", help="keep finished folds there, and go on from them")
    output = parser.add_argument_group("output")
    output.add_argument("--save", metavar="FILE", help="write the model with everything about it, as JSON")
    output.add_argument("--report", metavar="FILE", help="write a report for people, one HTML file")
    output.add_argument("--json", action="store_true", help="the whole result as JSON instead of a table")


def _add_new_rows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model saved by fbed tune --save, or a result saved as JSON")
    parser.add_argument("file", help=f"a table: {readers.FORMATS}; '-' reads CSV from standard input")
    parser.add_argument("--sep", metavar="CHAR", help="separator of a text file (default: ',' or, for .tsv, a tab)")
    parser.add_argument("--decimal", metavar="CHAR", help="decimal point of a text file (default: '.')")
    parser.add_argument("--encoding", metavar="NAME", help="of a text file, such as latin-1 (default: utf-8)")
    parser.add_argument("--na-values", nargs="+", action="extend", metavar="WORD", help="words that mean 'missing'")
    parser.add_argument("--pheno", metavar="FILE", help="phenotypes and covariates, with a column IID, of genotypes")
    parser.add_argument("--offset", metavar="COLUMN", help="known part of the linear predictor, if the model has one")
    parser.add_argument("--exposure", metavar="COLUMN", help="size or duration that counts refer to")
    parser.add_argument(
        "--unseen",
        default="missing",
        help="levels that the model has not seen: missing (no prediction, default), mean, or error",
    )


def run_tune(arguments: argparse.Namespace) -> int:
    """`fbed tune`: read, tune, show, save."""
    for path in (arguments.save, arguments.report):
        if path:
            check_path(path, arguments.file)
    data = read_data(arguments)
    about = about_data(data, arguments)
    groups = arguments.fold_groups
    if groups is not None and not data.is_frame:
        groups = data.vector(groups, "--fold-groups")
    elif groups is not None:
        data.vector(groups, "--fold-groups")  # an error that names the option
    grid = {"alphas": arguments.alphas, "gammas": arguments.gammas, "ks": arguments.k}
    tuned = tune(
        **about,
        **{name: values for name, values in grid.items() if values is not None},
        fbs=not arguments.no_fbs,
        cv=arguments.cv,
        fold_groups=groups,
        scoring=arguments.scoring,
        choose=arguments.choose,
        final=arguments.final,
        n_bootstraps=arguments.bootstraps,
        random_state=arguments.seed,
        resume=arguments.resume,
    )
    result = with_provenance(tuned.result, arguments, data).settled()
    if arguments.json:
        print(result.to_json())
    else:
        print(summary(result, style_of(sys.stdout), with_notes=False))
        print(f"\n{performance_text(tuned.performance)}")
    tell(result.notes)
    if arguments.save:
        result.to_json(arguments.save)
        print(f"fbed: the model is in {arguments.save}", file=sys.stderr)
    if arguments.report:
        result.report(arguments.report)
        print(f"fbed: the report is in {arguments.report}", file=sys.stderr)
    return 0


def read_model(path: str) -> FinalModel:
    """The final model of a saved result."""
    model = read_result(path).model
    if model is None:
        raise InvalidInput(f"{path}: this result has no model: it was made on a graph")
    return model


def run_predict(arguments: argparse.Namespace) -> int:
    """`fbed predict`: predictions, a row each."""
    model, data = read_model(arguments.model), read_data(arguments)
    kept = {name: np.asarray(data.vector(name, "--keep")) for name in arguments.keep}
    known = _known_part(data, arguments)
    made, notes = model.predict_with_notes(
        data.table, arguments.kind, known["offset"], known["exposure"], arguments.times, unseen=arguments.unseen
    )
    columns = _columns(model, arguments, made)
    if arguments.interval is not None:
        if arguments.kind not in ("response", "link"):
            raise InvalidInput("--interval goes with --kind response")
        ends = model.predict_interval(data.table, arguments.interval, unseen=arguments.unseen, **known)
        columns |= {"low": ends[:, 0], "high": ends[:, 1]}
    tell(notes)
    _write(arguments, {**kept, **columns})
    return 0


def _known_part(data: readers.Data, arguments: argparse.Namespace) -> dict[str, Any]:
    names = {"offset": arguments.offset, "exposure": arguments.exposure}
    return {role: None if name is None else _numbers(data, name, f"--{role}") for role, name in names.items()}


def _numbers(data: readers.Data, name: str, option: str) -> Any:
    try:
        return np.asarray(data.vector(name, option), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{option} {name!r} must hold numbers: {error}") from error


def _columns(model: FinalModel, arguments: argparse.Namespace, made: Any) -> dict[str, Any]:
    """Predictions with a name each."""
    if made.ndim == 1:
        two = arguments.kind == "response" and len(model.classes) == 2
        return {f"P({model.classes[1]})" if two else arguments.kind: made}
    if arguments.kind == "survival":
        return {f"S({time:g})": made[:, i] for i, time in enumerate(arguments.times)}
    labels = model.classes if arguments.kind == "response" else model.classes[1:]
    head = "P" if arguments.kind == "response" else "link"
    return {f"{head}({label})": made[:, i] for i, label in enumerate(labels)}


def _write(arguments: argparse.Namespace, columns: dict[str, Any]) -> None:
    """CSV with numbers that read back as they were; an empty cell where there is no prediction."""
    if arguments.output:
        check_path(arguments.output, arguments.file)
    out = open(arguments.output, "w", newline="", encoding="utf-8") if arguments.output else sys.stdout  # noqa: SIM115
    try:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in zip(*map(_plain, columns.values()), strict=True))
    finally:
        if arguments.output:
            out.close()


def _plain(values: Any) -> list[Any]:
    listed: list[Any] = np.asarray(values).tolist()
    return listed


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else value


def run_validate(arguments: argparse.Namespace) -> int:
    """`fbed validate`: scores and calibration on new rows."""
    model, data = read_model(arguments.model), read_data(arguments)
    survival = arguments.time is not None or arguments.event is not None
    if survival == (arguments.target is not None) or (survival and None in (arguments.time, arguments.event)):
        raise InvalidInput("say where the outcome is: --target COLUMN, or --time COLUMN --event COLUMN")
    if survival:
        y: Any = (data.vector(arguments.time, "--time"), data.vector(arguments.event, "--event"))
    else:
        y = data.vector(arguments.target, "--target")
    given = {"sample_weight": ("--weights", arguments.weights), "trials": ("--trials", arguments.trials)}
    extras: dict[str, Any] = {
        n: None if column is None else np.asarray(data.vector(column, role)) for n, (role, column) in given.items()
    }
    told = validate(model, data.table, y, unseen=arguments.unseen, **extras, **_known_part(data, arguments))
    print(json.dumps(finite(told.to_plain()), allow_nan=False) if arguments.json else validation_text(told))
    tell(told.notes)
    return 0
