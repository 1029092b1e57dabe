"""The command `compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import JsonOption, TablesOption


def compare(
    sources: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="two or more run folders, or files from `report --export`")
    ],
    out: Annotated[Path, typer.Option("--out", help="folder of the page and its figures")] = Path("compare"),
    tables: TablesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the same rows in several runs: two machines, versions, data sets or groups of seeds.

    FIDs are compared where data, objective, metric protocol and iteration are
    the same, and rows are ranked together where their training is, too;
    otherwise they stand side by side, with what differs. Speed is compared
    on equal machines only.
    """
    from tread_bench.cli.show.console import stdout_console
    from tread_bench.services.compare import compare_runs

    found = compare_runs(sources, out, tables)
    if as_json:
        typer.echo(json.dumps({"decisions": found.decisions, "page": str(found.page)}, indent=2))
        return
    for decision in found.decisions:
        stdout_console().print(decision["sentence"], style="bold", markup=False)
    typer.echo("\n".join([*found.sentences, str(found.page)]))
