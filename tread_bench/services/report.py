"""`report`: makes again what is derived from the records of a run or of an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tread_bench.core.stored.destinations import claim_folders
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.records import Record
from tread_bench.runner.folder import RunFolder, disk_errors_reported
from tread_bench.services.display import note

COMMAND = "tread-bench report"


class Drawn(NamedTuple):
    """A report: the path of its page, and what it was drawn from."""

    page: str
    records: Sequence[Record]
    plan: RunPlan


def write_report(source: Path, out: Path | None, tables: Path | None = None) -> Drawn:
    """Draw a run folder into itself, or an export into a folder of its name, unless `out` is given.

    Raises:
        UserError: it is neither, or `out` or `tables` contains something else.
    """
    if source.is_file():
        return _report_export(source, out or Path(source.stem), tables)
    return render_report(source, out, tables)


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


def _report_export(path: Path, out: Path, tables: Path | None) -> Drawn:
    from tread_bench.reports.page.run import render
    from tread_bench.runner.export import read_export

    export = read_export(path)
    claim_folders(COMMAND, {"--out": out, "--tables": tables})
    _tell_left_out(export.unreadable)
    with disk_errors_reported(out):
        render(export.records, export.plan, None, export.unreadable, out, tables)
    return Drawn(str(out / "index.html"), export.records, export.plan)


def _tell_left_out(unreadable: Mapping[str, str]) -> None:
    for reason in unreadable.values():
        note(f"left out: {reason}")
