"""Run folders of a study that is run night after night, with known noise and known changes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

from synthetic_records import NUMERICS, STUDY, VERSIONS, record

from tread_bench.core.stored.conditions import Conditions
from tread_bench.core.stored.records import Record

FIRST_NIGHT = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
SPEED_NOISE, FID_NOISE = 0.01, 0.008
Change = Callable[[Record], Record]


def commit_of(night: int) -> str:
    return sha1(str(night).encode()).hexdigest()


def scaled(record: Record, step_time: float = 1.0, fid: float = 1.0, memory: float = 1.0) -> Record:
    """The record with figures times those factors."""
    timing = record.timing.model_copy(
        update={
            "step_time_ms": record.timing.step_time_ms * step_time,
            "peak_memory_mib": record.timing.peak_memory_mib * memory,
        }
    )
    evaluations = [e.model_copy(update={"fid": e.fid * fid}) for e in record.evaluations]
    return record.model_copy(update={"timing": timing, "evaluations": evaluations})


def night(index: int, rows: int = len(STUDY), seeds: int = 2, change: Change = lambda r: r) -> list[Record]:
    """The records of one night: a probe that follows the machine's speed, noise on every figure, then `change`."""
    rng = random.Random(f"night {index}")
    records = []
    for k in range(rows):
        row, (routes, fid, speedup) = list(STUDY.items())[k % len(STUDY)]
        name = row if k < len(STUDY) else f"{row} again {k // len(STUDY)}"
        time, machine = rng.lognormvariate(0, SPEED_NOISE), 1 + 0.2 * rng.random()
        for seed in range(seeds):
            one = record(name, routes, seed, fid, speedup)
            noisy = scaled(one, time * machine, rng.lognormvariate(0, FID_NOISE), rng.lognormvariate(0, 0.002))
            probed = noisy.timing.model_copy(update={"probe_ms": 9.0 * machine})
            records.append(change(noisy.model_copy(update={"timing": probed})))
    return records


def write_run(folder: Path, index: int, records: list[Record], plan: Mapping[str, Any] | None = None) -> Path:
    """A run folder as that night's run leaves it."""
    began = FIRST_NIGHT + timedelta(days=index)
    commit = {"commit": commit_of(index), "committed": (began - timedelta(hours=9)).isoformat(), "changed": False}
    about = {
        "schema_version": 2,
        "suite": {"name": "nightly", "description": ""},
        "timing": {"pairs": 20, "warmup": 3},
        "cells": [one.cell for one in records],
        "references": {one.cell: one.reference for one in records},
        "rows": {one.cell: (one.row, one.seed) for one in records},
        "started": began.isoformat(),
        "git": commit,
        "numerics": {**NUMERICS, "device_name": "Example GPU"},
        "versions": VERSIONS,
    } | dict(plan or {})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(about))
    conditions = Conditions.model_validate({**about["numerics"], "versions": about["versions"]})
    for one in records:
        path = folder / "cells" / one.cell / "record.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one.model_copy(update={"conditions": conditions}).model_dump_json())
    return folder


def write_history(
    root: Path, nights: int, change: Callable[[int], Change] = lambda k: lambda r: r, **kind: int
) -> list[Path]:
    """`nights` runs; `change(night)` says what is done to that night's records."""
    return [write_run(root / f"night-{k:02d}", k, night(k, change=change(k), **kind)) for k in range(nights)]


def two_changes(k: int) -> Change:
    """From night 12 the dense row's FID is 7 % lower, from night 20 a step of row 2:8 takes 8 % longer."""

    def changed(record: Record) -> Record:
        if record.row == "dense" and k >= 12:
            return scaled(record, fid=0.93)
        return scaled(record, step_time=1.08) if record.row == "2:8" and k >= 20 else record

    return changed


def plan_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "plan.json").read_text())
