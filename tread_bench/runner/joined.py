"""Several runs as one, for the page that shows them together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tread_bench.core.errors import UserError
from tread_bench.core.stored.conditions import by_file_name
from tread_bench.core.stored.documents import RunPlan, SuiteAbout
from tread_bench.core.stored.records import Record
from tread_bench.runner.sources import Source, read_run

# Where a cell's configuration names a row.
_ROW_NAMES = (
    ("training", "budget", "macs_of"),
    ("training", "start", "row"),
    ("evaluate", "row"),
    ("sampling", "guidance", "row"),
)


def read_joined(paths: Sequence[Path]) -> Source:
    """Return the plan and the records of several runs, the names of whose rows and cells begin with that of their run.

    A run is called as its folder or file, with as many folders above it as tell all apart. Files of data are named
    without their folders, by which rows of two machines would differ. The conditions are those of the first run.

    Raises:
        UserError: a run is given twice, or cannot be read.
    """
    places = [os.path.realpath(path) for path in paths]
    if len(set(places)) < len(places):
        raise UserError(f"{', '.join(map(str, paths))}: a run is given twice; give each run once")
    names = _names([Path(place) for place in places])
    runs = [_renamed(read_run(path), name) for path, name in zip(paths, names, strict=True)]
    plans = [run.plan for run in runs]
    about = SuiteAbout(
        name=" and ".join(names), description=f"Rows of {len(runs)} runs. The conditions are those of {names[0]}."
    )
    plan = plans[0].model_copy(
        update={
            "suite": about,
            "smoke": any(plan.smoke for plan in plans),
            "cells": [*chain.from_iterable(plan.cells for plan in plans)],
            "references": {cell: other for plan in plans for cell, other in plan.references.items()},
            "rows": {cell: row for plan in plans for cell, row in plan.rows.items()},
            "equal_time": {},
            "tuning": {},
            "pending": sum(plan.pending for plan in plans),
            "registered": None,
        }
    )
    records = [*chain.from_iterable(run.records for run in runs)]
    unreadable = {cell: reason for run in runs for cell, reason in run.unreadable.items()}
    return Source(Path(about.name), plan, records, unreadable)


def _names(places: Sequence[Path]) -> list[str]:
    parts = [place.with_suffix("").parts if place.is_file() else place.parts for place in places]
    deepest = max(map(len, parts))
    for depth in range(1, deepest + 1):
        names = ["/".join(one[-depth:]) for one in parts]
        if max(Counter(names).values()) == 1:
            break
    return names


def _renamed(source: Source, run: str) -> Source:
    plan = source.plan

    def named(text: str) -> str:
        return f"{run}/{text}" if text else ""

    renamed = RunPlan.model_copy(
        plan,
        update={
            "cells": [named(cell) for cell in plan.cells],
            "references": {named(cell): named(other) for cell, other in plan.references.items()},
            "rows": {named(cell): (named(row), seed) for cell, (row, seed) in plan.rows.items()},
        },
    )
    records = []
    for record in source.records:
        changed = {name: named(getattr(record, name)) for name in ("cell", "row", "reference")}
        records.append(record.model_copy(update={**changed, "config": _config(record, run)}))
    return Source(source.path, renamed, records, {named(cell): why for cell, why in source.unreadable.items()})


def _config(record: Record, run: str) -> dict[str, Any]:
    """The configuration of a cell, with the names of rows as they are in the joined run."""
    config: dict[str, Any] = by_file_name(record.config)
    for *sections, key in _ROW_NAMES:
        part: Any = config
        for section in sections:
            part = part.get(section) or {}
        if part.get(key) and not part.get("run"):
            part[key] = f"{run}/{part[key]}"
    return config
