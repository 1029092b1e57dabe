"""The command `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import OverwriteOption


def export(
    run_dir: Annotated[Path, typer.Argument(help="a run folder, finished or not")],
    out: Annotated[
        Path | None, typer.Option("--out", help="file to write; default: the run folder's name with .json, here")
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Write the records of a run to one small file to send or publish; `report` draws it.

    The file contains no weights, images or logs. It names files without their folders, and no host or user.
    """
    from tread_bench.services.export import export_run

    typer.echo(export_run(run_dir, out, overwrite))
