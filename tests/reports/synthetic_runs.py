"""Run folders of synthetic records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthetic_records import NUMERICS, VERSIONS

from tread_bench.core.stored.conditions import Conditions
from tread_bench.core.stored.records import Record


def write_run(folder: Path, records: list[Record], plan: Mapping[str, Any] | None = None) -> Path:
    """A run folder with these records; `plan` replaces parts of its plan."""
    about = {
        "schema_version": 2,
        "suite": {"name": "nightly", "description": ""},
        "timing": {"pairs": 20, "warmup": 3},
        "cells": [one.cell for one in records],
        "references": {one.cell: one.reference for one in records},
        "rows": {one.cell: (one.row, one.seed) for one in records},
        "started": "2026-03-02T02:00:00+00:00",
        "git": {"commit": "0" * 40, "committed": "2026-03-01T17:00:00+00:00", "changed": False},
        "numerics": {**NUMERICS, "device_name": "Example GPU"},
        "versions": VERSIONS,
    } | dict(plan or {})
    conditions = Conditions.model_validate({**about["numerics"], "versions": about["versions"]})
    for one in records:
        path = folder / "cells" / one.cell / "record.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one.model_copy(update={"conditions": conditions}).model_dump_json())
    (folder / "plan.json").write_text(json.dumps(about))
    return folder
