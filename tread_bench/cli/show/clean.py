"""`clean`: the space that a run folder no longer needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from tread_bench.runner.folder import RunFolder, disk_errors_reported


def clean_folder(root: Path, is_agreed: bool) -> None:
    """Name what will be removed, ask unless `yes`, and remove it. Without a terminal to ask at, only name it.

    Raises:
        StoreError: `root` is not a run folder, or one in use.
    """
    folder = RunFolder(root)
    folder.existing_plan()
    with folder.lock(), disk_errors_reported(root):
        files = folder.removable()
        if not files:
            typer.echo(f"{root}: nothing to remove")
            return
        for line in _summary(root, files):
            typer.echo(line)
        if is_agreed or (sys.stdin.isatty() and typer.confirm("Remove them?")):
            folder.remove(files)
            typer.echo("removed")
        elif not sys.stdin.isatty():
            typer.echo("nothing was removed: without a terminal to ask at, give --yes")


def _summary(root: Path, files: list[Path]) -> Iterator[str]:
    """Every path, then what they are."""
    yield from map(str, files)
    checkpoints = [
        path for path in files if path.parent.name in ("checkpoints", "equal_time") and path.name.startswith("step-")
    ]
    cells = {path.parent for path in checkpoints}
    left = len(files) - len(checkpoints)
    size = sum(path.lstat().st_size for path in files) / 2**20
    parts = (
        f"{len(checkpoints)} checkpoint files of {len(cells)} finished cells (and the weights in them)",
        f"{left} files left by interrupted writers",
    )
    yield f"{root}: {len(files)} files, {size:,.1f} MiB: {'; '.join(parts)}"
