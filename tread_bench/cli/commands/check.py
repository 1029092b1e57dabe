"""The command `ci check`."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import FORGETS, JsonOption, OverwriteOption


def check(
    run_dir: Annotated[Path, typer.Argument(help="a finished run folder")],
    baseline: Annotated[Path, typer.Option("--baseline", help="JSON file of accepted figures")],
    accept: Annotated[
        bool, typer.Option("--accept", help="write the run's figures as the new baseline", rich_help_panel=FORGETS)
    ] = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="also write JUnit XML")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a run with accepted figures; status 1: something is worse, 3: something is inconclusive."""
    from rich.table import Table
    from rich.text import Text

    from tread_bench.cli.show.console import stdout_console
    from tread_bench.services.check import check_run

    suite, findings, status = check_run(run_dir, baseline, accept, junit, overwrite)
    if accept:
        typer.echo(f"accepted: {baseline}", err=True)
    if as_json:
        found = [asdict(finding) for finding in findings]
        typer.echo(json.dumps({"suite": suite, "exit_status": status, "findings": found}, indent=1))
        raise typer.Exit(status)

    # What did not pass, and a line about all.
    table = Table("cell", "figure", "verdict", "accepted", "measured", "reason")
    for f in findings:
        if f.verdict != "pass":
            texts = (f.cell, f"{f.kind}: {f.figure}", f.verdict, f.accepted, f.measured, f.reason)
            table.add_row(*map(Text, texts), style="bold red" if f.verdict == "fail" else "yellow")
    if table.row_count:
        stdout_console().print(table)
    if findings:
        counts = Counter(finding.verdict for finding in findings)
        typer.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    raise typer.Exit(status)
