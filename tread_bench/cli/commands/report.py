"""The command `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import ExportOption


def report(
    source: Annotated[
        Path, typer.Argument(metavar="RUN_DIR|FILE", help="a run folder, finished or not, or a file from `export`")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="folder to write into; default: the run folder, or for FILE.json a folder FILE here"
        ),
    ] = None,
    export_to: ExportOption = None,
) -> None:
    """Write results.csv, the figures and index.html of a run, or of an exported run, again."""
    from tread_bench.services.report import write_report

    typer.echo(write_report(source, out, export_to))
