"""Run folders in the order of their commits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ValidationError

from tread_bench.errors import UserError
from tread_bench.records import Record
from tread_bench.store import WAY_OUT, RunFolder, StoreError


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is there to compare: where it lies, what it ran with, and its finished cells."""

    path: Path
    suite: str
    started: datetime
    commit: str  # "" for an installed copy
    committed: datetime | None
    is_changed: bool  # the checkout held changes that no commit has
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
    """A folder that is not part of the history; the reason names it."""

    path: Path
    reason: str


class _Suite(BaseModel):
    name: str


class _Git(BaseModel):
    commit: str
    changed: bool
    committed: AwareDatetime | None = None


class _About(BaseModel):
    """What the axis takes from plan.json."""

    suite: _Suite
    references: dict[str, str]
    versions: dict[str, Any]
    git: _Git | None = None


def read_runs(folders: Iterable[Path]) -> tuple[list[Run], list[LeftOut]]:
    """The runs by time, and the folders that give none: no run, damaged, without a finished cell, or given before.

    Raises:
        UserError: no folder gives a run.
    """
    runs, left_out, seen = [], [], set[Path]()
    for path in folders:
        try:
            if path.resolve() in seen:
                raise StoreError(f"{path} is given twice; it is read once")
            seen.add(path.resolve())
            runs.append(_read(path))
        except UserError as error:
            left_out.append(LeftOut(path, str(error)))
    if not runs:
        raise UserError("\n".join(["no run to show:", *(left.reason for left in left_out)]))
    return sorted(runs, key=lambda run: (run.time, run.started, run.path)), left_out


def _read(path: Path) -> Run:
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is no folder")
    folder = RunFolder(path)
    plan = folder.existing_plan()
    try:
        about = _About.model_validate(plan)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(f"{folder.plan_path}: {where}: {first['msg']}; {WAY_OUT}") from None
    done = tuple(record for record in folder.records(about.references) if record.status == "done")
    if not done:
        raise StoreError(f"{path} has no finished cell; `tread-bench run` goes on with it")
    git = about.git or _Git(commit="", changed=False)
    version = str(about.versions.get("tread-bench"))
    return Run(path, about.suite.name, folder.started(plan), git.commit, git.committed, git.changed, version, done)
