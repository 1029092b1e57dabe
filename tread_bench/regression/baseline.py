"""A baseline: the reviewed figures of one run, as a JSON file that people read in a diff."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveFloat, model_validator

from tread_bench.core.errors import UserError
from tread_bench.core.stored.conditions import by_file_name, decisive_to_the_bit
from tread_bench.core.stored.files import read_document, write_json
from tread_bench.core.stored.records import GpuConditions, Record

_EXACT_COSTS = ("params", "trainable_params", "tokens_per_block", "block_macs", "forward_macs", "train_step_macs")
QUALITY = ("validation_loss", "fid")
MARGIN = 0.03  # of quality, where a baseline does not state another
_WAY_OUT = "restore it from version control, or `--accept` a run into another file"


class _Frozen(BaseModel):
    """Frozen; unknown keys and numbers that are not finite are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Speed(_Frozen):
    """Step times of a row beside those of its dense twin, pair by pair, and of a probe of fixed work beside them."""

    step_times_ms: list[PositiveFloat] = Field(min_length=1)
    reference_step_times_ms: list[PositiveFloat]
    probe_ms: PositiveFloat | None = None
    gpu_before: GpuConditions | None = None
    gpu_after: GpuConditions | None = None

    @model_validator(mode="after")
    def _are_pairs(self) -> Speed:
        if len(self.step_times_ms) != len(self.reference_step_times_ms):
            raise ValueError("step times come in pairs")
        return self


class CellFigures(_Frozen):
    """One cell of a baseline. `exact` contains what must not differ at all."""

    exact: dict[str, JsonValue]
    conditions: dict[str, JsonValue]
    speed: Speed | None = None
    peak_memory_mib: float | None = None
    memory_kind: str | None = None
    quality: dict[str, float] = Field(default_factory=dict)
    final_weights_sha256: str = ""

    @classmethod
    def of(cls, record: Record) -> CellFigures:
        """Return the figures of a finished cell."""
        cost, timing, last = record.cost, record.timing, record.last
        exact = {name: getattr(cost, name) for name in _EXACT_COSTS} if cost else {}
        exact |= {"initial_weights_sha256": record.initial_weights_sha256, "config": by_file_name(record.config)}
        quality = {name: last.figure(name) for name in (*QUALITY, *last.figures)} if last else {}
        return cls(
            exact=exact,
            conditions=decisive_to_the_bit(record.conditions),
            speed=timing and Speed.model_validate(timing.model_dump(include=set(Speed.model_fields))),
            peak_memory_mib=timing and timing.peak_memory_mib,
            memory_kind=timing and timing.memory_kind,
            quality={name: value for name, value in quality.items() if value is not None},
            final_weights_sha256=record.final_weights_sha256,
        )


class Baseline(_Frozen):
    """Cells by "row seed"; `margins` are how much worse a metric may become, as a share of the accepted mean."""

    schema_version: Literal[1] = 1
    suite: str
    margins: dict[str, float] = Field(default_factory=lambda: dict.fromkeys(QUALITY, MARGIN))
    cells: dict[str, CellFigures] = Field(min_length=1)


def figures_of(records: Sequence[Record]) -> dict[str, CellFigures]:
    """Return the figures of all finished cells, sorted by row and seed: a diff shows what changed."""
    cells = {f"{r.row} seed {r.seed}": CellFigures.of(r) for r in records if r.status == "done"}
    return dict(sorted(cells.items()))


def read_baseline(path: Path) -> Baseline:
    """Raises UserError where there is none, or this version cannot read it."""
    baseline = read_document(path, Baseline, _WAY_OUT)
    if baseline is None:
        way_out = f"`tread-bench ci check RUN_DIR --baseline {path} --accept` writes one"
        raise UserError(f"no such baseline: {path}; {way_out}")
    return baseline


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write the complete file, and its folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, baseline.model_dump(mode="json"))
