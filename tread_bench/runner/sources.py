"""What others read of a run: its folder, or the file that was exported from it; and several runs as one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tread_bench.core.errors import UserError
from tread_bench.core.stored.conditions import by_file_name
from tread_bench.core.stored.documents import RunPlan, SuiteAbout
from tread_bench.core.stored.records import Record
from tread_bench.runner.export import read_export
from tread_bench.runner.folder import RunFolder

# Where a cell's configuration names a row.
_ROW_NAMES = (
    ("training", "budget", "macs_of"),
    ("training", "start", "row"),
    ("evaluate", "row"),
    ("sampling", "guidance", "row"),
)


class Source(NamedTuple):
    """The plan and the records of a run; `unreadable` says of each other cell why its record cannot be read."""

    path: Path
    plan: RunPlan
    records: Sequence[Record]
    unreadable: Mapping[str, str]


def read_run(path: Path) -> Source:
    """Read a run folder or an export. Raises UserError where it is neither, or where its plan cannot be read."""
    if path.is_file():
        export = read_export(path)
        return Source(path, export.plan, export.records, {})
    folder = RunFolder(path)
    plan = folder.existing_plan()
    records, unreadable = folder.readable_records(plan.references)
    return Source(path, plan, records, unreadable)


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
    runs = [read_run(path) for path in paths]
    about = SuiteAbout(
        name=" and ".join(names), description=f"Rows of {len(runs)} runs. The conditions are those of {names[0]}."
    )

    # What is named in each run, by its new name.
    cells: list[str] = []
    references: dict[str, str] = {}
    rows: dict[str, tuple[str, int]] = {}
    records: list[Record] = []
    unreadable: dict[str, str] = {}
    for run, name in zip(runs, names, strict=True):
        named = partial(_named, name)
        cells += map(named, run.plan.cells)
        references |= {named(cell): named(other) for cell, other in run.plan.references.items()}
        rows |= {named(cell): (named(row), seed) for cell, (row, seed) in run.plan.rows.items()}
        unreadable |= {named(cell): why for cell, why in run.unreadable.items()}
        for record in run.records:
            changed = {key: named(getattr(record, key)) for key in ("cell", "row", "reference")}
            records.append(record.model_copy(update={**changed, "config": _config(record, name)}))
    changes = {
        "suite": about,
        "smoke": any(run.plan.smoke for run in runs),
        "cells": cells,
        "references": references,
        "rows": rows,
        "equal_time": {},
        "tuning": {},
        "pending": sum(run.plan.pending for run in runs),
        "registered": None,
    }
    return Source(Path(about.name), runs[0].plan.model_copy(update=changes), records, unreadable)


def _named(run: str, text: str) -> str:
    return f"{run}/{text}" if text else ""


def _names(places: Sequence[Path]) -> list[str]:
    parts = [place.with_suffix("").parts if place.is_file() else place.parts for place in places]
    deepest = max(map(len, parts))
    for depth in range(1, deepest + 1):
        names = ["/".join(one[-depth:]) for one in parts]
        if max(Counter(names).values()) == 1:
            break
    return names


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
