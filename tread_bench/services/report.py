"""What `run` and `report` draw: the page of a run, of an export, or of several of them together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tread_bench.core.errors import UserError
from tread_bench.core.stored.destinations import claim_folders
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.foreign import pictures_of
from tread_bench.runner.folder import RunFolder, disk_errors_reported
from tread_bench.runner.sources import read_joined, read_run
from tread_bench.services.display import note

if TYPE_CHECKING:
    from tread_bench.reports.study import Study

COMMAND = "tread-bench report"


def stale(run: Path) -> list[str]:
    """Return the files of a run's report that are missing, empty, or older than its plan and records.

    The page names its figures.
    """
    latest = max(source.stat().st_mtime_ns for source in (run / "plan.json", *run.glob("cells/*/record.json")))
    pictures = pictures_of(run / "index.html")
    found = []
    for name in ("index.html", "results.csv", "records.jsonl", *(f"figures/{name}" for name in pictures or ())):
        path = run / name
        if not path.is_file() or not path.stat().st_size or path.stat().st_mtime_ns < latest:
            found.append(name)
    return found or (["figures"] if pictures is None else [])


class Drawn(NamedTuple):
    """A report: the path of its page, and what it was drawn from."""

    page: str
    study: Study
    plan: RunPlan


def write_report(paths: Sequence[Path], out: Path | None = None, tables: Path | None = None) -> Drawn:
    """Draw a run folder into itself, an export into a folder of its name, or several of them into `out`.

    Args:
        out: another folder, for the page, its figures and results.csv alone.
        tables: a folder for tables and figures in all formats.

    Raises:
        UserError: one of them is neither, `out` or `tables` contains something else, or several have no `out`.
    """
    # What is drawn, and where to; only a run folder has samples to show.
    first, *others = paths
    if others and out is None:
        raise UserError(f"{len(paths)} runs are drawn on one page: say where with --out DIR")
    source = read_joined(paths) if others else read_run(first)
    run = first if first.is_dir() and not others else None
    if run is None:
        out = out or Path(first.stem)
    from tread_bench.reports.page.run import render

    # Nothing of the user's is replaced.
    if out is None:
        RunFolder(first).refuse_links()
    claim_folders(COMMAND, {"--out": out, "--tables": tables})
    for reason in source.unreadable.values():
        note(f"left out: {reason}")

    # Write what is derived from the records.
    folder = out or first
    with disk_errors_reported(folder):
        if out is None:
            write_atomically(folder / "records.jsonl", "".join(f"{one.model_dump_json()}\n" for one in source.records))
        study = render(source.records, source.plan, run, source.unreadable, out, tables)
    return Drawn(str(folder / "index.html"), study, source.plan)
