"""What a folder of encoded latents was made from, and whether a start may go on with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from tread_bench.core.config.base import Model, is_unused
from tread_bench.core.stored.destinations import claim_folders
from tread_bench.core.stored.files import read_document, temporaries, write_json
from tread_bench.core.stored.identity import canonical_json
from tread_bench.core.stored.locks import try_lock
from tread_bench.core.stored.outputs import OutputError, open_plain, refuse_linked
from tread_bench.data.latents.manifest import Quantity

GENERATOR: Literal["tread-bench encode"] = "tread-bench encode"
DOCUMENT = "encode.json"
SPLITS = ("train", "held_out")
_LOCK = ".encode.lock"


class Images(Model):
    """The images of one split."""

    count: int
    sha256: str


class TextJob(Model):
    """What the features of captions depend on, beside the captions, which are part of the images' hash."""

    encoder: str  # its name
    encoder_sha256: str
    tokens: int
    width: int
    dtype: Literal["float32", "float16"]


class Job(Model):
    """What latents depend on; a folder holds those of one job."""

    generator: Literal["tread-bench encode"] = GENERATOR
    version: Literal[1] = 1
    data: dict[str, JsonValue]  # settings of the data source, without its files
    train: Images
    held_out: Images
    autoencoder: str  # its class
    autoencoder_sha256: str
    image: tuple[int, int, int]  # (C, S, S)
    latent: tuple[int, int, int]  # (C, H, W)
    is_mirrored: bool  # images are encoded a second time, mirrored left to right
    quantity: Quantity
    dtype: Literal["float32", "float16"]
    seed: int | None  # of the noise of samples; None: nothing is drawn
    shard_samples: int
    text: TextJob | None = Field(None, exclude_if=is_unused)  # None: the images have no captions

    @property
    def digest(self) -> str:
        """Hash of all of it, in the metadata of each shard."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json")).encode()).hexdigest()


@contextmanager
def claimed(out: Path, job: Job) -> Iterator[None]:
    """Hold the folder `out`, made if needed, for this job: no other process writes to it.

    Raises:
        OutputError: the folder holds something else, or latents of another job; or another process writes to it.
    """
    refuse_linked(out / name for name in SPLITS)
    claim_folders(GENERATOR, {"--out": out})
    with open_plain(out / _LOCK, "a+") as lock:
        try:
            try_lock(lock)
        except BlockingIOError:
            raise OutputError(f"--out {out}: another process is encoding into it; wait for it to end") from None
        _begin(out, job)
        yield


def _begin(out: Path, job: Job) -> None:
    """Write the job to a new folder; in one that was begun, remove what a killed writer left half written."""
    path = out / DOCUMENT
    way_out = "give another --out, or put back what encode wrote"
    before = read_document(path, Job, way_out)
    if before is None:
        write_json(path, job.model_dump(mode="json"))
    else:
        _check_same(before, job, out)
    for left in temporaries(out):
        left.unlink(missing_ok=True)
    for name in SPLITS:
        (out / name).mkdir(exist_ok=True)


def _check_same(before: Job, now: Job, out: Path) -> None:
    was, wanted = before.model_dump(mode="json"), now.model_dump(mode="json")
    if changed := [
        f"{key} was {_shown(was[key])} and is {_shown(wanted[key])}" for key in wanted if was[key] != wanted[key]
    ]:
        raise OutputError(
            f"--out {out} was begun otherwise ({'; '.join(changed)}), and one folder holds one encoding: give "
            "another --out, or encode what it was begun with"
        )


def _shown(value: Any) -> str:
    return canonical_json(value) if isinstance(value, dict | list) else str(value)
