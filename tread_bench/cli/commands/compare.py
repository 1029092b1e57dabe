"""The command `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import TablesOption


def compare(
    sources: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="two or more run folders, or files from `report --export`")
    ],
    out: Annotated[Path, typer.Option("--out", help="folder of the page and its figures")] = Path("compare"),
    tables: TablesOption = None,
) -> None:
    """Compare the same rows in several runs: two machines, versions, data sets or groups of seeds.

    FIDs are compared where data, objective, metric protocol and iteration are
    the same, and rows are ranked together where their training is, too;
    otherwise they stand side by side, with what differs. Speed is compared
    on equal machines only.
    """
    from tread_bench.services.compare import compare_runs

    typer.echo(compare_runs(sources, out, tables))
