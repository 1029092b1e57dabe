"""Records as one tidy frame: a line per cell and evaluated iteration. results.csv is this frame.

docs/methods/results-csv.md says what each column means. `rows` summarises the frame by row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from tread_bench.core.config.metrics import standard_metrics
from tread_bench.core.describe.metrics import Figure, known_figures
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import mean_interval
from tread_bench.core.stored.columns import AFTER_FIGURES, BEFORE_FIGURES, Column
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.records import CostFigures, Evaluation, Part, Record, TimingFigures, of_study, paired_seed
from tread_bench.reports import requested

_PRECISION = ("matmul_precision", "autocast")
_STEP_OPTIONS = ("compile", "gradient_checkpointing", "micro_batch")  # shown where they are used
DenseSetting = tuple[str, str, int]  # what dense steps must share: backbone, data and objective, batch


def _column(figure: Figure) -> Column:
    return Column(figure.name, figure.unit, figure.definition)


_STANDARD = [figure for metric in standard_metrics() for figure in metric.figures]
STANDARD_METRICS = [*(figure.name for figure in _STANDARD), "validation_loss"]
COLUMNS = (*BEFORE_FIGURES, *map(_column, _STANDARD), *AFTER_FIGURES)
_OF_ROW = ("backbone", "family", "method", "routes", "selector", "guidance", "guidance_scale", "schedule", "macs_of")
_COSTS = (
    "params", "forward_macs", "train_step_macs", "training_macs", "paired_seconds", "sampling_macs", "ideal_speedup",
    "speedup", "speedup_low", "speedup_high", "images_per_s", "peak_memory_mib",
)  # fmt: skip


def further_figures(records: Iterable[Record]) -> list[Figure]:
    """Return the figures of metrics that suites added, by name; of a metric that is not installed here, the name
    alone.
    """
    known = known_figures()
    measured = [evaluation.figures for record in records for evaluation in record.evaluations]
    return [known.get(name) or Figure.unknown(name) for name in sorted(set().union(*measured))]


def title_of(name: str) -> str:
    """Return what tables for people call a figure of a metric, or the validation loss."""
    return "Validation loss" if name == "validation_loss" else known_figures()[name].title


def results_frame(records: Iterable[Record], is_smoke: bool = False) -> pd.DataFrame:
    """Return one row per cell of the study and evaluated iteration, whatever the order of `records`: columns as in
    `COLUMNS`, and behind them those of metrics that suites added.

    A cell without an evaluation keeps one row, with its status and reason.
    """
    # A line for each evaluation.
    ordered = sorted(of_study(records), key=record_order)
    dense_ms = dense_steps_ms(ordered)
    lines = []
    for record in ordered:
        in_order: list[Evaluation] = sorted(record.evaluations, key=lambda evaluation: evaluation.iteration)
        for evaluation in in_order or (None,):
            lines.append({**_line(record, evaluation, dense_ms), "smoke": "yes" if is_smoke else None})

    # Their columns, with whole numbers where they are that.
    columns = [*COLUMNS, *map(_column, further_figures(ordered))]
    frame = pd.DataFrame(lines, columns=[column.name for column in columns])
    return frame.astype({column.name: "Int64" for column in columns if column.whole})


def rows_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a line per row and metric protocol: the figures of its finished cells at the last iteration of the row.

    Of each metric the mean over the seeds, and with `_low` and `_high` the ends of its 95 % t interval, which needs two
    seeds; costs and speeds are means of the cells. A row without a finished cell is left out.
    """
    done = frame[frame.status == "done"]
    metrics = metrics_of(frame)
    of_metrics = [f"{name}{end}" for name in metrics for end in ("", "_low", "_high")]
    lines = []
    for (suite, row, protocol), cells in done.groupby(["suite", "row", "protocol"], sort=False, dropna=False):
        iterations = cells.iteration.fillna(0)  # of a row that was only timed
        last = cells[iterations == iterations.max()]
        line = {"suite": suite, "row": row, "protocol": protocol, "iteration": last.iteration.iloc[0]}
        line |= {name: last[name].iloc[0] for name in _OF_ROW} | {"seeds": len(last)}
        for name in metrics:
            values = [value for value in last[name].astype("float64") if math.isfinite(value)]
            if values:
                estimate = mean_interval(values)
                low, high = estimate.bounds or (math.nan, math.nan)
                line |= {name: estimate.mean, f"{name}_low": low, f"{name}_high": high}
        lines.append(line | {name: last[name].mean() for name in _COSTS})
    about = ["suite", "row", "protocol", "iteration", *_OF_ROW, "seeds"]
    return pd.DataFrame(lines, columns=[*about, *of_metrics, *_COSTS])


def metrics_of(frame: pd.DataFrame) -> list[str]:
    """Return the columns that are figures of metrics, the standard ones first, then those that suites added."""
    known = {column.name for column in COLUMNS}
    further = [name for name in frame.columns if name not in known]
    return [*STANDARD_METRICS, *further]


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write UTF-8, shortest exact floats, no formulas, empty where nothing applies; atomically."""
    texts = frame.select_dtypes(exclude="number").columns
    harmless = frame.assign(**{name: frame[name].map(inert) for name in texts})
    write_atomically(path, harmless.to_csv(index=False, lineterminator="\n").encode("utf-8", "replace"))


def _line(record: Record, evaluation: Evaluation | None, dense_ms: Mapping[DenseSetting, float]) -> dict[str, Any]:
    # How it was computed; options that were not used are left out.
    conditions = record.conditions.model_dump(mode="json")
    precision = {name: conditions[name] for name in _PRECISION if name in conditions}
    precision |= {name: conditions[name] for name in _STEP_OPTIONS if conditions.get(name)}

    # All that is known of it: columns leave out the rest.
    line = {
        **_fields(record),
        **_fields(evaluation),
        **(evaluation.figures if evaluation else {}),
        **_cost(record.cost, record.routes),
        "ideal_speedup": record.ideal_speedup,
        **_fields(record.timing),
        **_cost_columns(record, evaluation, dense_ms),
        "images_per_s": images_per_s(record, dense_ms),
        "dense_step_ms": dense_step_ms(record, dense_ms),
        "paired_seed": paired_seed(record),
        "training_iterations": requested.iterations(record),
        "data": requested.data(record),
        "objective": requested.objective(record),
        "guidance": requested.rule(record) or "none",
        "checkpoint": requested.checkpoint(record) if requested.is_evaluated_only(record) else None,
        "guidance_scale": requested.guidance_scale(record),
        "auxiliary": requested.auxiliary(record),
        "schedule": requested.scheduled(record),
        "precision_mode": flat(precision),
        "kernels": flat(conditions.get("kernels")),
        "threads": record.conditions.threads,
        "device": flat(record.conditions.device),
        **_settings(record),
    }
    return {name: storable(value) for name, value in line.items()}


def _settings(record: Record) -> dict[str, Any]:
    """What was requested of a cell, each setting alone, for a reader that groups and filters by them."""
    # Training.
    tuning = record.tuning
    found = {
        "batch": requested.training(record, "batch"),
        "optimizer": requested.optimizer(record),
        "learning_rate": requested.training(record, "learning_rate"),
        "decay": requested.decay(record) or None,
        "lora_rank": (requested.training(record, "lora") or {}).get("rank"),
        "start": requested.start(record) or None,
        "recovered_at": recovered_at(record),
    }
    if tuning and tuning.best:
        found["tuned"] = f"{'best' if tuning.best.is_bracketed else 'edge'} of {len(tuning.candidates)}"

    # Routes.
    routes = parse_routes(record.routes)
    found["num_routes"] = len(routes)
    if routes:
        found |= {"route_start": int(routes[0].start), "route_end": int(routes[0].end), "route_rate": routes[0].rate}

    # Sampling, and what computed all this.
    return found | {
        "guidance_rule": requested.guidance(record)["name"],
        "sampler": requested.sampling(record, "sampler"),
        "sampling_steps": requested.sampling(record, "steps"),
        "hardware": record.conditions.device_name,
    }


def storable(value: object) -> object:
    """The value; of a text what survives a UTF-8 file of lines."""
    return value.encode("utf-8", "replace").decode().replace("\r", " ") if isinstance(value, str) else value


def inert(value: object) -> object:
    """The value; a text that a spreadsheet would compute has an apostrophe in front (CWE-1236)."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t"))
    return f"'{value}" if is_formula else value


def _fields(part: Record | Evaluation | TimingFigures | CostFigures | None) -> dict[str, Any]:
    """The figures of a part that a column has the name of."""
    return {name: getattr(part, name) for name in _names_of(type(part))} if part else {}


@cache
def _names_of(part: type[Part]) -> list[str]:
    """The columns that are called as a field or property of such parts."""
    return [column.name for column in COLUMNS if column.name in part.model_fields or hasattr(part, column.name)]


def _cost(cost: CostFigures | None, routes: str) -> dict[str, Any]:
    if cost is None:
        return {}
    kept = [str(cost.tokens_per_block[int(route.start)]) for route in parse_routes(routes)]
    gmacs = cost.forward_macs / 1e9
    return {**_fields(cost), "tokens_kept": ",".join(kept), "gmacs": gmacs, "gflops": 2 * gmacs}


def flat(value: object) -> str:
    """Return a condition in one cell of a table: mappings as name=value, sorted by name."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={flat(value[name])}" for name in sorted(value, key=str))
    if isinstance(value, list | tuple):
        return ", ".join(flat(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def record_order(record: Record) -> tuple[Any, ...]:
    """Architecture and data first; the reference, rows by the place of their routes, controls; guidance by scale; then
    row, seed and cell.
    """
    routes = [(route.start, route.end, route.rate) for route in parse_routes(record.routes)]
    guidance = (requested.rule(record), requested.guidance_scale(record))
    part = 1
    if requested.is_plainly_dense(record):
        part = 0
    elif requested.stands_beside_routes(record):
        part = 2
    place = (part, routes, *guidance, record.row)
    return record.backbone, data_of(record), *place, record.suite, record.seed, record.cell


def data_of(record: Record) -> str:
    return json.dumps(record.config.get("data", {}), sort_keys=True)


def recovered_at(record: Record) -> int | None:
    """Return the first evaluated iteration from which on the validation loss is not above that of iteration 0.

    0: it never was above. None: it is still above at the end, or there was no evaluation at iteration 0.
    """
    points = sorted(record.evaluations, key=lambda evaluation: evaluation.iteration)
    if len(points) < 2 or points[0].iteration:
        return None
    first, *later = points
    above = [one.iteration for one in later if one.validation_loss > first.validation_loss]
    if not above:
        return 0
    return next((one.iteration for one in later if one.iteration > above[-1]), None)


# Step times that follow from pairs. Rows are timed one after another, each in turn with a dense network, so their own
# times were not measured under the same load. The dense step of the whole run over a row's speed-up is comparable.


def dense_steps_ms(records: Iterable[Record]) -> dict[DenseSetting, float]:
    """Return the median dense step in ms by setting, over all that were timed; seeds that share a measurement count
    once.
    """
    measurements: dict[DenseSetting, set[tuple[float, ...]]] = {}
    for record in records:
        if record.timing:
            dense_ms = tuple(record.timing.reference_step_times_ms)
            measurements.setdefault(_setting(record, record.timing), set()).add(dense_ms)
    return {setting: median(chain.from_iterable(found)) for setting, found in measurements.items()}


def dense_step_ms(record: Record, dense_ms: Mapping[DenseSetting, float]) -> float | None:
    """Return the dense step of the setting that the record was timed in; None where it was not timed."""
    return dense_ms[_setting(record, record.timing)] if record.timing else None


def images_per_s(record: Record, dense_ms: Mapping[DenseSetting, float]) -> float | None:
    """Return the dense rate of the run times the record's paired speed-up; the dense rate itself for a dense record."""
    step_ms = dense_step_ms(record, dense_ms)
    if record.timing is None or step_ms is None:
        return None
    speedup = 1.0 if requested.is_plainly_dense(record) else record.timing.speedup
    return record.timing.batch / step_ms * 1e3 * speedup


def _setting(record: Record, timing: TimingFigures) -> DenseSetting:
    config = [record.config.get(part) for part in ("data", "objective")]
    return timing.reference_backbone or record.backbone, json.dumps(config, sort_keys=True), timing.batch


def _cost_columns(
    record: Record, evaluation: Evaluation | None, dense_ms: Mapping[DenseSetting, float]
) -> dict[str, Any]:
    """Return what results.csv says of the cost of a training up to an evaluation."""
    columns: dict[str, Any] = {"macs_of": requested.macs_of(record) or None}
    if evaluation is None:
        return columns
    rate = images_per_s(record, dense_ms)
    is_one_step = not (record.routes and requested.scheduled(record)) and not requested.is_evaluated_only(record)
    if rate and record.timing and is_one_step:
        wait_ms = (record.timing.loop_time_ms or 0.0) * (record.timing.data_wait_share or 0.0)
        columns["paired_seconds"] = (record.timing.batch / rate + wait_ms / 1e3) * evaluation.iteration
    if record.equal_time:
        columns |= {f"equal_time_{key}": value for key, value in record.equal_time.model_dump().items()}
        columns["fid_at_equal_time"] = record.at_equal_time and record.at_equal_time.fid
    return columns
