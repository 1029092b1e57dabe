"""The command `ci check`: a run against an accepted one."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import JsonOption, OverwriteOption, forgets, option
from tread_bench.core.errors import UserError


def check(
    run_dir: Annotated[Path, typer.Argument(help="a finished run folder")],
    baseline: Annotated[Path, option("--baseline", "JSON file of accepted figures")],
    accept: Annotated[bool, forgets("--accept", "write the run's figures as the new baseline")] = False,
    junit: Annotated[Path | None, option("--junit", "also write JUnit XML")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a run with accepted figures; status 1: something is worse, 3: something is inconclusive."""
    from rich.table import Table
    from rich.text import Text

    from tread_bench.cli.console import stdout_console
    from tread_bench.core.stored.destinations import claim_file
    from tread_bench.core.stored.files import read_document, write_atomically, write_document
    from tread_bench.core.stored.records import of_study
    from tread_bench.regression.compare import MARGINS, Baseline, compare, exit_status, figures_of, to_junit
    from tread_bench.runner.folder import RunFolder

    # Where to write.
    if junit:
        claim_file("--junit", junit, overwrite)
    if accept:
        claim_file("--baseline", baseline, overwrite=True)

    # The run, which must be whole.
    folder = RunFolder(run_dir)
    plan = folder.existing_plan()
    if plan.smoke:
        raise UserError(f"{run_dir} is a smoke run, neither checked nor accepted: run its suite without --smoke")
    suite = plan.suite.name
    found = of_study(folder.records(plan.references))
    records = [record for record in found if not (plan.timing.pairs and record.lacks_speed)]
    failed = {f"{r.row} seed {r.seed}": r.reason for r in records if r.status != "done"}
    missing = plan.planned - len(plan.tuning_cells) - len(records)
    if missing or (accept and failed):
        raise UserError(
            f"{run_dir} is not finished: of {len(records) + missing} cells, {len(failed)} failed and {missing} have no "
            f"record or no speed yet; run its suite again with --out {run_dir} --retry-failed, which resumes from there"
        )

    # What was accepted before, and what differs.
    cells = figures_of(records)
    old = read_document(baseline, Baseline, "restore it from version control, or `--accept` a run into another file")
    if old is None and not accept:
        raise UserError(f"no such baseline: {baseline}; the same command with --accept writes one")
    if old and old.suite != suite:
        raise UserError(
            f"{baseline}: the baseline is of suite {old.suite}, the run in {run_dir} of {suite}; give its own"
        )
    findings = compare(old, cells, failed) if old else []
    status = 0 if accept else exit_status(findings)

    # What is written; margins stay.
    if junit:
        write_atomically(junit, to_junit(findings, f"tread-bench ci check: {suite}"), overwrite)
    if accept:
        new = Baseline(suite=suite, margins=old.margins if old else MARGINS, cells=cells)
        baseline.parent.mkdir(parents=True, exist_ok=True)
        write_document(baseline, new)
        typer.echo(f"accepted: {baseline}", err=True)

    # What did not pass, and a line about all.
    if as_json:
        typer.echo(json.dumps({"suite": suite, "exit_status": status, "findings": findings}, default=asdict, indent=1))
    elif findings:
        table = Table("cell", "figure", "verdict", "accepted", "measured", "reason")
        for f in findings:
            if f.verdict != "pass":
                texts = (f.cell, f"{f.kind}: {f.figure}", f.verdict, f.accepted, f.measured, f.reason)
                table.add_row(*map(Text, texts), style="bold red" if f.verdict == "fail" else "yellow")
        if table.row_count:
            stdout_console().print(table)
        counts = Counter(finding.verdict for finding in findings)
        typer.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    if status:
        raise typer.Exit(status)
