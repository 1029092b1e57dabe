"""The tree of docs/architecture.md names every room of the package."""

from __future__ import annotations

import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def test_the_tree_names_every_room() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = text.partition("## Tree")[2].partition("\n## ")[0]
    rooms = {file.parent.name for file in (CHECKOUT / "tread_bench").glob("*/*.py")}
    assert len(rooms) > 10 and rooms <= {*re.findall(r"([\w-]+)/", tree)}
