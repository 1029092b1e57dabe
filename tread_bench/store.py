"""The run folder: where things stand, and files that appear whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tread_bench.errors import UserError
from tread_bench.records import Record


class StoreError(UserError):
    """A run folder that cannot be used, with the way out."""


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write to a temporary name, flush to the disk, rename: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Indented JSON; NaN and infinity are refused, since JSON has none."""
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of a run and what is remembered there."""

    root: Path

    @property
    def plan_path(self) -> Path:
        return self.root / "plan.json"

    def cell(self, cell_id: str) -> Path:
        """The folder of one cell."""
        return self.root / "cells" / cell_id

    def timing_path(self, row_key: str) -> Path:
        """Where a row's speed and memory, shared by its seeds, are kept until its records are written."""
        return self.root / "timings" / f"{row_key}.json"

    def plan(self) -> dict[str, Any] | None:
        """plan.json, or None where there is none. Raises StoreError where it cannot be read."""
        return read_json(self.plan_path)

    def record(self, cell_id: str) -> Record | None:
        """A cell's record, or None while it has none. Raises StoreError for one that cannot be read."""
        return self._read_record(self.cell(cell_id) / "record.json")

    def outcome(self, cell_id: str) -> Record | None:
        """What training left (`outcome.json`): a record that still lacks speed and memory."""
        return self._read_record(self.cell(cell_id) / "outcome.json")

    def _read_record(self, path: Path) -> Record | None:
        content = read_json(path)
        if content is None:
            return None
        try:
            return Record.model_validate(content)
        except ValidationError as error:
            raise StoreError(
                f"{path} is no record of this version ({error.error_count()} problems); "
                "delete it to run the cell again, or use the version that wrote it"
            ) from None

    def write_record(self, record: Record, name: str = "record.json") -> None:
        """Write a cell's record whole."""
        write_atomically(self.cell(record.cell) / name, record.model_dump_json(indent=1) + "\n")

    def records(self, references: Mapping[str, str]) -> list[Record]:
        """The records that exist of a plan's cells, each with the reference that the plan gives it."""
        found = ((self.record(cell_id), reference) for cell_id, reference in references.items())
        return [record.model_copy(update={"reference": reference}) for record, reference in found if record is not None]

    def forget(self, cell_id: str, row_key: str, keep_training: bool) -> None:
        """Remove a cell's record and its row's timing, and unless told otherwise all that training left."""
        self.timing_path(row_key).unlink(missing_ok=True)
        (self.cell(cell_id) / "record.json").unlink(missing_ok=True)
        if not keep_training and self.cell(cell_id).exists():
            aside = self.cell(cell_id).with_name(f".{cell_id}.removed")
            shutil.rmtree(aside, ignore_errors=True)
            self.cell(cell_id).rename(aside)  # at once: no half-removed cell is ever taken for a whole one
            shutil.rmtree(aside, ignore_errors=True)

    def page_is_current(self) -> bool:
        """Whether the page is younger than everything that it is made from."""
        page = self.root / "index.html"
        sources = [self.plan_path, self.root / "records.jsonl", *self.root.glob("cells/*/record.json")]
        return page.exists() and all(s.exists() and s.stat().st_mtime_ns <= page.stat().st_mtime_ns for s in sources)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One runner at a time. Raises StoreError where another holds the folder; released by the kernel at death."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            file = open(self.root / ".lock", "a+")  # noqa: SIM115  (closed below, where the lock ends)
        except OSError as error:
            raise StoreError(f"--out {self.root} cannot be a run folder: {error.strerror}; give another") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(
                    f"{self.root} is in use by another tread-bench; wait for it or give another --out"
                ) from None
            yield


def read_json(path: Path) -> Any:
    """The file's JSON, or None where there is no file. Raises StoreError where it is damaged."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({error}); delete it to make it again") from None
