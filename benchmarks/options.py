"""What a run was asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Options:
    """`turns` is how often everything is measured, `limit` the seconds after which a contender is stopped."""

    out: Path
    files: tuple[Path, ...] = ()
    quick: bool = False
    turns: int = 5
    limit: float = 600.0
    only: tuple[str, ...] = ()  # contenders; the others keep their earlier records
    record: bool = False

    def kept(self, part: str) -> dict[str, Any]:
        """What an earlier run of a part has found."""
        file = self.out / f"{part}.json"
        return json.loads(file.read_text()) if file.exists() else {}
