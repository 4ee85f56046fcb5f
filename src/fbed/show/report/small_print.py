"""Settings, how to run it again, how to cite."""

from __future__ import annotations

from fbed.result.result import Result
from fbed.show.report.cells import paragraph, section
from fbed.show.report.html import Html, called, facts, join, tag


def settings(result: Result) -> Html:
    """What was asked for."""
    said = result.settings
    runs = "as many as add something" if said.get("k", 0) is None else said.get("k")
    dropping = bool(said.get("early_dropping", True))
    include = list(said.get("include", ()))
    pairs = [
        ("algorithm", said.get("algorithm")),
        ("family", result.family),
        ("criterion", result.criterion),
        ("test", said.get("test")),
        ("robust covariance", said.get("cov")),
        ("link", said.get("link")),
        ("extra runs (K)", runs if dropping else None),
        ("early dropping", "yes" if dropping else "no"),
        ("backward phase", "yes" if said.get("backward", True) else "no"),
        ("forced in", join((called(name) for name in include[:20]), ", ") if include else None),
        ("most variables", said.get("max_features")),
        ("time limit", f"{said['time_limit']:g} s" if said.get("time_limit") is not None else None),
        ("threads", said.get("n_jobs")),
    ]
    known = {
        "criterion",
        "algorithm",
        "test",
        "cov",
        "link",
        "k",
        "early_dropping",
        "backward",
        "include",
        "max_features",
        "time_limit",
        "n_jobs",
        "n_excluded",
        "n_rows_dropped",
    }
    others = [
        (name.replace("_", " "), str(value)) for name, value in said.items() if name not in known and value is not None
    ]
    return section("settings", "Settings", facts("What was asked for", [*pairs, *others]))


def rerun(result: Result) -> Html | None:
    """The exact command and Python lines."""
    provenance = result.provenance
    if provenance is None:
        return None
    parts: list[object] = []
    if provenance.command is not None:
        parts += [tag("h3", "On the command line"), tag("pre", tag("code", provenance.command))]
    parts += [tag("h3", "In Python"), tag("pre", tag("code", _lines(provenance.python())))]
    if not provenance.reading:
        given = [f"{name} as it was given" for name in provenance.unwritten if name != "y"]
        table_text = f"X: the table, {result.n_rows:,} rows and {result.n_variables:,} predictors"
        parts.append(tag("p", "; ".join([table_text, *given]) + ".", class_="quiet"))
    return section("rerun", "How to run this again", *parts)


def _lines(code: str) -> Html:
    return join(code.split("\n"), "\n")


def citing(result: Result) -> Html:
    """How to cite, and versions."""
    article = paragraph(
        "Giorgos Borboudakis and Ioannis Tsamardinos. Forward-Backward Selection with Early Dropping. ",
        tag("em", "Journal of Machine Learning Research"),
        ", 20(8):1–39, 2019.",
    )
    provenance = result.provenance
    software = paragraph(
        "Software: fbed" + (f", version {provenance.versions.get('fbed', '')}." if provenance else ".")
    )
    versions = (
        None
        if provenance is None
        else facts("Versions", [("made", provenance.date.replace("T", " ")), *provenance.versions.items()])
    )
    return section("cite", "How to cite, and versions", article, software, versions)
