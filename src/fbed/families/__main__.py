"""Print the table of families as Markdown."""

from __future__ import annotations

from fbed.families import FAMILIES, markdown

if __name__ == "__main__":
    print(markdown(FAMILIES), end="")
