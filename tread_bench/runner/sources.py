"""What others read of a run: its folder, or the file that was exported from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.records import Record
from tread_bench.runner.export import read_export
from tread_bench.runner.folder import RunFolder


class Source(NamedTuple):
    """The plan and the records of a run; `unreadable` says of each other cell why its record cannot be read."""

    path: Path
    plan: RunPlan
    records: Sequence[Record]
    unreadable: Mapping[str, str]


def read_run(path: Path) -> Source:
    """Read a run folder or an export. Raises UserError where it is neither, or where its plan cannot be read."""
    if path.is_file():
        export = read_export(path)
        return Source(path, export.plan, export.records, {})
    folder = RunFolder(path)
    plan = folder.existing_plan()
    records, unreadable = folder.readable_records(plan.references)
    return Source(path, plan, records, unreadable)
