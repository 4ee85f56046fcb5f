"""`fbed blanket`: the Markov blanket of a node of a network, and what is recovered of it from simulated data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fbed
from fbed.cli.options import runs
from fbed.errors import InvalidInput
from fbed.graphs import DAG, MAG, DiscreteNetwork, GaussianNetwork, MixedGraph, Node, Recovery, Sample, draw_blanket
from fbed.result.result import Result

Network = DiscreteNetwork | GaussianNetwork

ALPHA = 0.001  # one scan tests dozens of variables, and a blanket holds a few: at 0.01 false ones would crowd it

_EXAMPLES = """\
examples:
  fbed blanket alarm.bif --target HR
  fbed blanket alarm.bif.gz --target HR -n 5000 --seed 1
  fbed blanket ecoli70.json --target lacZ -n 500 -k inf --json
  fbed blanket alarm.bif --target HR --hidden CATECHOL LVFAILURE
  fbed blanket alarm.bif --target HR -n 2000 --plot blanket.png

exit status: 0 done, 2 bad input"""


# -- the work --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """A selection and how it compares with the true blanket."""

    result: Result
    recovery: Recovery


def read_network(path: str | Path) -> Network:
    """A network from a file: linear-Gaussian from .json, discrete from .bif or .bif.gz."""
    try:
        if Path(path).suffix.lower() == ".json":
            return GaussianNetwork.from_json(path)
        return DiscreteNetwork.from_bif(path)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}") from error


def observed_graph(network: Network, hidden: Sequence[Node]) -> DAG | MAG:
    """What the network says about the variables that are not hidden: its DAG, or a MAG."""
    return network.dag.to_mag(hidden) if hidden else network.dag


def usual_family(network: Network) -> str:
    """The kind of test for data of a network."""
    return "gaussian" if isinstance(network, GaussianNetwork) else "gsquare"


def recover(graph: MixedGraph, data: Sample, target: Node, **options: Any) -> Comparison:
    """Select for a target on data of the nodes of a graph, and compare with its blanket there.

    Parameters
    ----------
    graph : DAG or MAG
        The truth about the columns of the data.
    data : Sample
        Columns by node.
    target : node
        The outcome.
    **options
        For `fbed.select`.
    """
    predictors = {str(node): data[node] for node in graph.nodes if node != target}
    node_of = {str(node): node for node in graph.nodes}
    result = fbed.select(predictors, data[target], **options)
    return Comparison(result, Recovery(graph, target, [node_of[str(name)] for name in result.selected]))


def recover_perfectly(graph: MixedGraph, target: Node, **options: Any) -> Comparison:
    """The same with perfect tests: what the selection comes to as the sample grows."""
    result = fbed.select(graph, target, family="oracle", **options)
    return Comparison(result, Recovery(graph, target, result.selected))


# -- the command -----------------------------------------------------------------------------------------------------


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to those of a parser (what ``add_subparsers`` returned); its `run` takes the arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "blanket",
        help="the Markov blanket of a node of a Bayesian network, and how well data recover it",
        description="The Markov blanket of a node of a network,\nand what is recovered of it from simulated data.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_options(parser)
    parser.set_defaults(run=run)
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", help="a discrete network (.bif, .bif.gz) or a linear-Gaussian one (.json)")
    parser.add_argument("--target", required=True, metavar="NODE", help="whose blanket")
    parser.add_argument("--hidden", nargs="+", default=[], metavar="NODE", help="nodes that are not observed")
    parser.add_argument("-n", type=_whole, metavar="ROWS", help="simulate so many rows and select on them")
    parser.add_argument("--seed", type=_whole, default=0, metavar="N", help="seed of the simulation (default 0)")
    parser.add_argument("-k", type=runs, default=1, metavar="N", help="extra runs: 0, 1, 2, … or inf (default 1)")
    parser.add_argument("--fbs", action="store_true", help="no early dropping: plain forward-backward selection")
    parser.add_argument("--family", help="kind of test (default: gaussian for .json, gsquare for .bif)")
    parser.add_argument("--criterion", default="lr", help="lr (tests, default), aic, bic or ebic")
    parser.add_argument("--alpha", type=float, default=ALPHA, help=f"level of criterion lr (default {ALPHA:g})")
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    parser.add_argument("--plot", metavar="FILE", help="draw the target, its blanket and what was found (.png, .pdf …)")


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, got {text!r}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Do what the arguments ask for; the exit status is returned, bad input is raised."""
    network = read_network(arguments.network)
    graph = observed_graph(network, arguments.hidden)
    graph.positions([arguments.target], "--target")
    search = {"k": arguments.k, "early_dropping": not arguments.fbs}
    perfect = recover_perfectly(graph, arguments.target, **search)
    tried = None
    if arguments.n is not None:
        tried = recover(
            graph,
            network.sample(arguments.n, arguments.seed),
            arguments.target,
            family=arguments.family or usual_family(network),
            criterion=arguments.criterion,
            alpha=arguments.alpha,
            **search,
        )
    print(_as_json(arguments, perfect, tried) if arguments.json else _as_text(arguments, perfect, tried))
    if arguments.plot:
        _save_picture(arguments.plot, tried, graph, arguments.target)
    return 0


def _save_picture(path: str, tried: Comparison | None, graph: MixedGraph, target: Node) -> None:
    try:
        figure: Any = draw_blanket(graph, target, None if tried is None else tried.recovery.found).figure
        figure.savefig(path, dpi=150)
    except (ImportError, OSError, ValueError) as error:
        raise InvalidInput(f"{path}: the picture cannot be written: {error}") from error


# -- what is printed -------------------------------------------------------------------------------------------------


def _as_text(arguments: argparse.Namespace, perfect: Comparison, tried: Comparison | None) -> str:
    recovery = perfect.recovery
    others = len(recovery.graph) - 1
    lines = [f"Markov blanket of {recovery.target}: {len(recovery.blanket)} of {others:,} other nodes"]
    lines += _role_lines(recovery, recovery.blanket)
    lines += ["", f"{_algorithm(perfect)} on perfect tests {_verdict(perfect)}"]
    lines += _difference(recovery)
    if tried is not None:
        found = tried.recovery
        lines += [
            "",
            f"{_algorithm(tried)} on {arguments.n:,} simulated rows (seed {arguments.seed}) {_verdict(tried)}",
        ]
        lines += _difference(found)
        lines += [f"  precision {found.precision:.2f}, recall {found.recall:.2f}, F1 {found.f1:.2f}"]
        lines += [f"  {tried.result.family}, {tried.result.criterion}"]
    return "\n".join(lines)


def _algorithm(comparison: Comparison) -> str:
    return str(comparison.result.settings["algorithm"])


def _verdict(comparison: Comparison) -> str:
    recovery, tests = comparison.recovery, f"{comparison.result.n_tests.total:,} tests"
    if recovery.exact:
        return f"finds exactly the blanket ({tests})"
    return f"finds {len(recovery.hit)} of {len(recovery.blanket)} and {len(recovery.extra)} more ({tests})"


def _difference(recovery: Recovery) -> list[str]:
    lines = []
    for what, nodes in (("missed", recovery.missed), ("extra", recovery.extra)):
        lines += [f"  {what} {line.lstrip()}" for line in _role_lines(recovery, nodes)]
    return lines


def _role_lines(recovery: Recovery, nodes: Iterable[Node]) -> list[str]:
    grouped = recovery.by_role(nodes)
    return [f"  {role + ':':<20}{', '.join(map(str, members))}" for role, members in grouped.items()]


def _as_json(arguments: argparse.Namespace, perfect: Comparison, tried: Comparison | None) -> str:
    plain = {
        "network": str(arguments.network),
        "target": arguments.target,
        "n_nodes": len(perfect.recovery.graph),
        "hidden": arguments.hidden,
        "blanket": perfect.recovery.by_role(perfect.recovery.blanket),
        "perfect_tests": _comparison_as_plain(perfect),
        "simulated": None,
    }
    if tried is not None:
        plain["simulated"] = {"n": arguments.n, "seed": arguments.seed, **_comparison_as_plain(tried)}
    return json.dumps(plain, indent=2, ensure_ascii=False)


def _comparison_as_plain(comparison: Comparison) -> dict[str, Any]:
    result, recovery = comparison.result, comparison.recovery
    return {
        "algorithm": _algorithm(comparison),
        "family": result.family,
        "criterion": result.criterion,
        "selected": list(result.selected),
        "precision": recovery.precision,
        "recall": recovery.recall,
        "f1": recovery.f1,
        "missed": recovery.by_role(recovery.missed),
        "extra": recovery.by_role(recovery.extra),
        "n_tests": result.n_tests.total,
        "status": result.status,
        "seconds": result.seconds,
    }
