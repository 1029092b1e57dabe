"""`report`: makes again what is derived from the records of a run or of an export, or of several on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tread_bench.core.errors import UserError
from tread_bench.core.stored.destinations import claim_folders
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.records import Record
from tread_bench.runner.folder import RunFolder, disk_errors_reported
from tread_bench.runner.joined import read_joined
from tread_bench.runner.sources import Source, read_run
from tread_bench.services.display import note

COMMAND = "tread-bench report"


class Drawn(NamedTuple):
    """A report: the path of its page, and what it was drawn from."""

    page: str
    records: Sequence[Record]
    plan: RunPlan


def write_report(paths: Sequence[Path], out: Path | None, tables: Path | None = None) -> Drawn:
    """Draw a run folder into itself, an export into a folder of its name, or several of them into `out`.

    Raises:
        UserError: one of them is neither, `out` or `tables` contains something else, or several have no `out`.
    """
    first, *others = paths
    if others:
        if out is None:
            raise UserError(f"{len(paths)} runs are drawn on one page: say where with --out DIR")
        return _draw(read_joined(paths), out, tables)
    if first.is_file():
        return _draw(read_run(first), out or Path(first.stem), tables)
    return render_report(first, out, tables)


def render_report(root: Path, out: Path | None = None, tables: Path | None = None) -> Drawn:
    """Make again everything that is derived from the readable records of a run.

    Args:
        out: another folder, for the page, its figures and results.csv alone.
        tables: a folder for its tables and figures in all formats.

    Raises:
        UserError: there is no plan.
    """
    # Read the run.
    folder = RunFolder(root)
    plan = folder.existing_plan()
    records, unreadable = folder.readable_records(plan.references)
    _tell_left_out(unreadable)
    from tread_bench.reports.page.run import render

    # Nothing of the user's is replaced.
    if out is None:
        folder.refuse_links()
    claim_folders(COMMAND, {"--out": out, "--tables": tables})

    # Write what is derived from it.
    with disk_errors_reported(out or root):
        if out is None:
            write_atomically(root / "records.jsonl", "".join(record.model_dump_json() + "\n" for record in records))
        render(records, plan, root, unreadable, out, tables)
    return Drawn(str((out or root) / "index.html"), records, plan)


def _draw(source: Source, out: Path, tables: Path | None) -> Drawn:
    """Draw records that are not all in one run folder, without samples."""
    from tread_bench.reports.page.run import render

    claim_folders(COMMAND, {"--out": out, "--tables": tables})
    _tell_left_out(source.unreadable)
    with disk_errors_reported(out):
        render(source.records, source.plan, None, source.unreadable, out, tables)
    return Drawn(str(out / "index.html"), source.records, source.plan)


def _tell_left_out(unreadable: Mapping[str, str]) -> None:
    for reason in unreadable.values():
        note(f"left out: {reason}")
