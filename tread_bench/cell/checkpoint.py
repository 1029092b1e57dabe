"""Checkpoints: safetensors beside a sha256, written atomically; the last two are kept, a damaged one is skipped.

The hash is written after its file: a checkpoint without one is unfinished. It covers the file's metadata, which name
cell and iteration: an intact one of another cell is refused.
"""

from __future__ import annotations

import hashlib
import json
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tread_bench.core.stored.files import check_cell, replacing, write_atomically
from tread_bench.suite.plan import CHECKPOINTS_KEPT

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tensors by name, and what else is needed to resume (JSON values)."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


class CheckpointWriter:
    """Writes checkpoints one at a time, in a thread beside the training that goes on; leaving it waits for the last.

    A crash while one is being written leaves the one before it. Their tensors must not change any more.
    """

    def __init__(self, folder: Path, cell_id: str) -> None:
        self.folder = folder
        self.cell_id = cell_id
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        self._thread.shutdown()
        if kind is None:
            self._wait()

    def save(self, step: int, checkpoint: Checkpoint) -> None:
        """Begin to write a checkpoint once the one before it is written. Raises OSError if that one could not be."""
        self._wait()
        self._writing = self._thread.submit(save_checkpoint, self.folder, step, checkpoint, self.cell_id)

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint, cell_id: str) -> None:
    """Write `step-<step>.safetensors` and its hash, then drop all but the last two up to here.

    Those of later steps are removed too: training that resumed from an earlier one found them damaged.
    """
    # The file, and then its hash.
    path = _path(folder, step)
    folder.mkdir(exist_ok=True)
    with replacing(path) as temporary:
        about = {"state": json.dumps(checkpoint.state), "owner": json.dumps({"cell": cell_id})}
        save_file(checkpoint.tensors, temporary, about)
        digest = file_sha256(temporary)
    write_atomically(path.with_suffix(".sha256"), digest)

    # Remove older ones, and any of later steps.
    written = checkpoints_in(folder)
    kept = [one for one in written if one <= path][-CHECKPOINTS_KEPT:]
    for old in set(written) - set(kept):
        _remove(old)


def _path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:09d}.safetensors"


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints in a folder, and the folder where nothing else is in it."""
    for path in checkpoints_in(folder):
        _remove(path)
    with suppress(OSError):
        folder.rmdir()


def _remove(path: Path) -> None:
    path.with_suffix(".sha256").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def load_latest(folder: Path, cell_id: str) -> Checkpoint | None:
    """Return the newest undamaged checkpoint, or None; a damaged one is named in a warning.

    Raises:
        StoreError: it is another cell's.
    """
    paths = sorted({file.with_suffix(".safetensors") for file in folder.glob("step-*")}, reverse=True)
    return next((found for path in paths if (found := _load(path, cell_id))), None)


def _load(path: Path, cell_id: str) -> Checkpoint | None:
    problem = _damage(path)
    if problem is not None:
        log.warning("checkpoint %s is damaged (%s); trying without it", path.name, problem)
        return None
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a mapping)
        check_cell(json.loads(file.metadata().get("owner", "{}")).get("cell"), path, cell_id)
        log.info("resuming from checkpoint %s", path.name)
        return Checkpoint(tensors, json.loads(file.metadata()["state"]))


def _damage(path: Path) -> str | None:
    try:
        if file_sha256(path) != path.with_suffix(".sha256").read_text(errors="replace"):
            return "its sha256 differs from the recorded one"
        with safe_open(path, "pt"):
            return None
    except (OSError, SafetensorError) as error:
        return str(error)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints in a folder, in the order of their steps: files with the names that `save_checkpoint` gives."""
    return sorted(folder.glob(f"step-{9 * '[0-9]'}.safetensors"))
