"""The command `clean`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tread_bench.cli.options import RunArgument, forgets


def clean(run_dir: RunArgument, yes: Annotated[bool, forgets("--yes", "remove without asking")] = False) -> None:
    """Remove checkpoints of finished cells and what interrupted writers left, after naming every file."""
    from tread_bench.runner.folder import RunFolder, disk_errors_reported

    folder = RunFolder(run_dir)
    folder.existing_plan()
    with folder.lock(), disk_errors_reported(run_dir):
        files = folder.removable()
        if not files:
            typer.echo(f"{run_dir}: nothing to remove")
            return

        # What they are.
        of_cells = [path.parent for path in files if path.name.startswith("step-")]
        size = sum(path.lstat().st_size for path in files) / 2**20
        typer.echo("\n".join(map(str, files)))
        typer.echo(
            f"{run_dir}: {len(files)} files, {size:,.1f} MiB: {len(of_cells)} checkpoint files of {len(set(of_cells))} "
            f"finished cells (and the weights in them); {len(files) - len(of_cells)} files left by interrupted writers"
        )

        # The user agrees.
        if yes or (sys.stdin.isatty() and typer.confirm("Remove them?")):
            for path in files:
                path.unlink(missing_ok=True)
            typer.echo("removed")
        elif not sys.stdin.isatty():
            typer.echo("nothing was removed: without a terminal to ask at, give --yes")
