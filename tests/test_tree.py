"""The tree of docs/architecture.md and the folders of the checkout: each names what the other has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[1]
PACKAGE = CHECKOUT / "tread_bench"
PATH = r"(?:[\w.-]+/[\w./-]*|[\w.-]+\.(?:py|md|toml|ini|txt))"
COVERS = re.compile(r" +a folder (per|each) ")


class Line(NamedTuple):
    """A line of the tree: the folder that it is below, the paths that it begins with, and what it says of them."""

    parent: Path
    heads: list[Path]
    text: str

    def found(self, name: str) -> list[Path]:
        """Where a path of the text may be meant: below what the line begins with, or beside it."""
        return [path for place in (*self.heads, self.parent) for path in place.glob(f"**/{name.rstrip('/')}")]

    def folders(self) -> list[Path]:
        """The folders that it names."""
        told = [path for name in re.findall(PATH, self.text) for path in self.found(name)]
        return [path.resolve() for path in (*self.heads, *told) if path.is_dir()]


def tree() -> list[Line]:
    """A line that is indented further than a folder belongs to it; between two paths are two spaces, no more."""
    text = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^## Tree\n\n```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines: list[Line] = []
    below = [(-1, CHECKOUT)]  # indents and folders that are open
    for line in filter(None, block.splitlines()):
        indent = len(line) - len(line.lstrip())
        while below[-1][0] >= indent:
            below.pop()
        parent = below[-1][1]
        begins = re.match(rf" *((?:{PATH}(?:  (?=[\w.])|(?=\s|$)))*)", line)
        heads = [parent / name for name in begins[1].split()]
        lines.append(Line(parent, heads, line[begins.end() :]))
        if heads and heads[0].is_dir():
            below.append((indent, heads[0]))
    return lines


def packages(folder: Path) -> list[Path]:
    """Its subfolders with Python files."""
    return sorted(below for below in folder.iterdir() if any(below.glob("*.py")))


def test_what_the_tree_names_exists() -> None:
    gone = [path for line in tree() for path in line.heads if not path.exists()]
    gone += [name for line in tree() for name in re.findall(PATH, line.text) if not line.found(name)]
    assert gone == []


def test_the_tree_names_the_package_s_folders_or_says_that_they_are_alike() -> None:
    named = {folder for line in tree() for folder in line.folders()}
    covered = {head.resolve() for line in tree() if COVERS.match(line.text) for head in line.heads}
    rooms = packages(PACKAGE)
    parts = [part for room in rooms if room.resolve() not in covered for part in packages(room)]
    assert len(rooms) > 10 and len(parts) > 15
    assert [folder for folder in (*rooms, *parts) if folder.resolve() not in named] == []
