"""The command `ci history`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import JsonOption, TablesOption


def history(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="run folders, in any order")],
    out: Annotated[Path, typer.Option("--out", help="folder of the page and its figures")] = Path("history"),
    tables: TablesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find where figures changed over many runs, and plot them by commit.

    Runs are comparable if their configuration and conditions are the same.
    Speed, memory and quality need at least 8 such runs, counts need two.
    Status 3: a folder was left out, since it is not a run, is damaged, has
    no finished cell or was given twice; the others are shown.
    """
    from tread_bench.cli.show.history import show_history

    raise typer.Exit(show_history(run_dirs, out, tables, as_json))
