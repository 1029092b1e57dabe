"""`run`: a suite to its comparison."""

from __future__ import annotations

import sys
from functools import partial
from itertools import groupby
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Column, Table

from tread_bench.cli.console import stdout_console
from tread_bench.cli.display import make_display
from tread_bench.cli.report import render_report
from tread_bench.core.errors import UserError
from tread_bench.core.records import Record
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Options
from tread_bench.runner.runner import run
from tread_bench.suite.load import find_suite, load_plan

# What --smoke sets in every cell: everything runs once, nothing long enough to be meaningful.
SMOKE_TIMING = ("timing.pairs=2", "timing.warmup=1")
SMOKE = (
    "training.iterations=4",
    "training.checkpoint_every=2",
    "metrics.at=[2, 4]",
    "metrics.num_samples=32",
    "metrics.validation_samples=16",
    "metrics.similarity_samples=8",
    "metrics.kid_subset_size=16",
    "sampling.steps=2",
    *SMOKE_TIMING,
)


_NAMED = 5  # files in a message
PRINTED = ("FID", "Δ FID", "Speed-up", "Ideal")  # the page has every column
PRINTED_WIDE = ("Seeds", *PRINTED, "GMACs", "Images/s", "Δ Val. loss")


def run_suite(name: str, overrides: list[str], out: Path | None, smoke: bool, options: Options) -> int:
    """Run, report, print the table; the exit status: 0 all cells done, 1 some failed."""
    # Run the plan.
    path = find_suite(name)
    plan = load_plan(path, [*overrides, *(shortened(path, overrides) if smoke else ())], is_smoke=smoke)
    root = out or Path("runs") / (f"{plan.suite.name}-smoke" if smoke else plan.suite.name)
    console = Console(stderr=True)
    agree = partial(_agree, options.agreed)
    result = run(plan, path.read_text(encoding="utf-8"), root, options, make_display(console), agree)

    # Say what is left; a part draws no page.
    page = root / "index.html"
    failed = [record for record in result.records if record.status == "failed"]
    if result.taken:
        typer.echo(f"another process is still working on {result.taken} cells; run this command again later", err=True)
    if options.shard is not None:
        which = "smoke run, " if smoke else ""
        typer.echo(f"{which}shard {options.shard}: {result.finished_now} cells finished this time{_again(failed)}")
        typer.echo("when all shards have finished, run the command without --shard: it measures speed and compares")
        return 1 if failed or result.taken else 0

    # The page and the table, where they are missing or not of these records.
    stale = RunFolder(root).stale()
    if not result.finished_now:
        made = f"made again, since missing or older than the records: {_few(stale)}" if stale else "nothing to do"
        which = " of this smoke run" if smoke else ""
        typer.echo(f"{made}: all {len(result.records)} cells{which} have their records" + _again(failed))
    if stale or result.finished_now:
        render_report(root)
        _print_table(result.records, smoke)
    typer.echo(str(page))
    return 1 if failed or result.taken else 0


def shortened(path: Path, overrides: list[str]) -> tuple[str, ...]:
    """What --smoke sets: a suite that trains nothing is only timed in a smoke run too."""
    is_timed_only = all(cell.cell.is_timed_only for cell in load_plan(path, overrides, is_smoke=True).cells)
    return SMOKE_TIMING if is_timed_only else SMOKE


def _agree(is_agreed: bool, message: str) -> None:
    """Name what will be removed, and ask unless `yes`. Raises UserError where the user does not agree."""
    typer.echo(message, err=True)
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise UserError("nothing was changed: without a terminal to ask at, --fresh needs --yes")
    if not typer.confirm("Remove it?", err=True):
        raise UserError("nothing was changed")


def _few(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _again(failed: list[Record]) -> str:
    return f" ({len(failed)} of them failed; --retry-failed runs those again)" if failed else ""


def _print_table(records: list[Record], is_smoke: bool) -> None:
    """The main table of the comparison on stdout, for each group of rows that may be ranked together."""
    from tread_bench.reports.cautions import SMOKE_RUN
    from tread_bench.reports.comparison import comparison
    from tread_bench.reports.table_view import comparison_view

    console = stdout_console()
    if is_smoke:
        console.print(f"SMOKE RUN. {SMOKE_RUN}")
    printed = PRINTED_WIDE if console.width >= 120 else PRINTED
    for _, members in groupby(comparison(records, is_smoke), key=lambda row: row.group):
        view = comparison_view(list(members))
        shown = [k for k, (title, _) in enumerate(view.headers) if title in printed]
        title = "smoke run" if is_smoke else None
        table = Table(Column("row", no_wrap=True), *(view.headers[k][0] for k in shown), title=title)
        for row, cells in view.rows:
            table.add_row(row.label, *(f"{cells[k].text}\n{cells[k].below}".strip() for k in shown))
        console.print(table)
