"""Run folders that no run has made."""

from __future__ import annotations

from pathlib import Path

from tread_bench.runner.folder import RunFolder


def new_folder(root: Path) -> RunFolder:
    """An empty one."""
    root.mkdir(parents=True, exist_ok=True)
    return RunFolder(root)


def put(path: Path, content: str) -> None:
    """A file, and the folders that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
