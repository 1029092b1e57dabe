"""A folder that belongs to somebody else, and whether anything in it was touched."""

from __future__ import annotations

import os
from pathlib import Path

Tree = dict[str, tuple[int, object]]


def mark(folder: Path) -> Path:
    """Fill it with what a careless program takes for its own: names that tread-bench gives to its files."""
    for name in (
        *("notes.txt", "index.html", "results.csv", "records.jsonl", "suite.yaml", "run.log", ".lock", "log"),
        *("record.json", "cell.json", "outcome.json", "checkpoints/step-000000001.safetensors", "grid.png"),
        *("step-000000001.safetensors", "step-000000001.sha256", ".tread-bench-ab12cd34.tmp", ".draft.tmp"),
        *("cells/a/record.json", "cells/a/checkpoints/step-000000001.sha256", "figures/rates.svg"),
        *("weights/1.safetensors", "00000.png", "empty/.keep", "deep/er/.a.removed/record.json"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"mine: {name}")
    return folder


def tree(folder: Path) -> Tree:
    """Everything in a folder: kind and mode, and the content, or where a link leads."""
    found: Tree = {}
    for place, folders, names in os.walk(folder):
        for path in (Path(place) / name for name in (*folders, *names)):
            about = path.lstat()
            content: object = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path.relative_to(folder))] = (about.st_mode, content)
    return found
