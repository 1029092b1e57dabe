"""`report --export`: a run as one file that can be sent and published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tread_bench.core.errors import UserError
from tread_bench.core.stored.destinations import refuse_taken
from tread_bench.core.stored.outputs import try_file
from tread_bench.runner.export import export_of, write_export
from tread_bench.runner.folder import RunFolder, disk_errors_reported
from tread_bench.services.display import note


def export_run(runs: Sequence[Path], path: Path, page: Path | None = None, overwrite: bool = False) -> str:
    """Write the file; its path.

    Args:
        page: a folder that a report was requested in as well, which is refused.

    Raises:
        UserError: `root` is not a run folder or has no record; or `path` must not be written.
    """
    root, *others = runs
    if others:
        raise UserError(f"--export {path} writes the records of one run; give one run folder")
    if root.is_file():
        raise UserError(f"--export {path} writes the records of a run, and {root} is a file; give a run folder")
    if page is not None:
        raise UserError(f"--export {path} writes one file, and no report into {page}; give one of them")
    refuse_taken("--export", path, overwrite)

    # What the run has left so far.
    export, unreadable = export_of(RunFolder(root))
    try_file("--export", path)
    with disk_errors_reported(path.parent):
        write_export(path, export, overwrite)

    # What the file lacks, and what others should not see unread.
    if any(record.reason or len(record.attempts) > 1 for record in export.records):
        note(
            "what cells said when they failed is in it as they said it: look for paths and hosts before you publish it"
        )
    for reason in unreadable.values():
        note(f"left out: {reason}")
    missing = export.plan.planned - len(export.records) - len(unreadable)
    if missing:
        note(f"{missing} of {export.plan.planned} cells have no record yet and are not in it")
    return str(path)
