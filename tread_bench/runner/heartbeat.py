"""How far a running cell is, in `cells/<id>/progress.json`: for display only, never for figures. No torch."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, ValidationError

from tread_bench.core.stored.files import OutputError, write_atomically
from tread_bench.core.stored.foreign import read_file
from tread_bench.runner.folder import RunFolder

EVERY_S = 1.0  # at least, between two notes in the same phase
SHARE = 0.005  # share of a cell's time that notes may take where the disk is slow
STARTING = "starting"  # the phase before the first report
_NAME = "progress.json"

Tell = Callable[[str, int, int, float | None], None]  # (phase, done, of, loss)


class Progress(BaseModel):
    """How far an attempt at a cell is, and where it runs; `updated` in seconds since 1970, by the clock of `host`."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    cell: str
    phase: str
    done: NonNegativeInt
    of: NonNegativeInt  # 0: not known yet
    loss: float | None
    rate: PositiveFloat | None  # iterations per second of this attempt, without evaluations
    host: str
    pid: int
    device: str  # CUDA_VISIBLE_DEVICES of the process
    updated: float


def read_progress(folder: RunFolder, cell_id: str) -> Progress | None:
    """Return the last report of the latest attempt at a cell; None where there is none, it cannot be read, or is
    another's.
    """
    try:
        found = Progress.model_validate_json(read_file(folder.cell(cell_id) / _NAME))
    except (OSError, ValidationError):
        return None
    return found if found.cell == cell_id else None


class Heartbeat:
    """A cell's `tell` that also notes the report in the cell's folder: a new phase at once, else now and then.

    A failing disk loses a note and nothing else.
    """

    def __init__(self, folder: Path, tell: Tell, cell_id: str) -> None:
        self.path, self.tell, self.cell_id = folder / _NAME, tell, cell_id
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self.place = {"host": platform.node(), "pid": os.getpid(), "device": device}
        self.phase, self.done, self.heard = STARTING, 0, time.monotonic()
        self.iterations, self.seconds = 0, 0.0  # between reports of one phase
        self._note(0, None)

    def __call__(self, phase: str, done: int, of: int, loss: float | None) -> None:
        self.tell(phase, done, of, loss)
        now, is_new = time.monotonic(), phase != self.phase
        if not is_new and done > self.done:
            self.iterations += done - self.done
            self.seconds += now - self.heard
        self.phase, self.done, self.heard = phase, done, now
        if is_new or now >= self.due:
            self._note(of, loss)

    def _note(self, of: int, loss: float | None) -> None:
        start = time.monotonic()
        rate = self.iterations / self.seconds if self.iterations and self.seconds else None
        news = {"phase": self.phase, "done": self.done, "of": of, "loss": loss, "rate": rate, "updated": time.time()}
        progress = Progress.model_validate({"cell": self.cell_id, **news, **self.place})
        with suppress(OSError, OutputError):
            write_atomically(self.path, progress.model_dump_json())
        now = time.monotonic()
        self.due = now + max(EVERY_S, (now - start) / SHARE)
