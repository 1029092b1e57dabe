"""Run folders of synthetic records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

from synthetic_records import NUMERICS, VERSIONS

from tread_bench.core.stored.conditions import Conditions
from tread_bench.core.stored.records import Record

FIRST_NIGHT = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def write_run(folder: Path, night: int, records: list[Record], plan: Mapping[str, Any] | None = None) -> Path:
    """A run folder as that night's run leaves it."""
    began = FIRST_NIGHT + timedelta(days=night)
    commit = {
        "commit": sha1(str(night).encode()).hexdigest(),
        "committed": (began - timedelta(hours=9)).isoformat(),
        "changed": False,
    }
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
