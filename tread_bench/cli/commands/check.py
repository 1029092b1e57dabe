"""The command `ci check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import FORGETS, JsonOption, JunitOption, MarkdownOption, OverwriteOption


def check(
    run_dir: Annotated[Path, typer.Argument(help="a finished run folder")],
    baseline: Annotated[Path, typer.Option("--baseline", help="JSON file of accepted figures")],
    accept: Annotated[
        bool, typer.Option("--accept", help="write the run's figures as the new baseline", rich_help_panel=FORGETS)
    ] = False,
    junit: JunitOption = None,
    markdown: MarkdownOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a run with accepted figures; status 1: something is worse, 3: something is inconclusive."""
    from tread_bench.cli.show.check import show_check
    from tread_bench.services.check import Outputs

    raise typer.Exit(show_check(run_dir, baseline, accept, Outputs(junit, markdown, overwrite), as_json))
