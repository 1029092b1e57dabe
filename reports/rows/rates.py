"""Step times and rates that follow from pairs.

Rows are timed one after another, each in turn with a dense network, so their own times were not measured under the same
load. The dense step of the whole run, divided by a row's speed-up, is comparable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from statistics import median

from tread_bench.core.stored.records import Record, TimingFigures
from tread_bench.reports.rows import requested

DenseSetting = tuple[str, str, int]  # what dense steps must share: backbone, data and objective, batch


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
