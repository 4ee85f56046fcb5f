"""RESULTS.md, from the JSON files alone."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

TITLES = {
    "sets": "Real data",
    "shapes": "Every shape",
    "limit": "Near the limit",
    "growth": "Growth",
    "rows": "Millions of rows",
    "memory": "Memory",
    "path": "A grid of configurations",
    "families": "Other outcomes",
    "reading": "Reading",
    "resampling": "Many searches on parts of the rows",
    "tall": "Tall data",
    "dummies": "Many rows with dummies",
    "categories": "Categories",
    "classes": "Classes",
    "tuning": "Tuned predictions",
    "tuning_cost": "The cost of tuning",
    "elsewhere": "Larger than memory",
    "cluster": "A cluster",
    "faults": "Killed and started again",
}


def write(folder: Path) -> str:
    """Text of all parts that have been measured; it is kept beside the folder of the numbers."""
    found = {part: json.loads(file.read_text()) for part in TITLES if (file := folder / f"{part}.json").exists()}
    sections = ["# Benchmarks", "Written by `make bench` from the JSON files in `results/`."]
    for part, data in found.items():
        module = importlib.import_module(f"benchmarks.{part}")
        sections += [f"## {TITLES[part]}", module.words(data)]
        if hasattr(module, "draw"):
            module.draw(data, folder)
            sections.append(f"![{TITLES[part]}]({folder.name}/{part}.png)")
        sections.append(_measured_on(data))
    text = "\n\n".join(sections) + "\n"
    (folder.parent / "RESULTS.md").write_text(text)
    return text


def _measured_on(data: dict[str, Any]) -> str:
    machine = data["machine"]
    versions = [
        f"{name} {version}" + ("" if environment == "own" else f" ({environment})")
        for environment, packages in data["versions"].items()
        for name, version in packages.items()
    ]
    return (
        f"*{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {machine['python']}; {', '.join(versions)}.*"
    )
