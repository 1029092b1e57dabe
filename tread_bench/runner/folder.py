"""The run folder: where its files are, and how they appear complete or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TypeVar

from tread_bench.core.errors import DISK_ERRORS, UserError
from tread_bench.core.names import few
from tread_bench.core.stored.cache import is_locked, try_lock, waited_for
from tread_bench.core.stored.destinations import is_run, refuse_in_run
from tread_bench.core.stored.documents import CellRequest, RowTiming, RunPlan
from tread_bench.core.stored.files import (
    TEMPORARIES,
    StoreError,
    check_cell,
    files_in,
    make_below,
    open_plain,
    read_document,
    refuse_linked,
    write_atomically,
)
from tread_bench.core.stored.records import Record

Document = TypeVar("Document")
OfCell = TypeVar("OfCell", CellRequest, Record)
_CHECKPOINT = re.compile(r"(checkpoints|equal_time)/step-\d+\.(safetensors|sha256)")
MADE = re.compile(  # what this program makes in a cell's folder, or did
    rf"(cell|record|outcome|attempts|progress)\.json|log|\.lock|{_CHECKPOINT.pattern}|weights/\d+\.safetensors"
    rf"|samples/(\d+|real)\.png|tensorboard/events\.out\.tfevents\.[^/]+|(\w+/)?({TEMPORARIES.pattern})"
)
_BELOW_CELL = ("checkpoints", "equal_time", "samples", "tensorboard", "weights")


class Kept(Enum):
    """What a cell keeps when it is run again."""

    NOTHING = auto()
    CHECKPOINTS = auto()  # and all else that training left but its record: it resumes from the last one
    TRAINING = auto()  # its record too: speed is measured again


@contextmanager
def disk_errors_reported(root: Path) -> Iterator[None]:
    """Raises StoreError where the disk under a run folder cannot be used, or the folder is gone."""
    try:
        yield
    except OSError as error:
        check_there(root)
        way_out = DISK_ERRORS.get(error.errno or 0)
        if way_out is None:
            raise
        raise StoreError(
            f"{error.filename or root}: {error.strerror}; what is finished is kept: {way_out}, then run the same "
            "command again, which resumes from here"
        ) from None


def check_there(root: Path) -> None:
    """Raises StoreError where a run folder disappeared during its run."""
    if not root.is_dir():
        raise StoreError(
            f"{root} is gone: it was moved or removed during its run. Nothing more was written there; if it was moved, "
            "run the same command with its new place as --out: it resumes from what is finished"
        )


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of a run and what is stored there."""

    root: Path

    @property
    def plan_path(self) -> Path:
        return self.root / "plan.json"

    def cell(self, cell_id: str) -> Path:
        """Return the folder of one cell. Raises StoreError for an id that is not a name and might lead out of the
        folder.
        """
        if cell_id in ("", ".", "..") or "/" in cell_id or "\0" in cell_id:
            raise StoreError(f"{self.root}: {cell_id!r} cannot be the id of a cell")
        return self.root.joinpath("cells", cell_id)

    @property
    def stand_ins(self) -> Path:
        """The folder of what stands in for files that a smoke run lacks."""
        return self.root / "stand-in"

    def made(self, cell_id: str) -> Path:
        """Return the folder of one cell, made where it is missing. Raises FileNotFoundError: the run folder is gone."""
        cell = self.cell(cell_id)
        make_below(self.root, cell)
        return cell

    def refuse_foreign(self) -> None:
        """Raises UserError where a run must not begin: in another run, or among files that no run made."""
        if is_run(self.root):
            return
        refuse_in_run("--out", self.root)
        found = sorted(os.listdir(self.root)) if self.root.is_dir() else []
        foreign = [name for name in found if name != self.stand_ins.name and not name.startswith(".")]
        if foreign:
            rule = f"is not a run folder of tread-bench and contains {few(foreign, 5)}"
            raise StoreError(f"--out {self.root} {rule}; give a new or empty folder")

    def refuse_links(self, cell_ids: Iterable[str] = ()) -> None:
        """Raises OutputError where a folder that a command may write to is a link."""
        refuse_linked(self.root / name for name in ("cells", "figures", "samples", "slurm", "stand-in", "timings"))
        for cell in map(self.cell, cell_ids):
            refuse_linked([cell, *(cell / name for name in _BELOW_CELL)])

    def timing_path(self, row_key: str) -> Path:
        """Return where a row's speed and memory, shared by its seeds, are kept until its records are written."""
        return self.root / "timings" / f"{row_key}.json"

    def plan(self) -> RunPlan | None:
        """plan.json, or None where there is none. Raises StoreError where it cannot be read."""
        return read_document(self.plan_path, RunPlan)

    def request(self, cell_id: str) -> CellRequest | None:
        """cell.json of a cell, or None. Raises StoreError where it cannot be read or is another's."""
        return self._of_cell(cell_id, "cell.json", CellRequest)

    def existing_request(self, cell_id: str) -> CellRequest:
        """cell.json of a cell. Raises StoreError where there is none, or it cannot be read."""
        request = self.request(cell_id)
        if request is None:
            raise StoreError(f"{self.root} has no cell {cell_id}; `tread-bench run` with its suite makes it")
        return request

    def readable_requests(self) -> tuple[list[CellRequest], list[str]]:
        """cell.json of the plan's cells that can be read, and why the others cannot. Raises StoreError."""
        found, damaged = _readable(self.request, self.existing_plan().references)
        return [*found.values()], [*damaged.values()]

    def timing(self, row_key: str) -> RowTiming | None:
        """Speed and memory of a row as they were measured last, or None."""
        return read_document(self.timing_path(row_key), RowTiming)

    def record(self, cell_id: str) -> Record | None:
        """Return a cell's record, or None while it has not ended. Raises StoreError: unreadable, or another cell's."""
        return self._of_cell(cell_id, "record.json", Record)

    def _of_cell(self, cell_id: str, name: str, kind: type[OfCell]) -> OfCell | None:
        path = self.cell(cell_id) / name
        document = read_document(path, kind)
        if document is not None:
            check_cell(document.cell, path, cell_id)
        return document

    def existing_plan(self) -> RunPlan:
        """plan.json. Raises StoreError where there is none, or it cannot be read."""
        plan = self.plan()
        if plan is not None:
            return plan
        makes_one = f"`tread-bench run SUITE --out {self.root}` makes one, soon after it has started"
        raise StoreError(f"{self.root} is not a run folder: it has no plan.json; {makes_one}")

    def write_record(self, record: Record) -> None:
        """Write a cell's record: after training, and again with speed and memory of its row."""
        write_atomically(self.made(record.cell) / "record.json", record.model_dump_json(indent=1) + "\n")

    def records(self, references: Mapping[str, str]) -> list[Record]:
        """Return the existing records of a plan's cells, each with the reference that the plan gives it.

        Raises:
            StoreError: some cannot be read; it names all of them.
        """
        found, unreadable = self.readable_records(references)
        if unreadable:
            raise StoreError("\n".join(unreadable.values()))
        return found

    def readable_records(self, references: Mapping[str, str]) -> tuple[list[Record], dict[str, str]]:
        """Return the records that can be read, and why the others cannot, by cell."""
        found, unreadable = _readable(self.record, references)
        records = [record.model_copy(update={"reference": references[cell]}) for cell, record in found.items()]
        return records, unreadable

    def has_checkpoints(self, cell_id: str) -> bool:
        """Return whether a checkpoint of a cell was completed; it may have been damaged since."""
        return any(self.cell(cell_id).glob("checkpoints/step-*.sha256"))

    def forget(self, cell_id: str, row_key: str, kept: Kept) -> None:
        """Remove its row's timing, and all of a cell but what is kept.

        What others put into the cell's folder stays. A removal that is broken off leaves what can be resumed:
        checkpoints go before the record, this before its weights, and `cell.json` last.
        """
        cell = self.cell(cell_id)
        refuse_linked([cell.parent, cell, self.timing_path(row_key).parent])
        self.timing_path(row_key).unlink(missing_ok=True)
        if kept is Kept.TRAINING:
            failed = self.record(cell_id)
            assert failed is not None, f"{cell_id} has no record to be forgotten"
            trained = {"status": "done", "reason": failed.reason_in_training, "reason_in_training": ""}
            self.write_record(failed.model_copy(update=trained))
        elif kept is Kept.CHECKPOINTS:
            (cell / "record.json").unlink(missing_ok=True)
        else:
            made = [path for path in files_in(cell) if MADE.fullmatch(path.relative_to(cell).as_posix())]
            for path in sorted(made, key=lambda path: path.name == "cell.json"):
                path.unlink()
            for place, *_ in os.walk(cell, topdown=False):
                with suppress(OSError):  # what is in it is not ours
                    os.rmdir(place)

    def removable(self) -> list[Path]:
        """Files that this program made and no longer needs: checkpoints of cells with a record, and what was left half
        written. Nothing of a cell without a readable record, and nothing behind a link.
        """
        # Where a record cannot be read, the checkpoints may be all that is left of the cell.
        finished, _ = _readable(self.record, (path.parent.name for path in self.root.glob("cells/*/record.json")))
        found = []
        for path in files_in(self.root):
            cell = next((parent for parent in path.parents if parent.parent == self.root / "cells"), None)
            is_checkpoint = cell is not None and _CHECKPOINT.fullmatch(path.relative_to(cell).as_posix())
            if (TEMPORARIES.fullmatch(path.name) or is_checkpoint) and (cell is None or cell.name in finished):
                found.append(path)
        return found

    @contextmanager
    def lock(self, part: str = "") -> Iterator[None]:
        """One runner at a time, or one for each `part` of the run; released by the kernel at a process's death.

        Raises:
            StoreError: another runner holds the folder, or that part of it; or there cannot be a locked folder.
        """
        locks = {".lock": ""}  # runners of parts share it
        if part:
            locks[f".lock-{part.replace('/', '-of-')}"] = f" for --shard {part}"
        with ExitStack() as held:
            for name, of_part in locks.items():
                try:
                    self.root.mkdir(parents=True, exist_ok=True)
                    file = held.enter_context(open_plain(self.root / name, "a+"))
                    try_lock(file, shared=bool(part) and not of_part)
                except BlockingIOError:
                    state = f"is in use by another tread-bench{of_part}"
                    raise StoreError(f"{self.root} {state}; wait for it or give another --out") from None
                except OSError as error:
                    rule = f"cannot be a run folder: {error.strerror}"
                    raise StoreError(f"--out {self.root} {rule}; give another") from None
            yield

    def turn(self) -> AbstractContextManager[None]:
        """One runner of a part at a time: a second one waits."""
        return waited_for(self.root / ".turn")

    def is_taken(self, cell_id: str) -> bool:
        """Return whether a process works on a cell, as far as can be seen from here."""
        return is_locked(self.cell(cell_id) / ".lock") is True

    def cell_lock(self, cell_id: str) -> AbstractContextManager[None]:
        """One process at a time works on a cell; a second one waits, since the first may briefly outlive its runner."""
        return waited_for(self.made(cell_id) / ".lock")


def _readable(
    read: Callable[[str], Document | None], names: Iterable[str]
) -> tuple[dict[str, Document], dict[str, str]]:
    """The documents that are there, and why others cannot be read, by name."""
    found, unreadable = {}, {}
    for name in names:
        try:
            document = read(name)
        except UserError as error:
            unreadable[name] = str(error)
            continue
        if document is not None:
            found[name] = document
    return found, unreadable


def trained_cells(root: Path) -> list[CellRequest]:
    """cell.json of each cell that a run trains. Raises StoreError if `root` is not a run folder or cannot be read."""
    folder = RunFolder(root)
    requests = [folder.request(cell) for cell in folder.existing_plan().references]
    return [request for request in requests if request and request.configuration.trains]
