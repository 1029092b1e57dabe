"""From records to tables: the tidy frame behind results.csv, one line per cell and evaluated iteration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tread_bench.core.files import write_atomically
from tread_bench.core.records import CostFigures, Evaluation, Record, TimingFigures
from tread_bench.core.routes import parse_routes
from tread_bench.reports import requested
from tread_bench.reports.columns import columns_of
from tread_bench.reports.comparison import comparison, record_order
from tread_bench.reports.rates import Setting, dense_steps_ms, images_per_s

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["comparison", "results_frame", "write_csv"]

_TIMING = (
    *("step_time_ms", "speedup", "speedup_low", "speedup_high", "peak_memory_mib", "memory_kind"),
    *("loop_time_ms", "data_wait_share"),
)
_COST = (
    *("params", "forward_macs", "train_step_macs", "ideal_speedup", "attention_macs", "scan_macs"),
    *("method_params", "auxiliary_params", "mean_train_step_macs", "judged_forward_macs"),
)
_EVALUATION = (
    *("iteration", "train_seconds", "validation_loss", "fid", "sfid", "kid", "inception_score"),
    *("precision", "recall", "num_samples", "protocol"),
)
_PRECISION = ("matmul_precision", "autocast")
_STEP_OPTIONS = ("compile", "gradient_checkpointing", "micro_batch")  # shown where they are used
_RECORD = (
    *("cell", "suite", "backbone", "family", "method", "routes", "rate", "selector"),
    *("seed", "status", "reason", "row", "reference", "sampling_macs", "skipped_steps", "data_wait_seconds"),
)


def results_frame(records: Iterable[Record], is_smoke: bool = False) -> pd.DataFrame:
    """One row per cell and evaluated iteration, columns as in `columns_of`; the order of `records` does not matter.

    A cell without an evaluation keeps one row, with its status and reason.
    """
    import pandas as pd

    # A line for each evaluation.
    ordered = sorted(records, key=record_order)
    dense_ms = dense_steps_ms(ordered)
    lines = []
    for record in ordered:
        in_order: list[Evaluation] = sorted(record.evaluations, key=lambda evaluation: evaluation.iteration)
        for evaluation in in_order or (None,):
            lines.append({**_line(record, evaluation, dense_ms), "smoke": "yes" if is_smoke else None})

    # Their columns, with whole numbers where they are that.
    columns = columns_of(ordered)
    frame = pd.DataFrame(lines, columns=[column.name for column in columns])
    return frame.astype({column.name: "Int64" for column in columns if column.whole})


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write UTF-8, shortest exact floats, empty where nothing applies; atomically."""
    write_atomically(path, frame.to_csv(index=False, lineterminator="\n").encode("utf-8", "replace"))


def _line(record: Record, evaluation: Evaluation | None, dense_ms: Mapping[Setting, float]) -> dict[str, Any]:
    conditions = record.conditions.model_dump(mode="json")
    line = {
        **_fields(record, _RECORD),
        **_fields(evaluation, _EVALUATION),
        **(evaluation.figures if evaluation else {}),
        **({} if evaluation else {"train_seconds": record.train_seconds}),
        **_cost(record.cost, record.routes),
        **_fields(record.timing, _TIMING),
        "images_per_s": images_per_s(record, dense_ms),
        "data": requested.data(record),
        "objective": requested.objective(record),
        "guidance": requested.rule(record) or "none",
        "checkpoint": requested.checkpoint(record) if requested.is_evaluated_only(record) else None,
        "guidance_scale": requested.guidance_scale(record),
        "auxiliary": requested.auxiliary(record),
        "schedule": requested.scheduled(record),
        "precision_mode": flat(_precision(conditions)),
        "kernels": flat(conditions.get("kernels")),
        "threads": record.conditions.threads,
        "device": flat(record.conditions.device),
    }
    return {name: _inert(value) for name, value in line.items()}


def _inert(value: object) -> object:
    """The value; a text that a spreadsheet would compute has an apostrophe in front (CWE-1236)."""
    if not isinstance(value, str):
        return value
    text = value.encode("utf-8", "replace").decode().replace("\r", " ")  # neither survives a UTF-8 file of lines
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


def _precision(conditions: Mapping[str, Any]) -> dict[str, Any]:
    used = {name: conditions[name] for name in _STEP_OPTIONS if conditions.get(name)}
    return {name: conditions[name] for name in _PRECISION if name in conditions} | used


def _fields(part: Record | Evaluation | TimingFigures | CostFigures | None, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names} if part else {}


def _cost(cost: CostFigures | None, routes: str) -> dict[str, Any]:
    if cost is None:
        return {}
    kept = [str(cost.tokens_per_block[int(route.start)]) for route in parse_routes(routes)]
    gmacs = cost.forward_macs / 1e9
    return {**_fields(cost, _COST), "tokens_kept": ",".join(kept), "gmacs": gmacs, "gflops": 2 * gmacs}


def flat(value: object) -> str:
    """A condition in one cell of a table: mappings as name=value, sorted by name."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={flat(value[name])}" for name in sorted(value, key=str))
    if isinstance(value, list | tuple):
        return ", ".join(flat(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
