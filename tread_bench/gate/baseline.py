"""What a later run is held against: the reviewed figures of one run, as a JSON file that people read in a diff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tread_bench.conditions import decisive
from tread_bench.errors import UserError
from tread_bench.records import GpuConditions, Record
from tread_bench.store import read_json, write_json

_EXACT_COSTS = ("params", "trainable_params", "tokens_per_block", "block_macs", "forward_macs", "train_step_macs")
QUALITY = ("validation_loss", "fid")
MARGIN = 0.03  # of quality, where a baseline states no other


class Part(BaseModel):
    """Frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Speed(Part):
    """Step times of a row beside those of its dense twin, pair by pair, and of a probe of fixed work beside them."""

    step_times_ms: list[float]
    reference_step_times_ms: list[float]
    probe_ms: float | None = None
    gpu_before: GpuConditions | None = None
    gpu_after: GpuConditions | None = None


class CellFigures(Part):
    """One cell of a baseline. `exact` holds whatever must not differ at all."""

    exact: dict[str, Any]
    conditions: dict[str, Any]
    speed: Speed | None = None
    peak_memory_mib: float | None = None
    memory_kind: str | None = None
    quality: dict[str, float] = Field(default_factory=dict)
    final_weights_sha256: str = ""


class Baseline(Part):
    """Cells by "row seed"; `margins` are how much worse a metric may become, as a share of the accepted mean."""

    schema_version: Literal[1] = 1
    suite: str
    margins: dict[str, float] = Field(default_factory=lambda: dict.fromkeys(QUALITY, MARGIN))
    cells: dict[str, CellFigures]


def figures_of(records: Sequence[Record]) -> dict[str, CellFigures]:
    """The figures of all finished cells, by row and seed."""
    return {f"{r.row} seed {r.seed}": _cell(r) for r in records if r.status == "done"}


def _cell(record: Record) -> CellFigures:
    timing, cost, last = record.timing, record.cost, record.last
    quality = {name: getattr(last, name) for name in QUALITY} if last else {}
    return CellFigures(
        exact={
            **({name: getattr(cost, name) for name in _EXACT_COSTS} if cost else {}),
            "initial_weights_sha256": record.initial_weights_sha256,
            "config": record.config,
        },
        conditions=decisive(record.conditions),
        speed=timing and Speed.model_validate(timing.model_dump(include=set(Speed.model_fields))),
        peak_memory_mib=timing and timing.peak_memory_mib,
        memory_kind=timing and timing.memory_kind,
        quality={name: value for name, value in quality.items() if value is not None},
        final_weights_sha256=record.final_weights_sha256,
    )


def read_baseline(path: Path) -> Baseline:
    """Raises UserError where there is none, or none that this version reads."""
    content = read_json(path)
    if content is None:
        raise UserError(f"no such baseline: {path}; `tread-bench check RUN_DIR --baseline {path} --accept` writes one")
    try:
        return Baseline.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path} is no baseline: {where}: {first['msg']}; --accept writes it again") from None


def write_baseline(path: Path, suite: str, cells: Mapping[str, CellFigures], margins: Mapping[str, float]) -> None:
    """Write it whole; keys in a fixed order, so that a diff shows what changed."""
    kept = {"margins": dict(margins)} if margins else {}
    baseline = Baseline(suite=suite, cells=dict(sorted(cells.items())), **kept)
    write_json(path, baseline.model_dump(mode="json"))
