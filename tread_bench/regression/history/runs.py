"""Run folders in the order of their commits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tread_bench.core.errors import UserError
from tread_bench.core.stored.documents import GitState, RunPlan
from tread_bench.core.stored.files import StoreError
from tread_bench.core.stored.records import Record, of_study
from tread_bench.runner.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Run:
    """A run to compare: its place, what it ran with, and its finished cells."""

    path: Path
    suite: str
    started: datetime
    commit: str  # "" for an installed copy
    committed: datetime | None
    is_changed: bool  # the checkout had uncommitted changes
    version: str
    records: tuple[Record, ...]

    @property
    def time(self) -> datetime:
        """Its place in the history: when its commit was made, or else when it was started. UTC."""
        return (self.committed or self.started).astimezone(UTC)

    @property
    def label(self) -> str:
        """Short commit, with a star where the checkout was changed; else version and date."""
        if not self.commit:
            return f"{self.version} {self.time:%Y-%m-%d}"
        return f"{self.commit[:7]}{'*' if self.is_changed else ''}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A folder, or a record in it, that is not part of the history; the reason names it."""

    path: Path
    reason: str


def read_runs(folders: Iterable[Path]) -> tuple[list[Run], list[LeftOut]]:
    """Return the runs by time, and what is left out: folders that are not a run, are damaged, have no finished cell or
    were given twice, and records that cannot be read.

    Raises:
        UserError: no folder gives a run.
    """
    # Read each folder once; one that cannot be read is left out.
    runs: list[Run] = []
    left_out: list[LeftOut] = []
    seen = set[str]()
    for path in folders:
        try:
            if (place := os.path.realpath(path)) in seen:
                raise StoreError(f"{path} is given twice; it is read once")
            seen.add(place)
            run, unreadable = _read(path)
            runs.append(run)
            left_out += unreadable
        except UserError as error:
            left_out.append(LeftOut(path, str(error)))

    # In the order of their times.
    if not runs:
        raise UserError("\n".join(["no run to show:", *(left.reason for left in left_out)]))
    return sorted(runs, key=lambda run: (run.time, run.started, run.path)), left_out


def refuse_without_figures(path: Path, plan: RunPlan, records: Iterable[Record], unreadable: Mapping[str, str]) -> None:
    """Raise StoreError for a run that says nothing beside others: a smoke run, or one that has no finished cell."""
    if plan.smoke:
        raise StoreError(f"{path} is a smoke run, whose figures mean nothing; run its suite without --smoke")
    if not any(record.status == "done" for record in records):
        unfinished = f"{path} has no finished cell; `tread-bench run` resumes it"
        raise StoreError("\n".join([*unreadable.values(), unfinished]))


def _read(path: Path) -> tuple[Run, list[LeftOut]]:
    """A run, and those of its records that cannot be read."""
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is not a folder")
    folder = RunFolder(path)
    plan = folder.existing_plan()
    records, unreadable = folder.readable_records(plan.references, or_outcomes=False)
    refuse_without_figures(path, plan, records, unreadable)
    git = plan.git or GitState(commit="", changed=False)
    run = Run(
        path=path,
        suite=plan.suite.name,
        started=folder.started(plan),
        commit=git.commit,
        committed=datetime.fromisoformat(git.committed).astimezone(UTC) if git.committed else None,
        is_changed=git.changed,
        version=str(plan.versions.get("tread-bench")),
        records=tuple(record for record in of_study(records) if record.status == "done"),
    )
    return run, [LeftOut(path, reason) for reason in unreadable.values()]
