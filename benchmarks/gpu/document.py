"""The JSON document of a GPU: its machine, what ran, and the records of what was timed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from tread_bench.core.errors import UserError
from tread_bench.core.stored.documents import Export
from tread_bench.core.stored.files import StoreError, document_of, json_of, read_bytes
from tread_bench.core.stored.records import Part

GENERATOR: Literal["python -m benchmarks.gpu"] = "python -m benchmarks.gpu"
README = "README.md"  # of a folder of results
WAY_OUT = "remove it, or get the file again from whoever sent it"
Status = Literal["done", "failed", "skipped", "inconclusive"]


class Machine(Part):
    """Where, when, and with which versions; no host, no user, no path."""

    date: str
    commit: str | None
    changed: bool | None
    gpus: list[str] = Field(min_length=1)
    gpu_memory_mib: PositiveInt  # of the first
    driver: str | None  # None: NVML cannot be read
    cuda: str | None  # that torch was built for
    cpu: str
    cpus: PositiveInt
    memory_mib: PositiveInt
    system: str
    versions: dict[str, str]


class PartResult(Part):
    """What became of one part; `reason` says what it found, or why it failed or was skipped."""

    name: str
    status: Status
    reason: str = ""
    seconds: NonNegativeFloat


class SpeedRun(Part):
    """A run of rows that are only timed, each by as many processes, which share a batch."""

    processes: PositiveInt
    run: Export


class GpuDocument(Part):
    """The JSON file."""

    generator: Literal["python -m benchmarks.gpu"] = GENERATOR  # the first key, by which the file is known
    schema_version: Literal[1] = 1
    conditions: Machine
    parts: list[PartResult]
    runs: list[SpeedRun]


def read_results(folder: Path) -> list[GpuDocument]:
    """The results in a folder, by GPU and date. Raises UserError with a line for each file that is not one."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of results; give that of the files that were sent in")
    problems: list[str] = []
    found = []
    for path in sorted(path for path in folder.iterdir() if path.name != README):
        try:
            found.append(read_result(path))
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    return sorted(found, key=lambda document: (document.conditions.gpus[0], document.conditions.date))


def read_result(path: Path) -> GpuDocument:
    """One result. Raises StoreError where it cannot be read, is something else, or has another format version."""
    text = read_bytes(path, WAY_OUT)
    if text is None:
        raise StoreError(f"{path} is gone; {WAY_OUT}")
    content = json_of(text, path, WAY_OUT)
    if not isinstance(content, dict) or content.get("generator") != GENERATOR:
        raise StoreError(f"{path} is not a result of `tox -e gpu`; {WAY_OUT}")
    return document_of(text, path, GpuDocument, WAY_OUT)
