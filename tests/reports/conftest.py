"""The rendered report of a synthetic study, to look at."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tread_bench.core.stored.records import Record
from tread_bench.reports.figures.pictures import pictures

sys.path.insert(0, str(Path(__file__).parent))  # torch-fidelity installs a package called `tests`

from synthetic_records import NUMERICS, VERSIONS, render, study, write_samples
from synthetic_studies import STUDIES, drawn


@pytest.fixture(scope="session")
def records() -> list[Record]:
    return study()


@pytest.fixture(scope="session")
def plan() -> dict[str, Any]:
    return {
        "suite": {"name": "route_placement", "description": "Where to route: dense training against six placements."},
        "timing": {"pairs": 20, "warmup": 3},
        "cells": [*(record.cell for record in study()), "tread-0-10-5"],
        "git": {"commit": "0123abc", "changed": False},
        "hardware": {"cpus": 2, "memory_mib": 16000},
        "numerics": {**NUMERICS, "device_name": "Example CPU <b>"},
        "versions": VERSIONS,
    }


@pytest.fixture(scope="session")
def run_dir(records: list[Record], plan: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the rendered report of the study."""
    folder = tmp_path_factory.mktemp("run")
    write_samples(records, folder)
    render(records, plan, folder, pictures=pictures)
    return folder


@pytest.fixture(scope="session")
def study_page(plan: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a study, with the pictures that other tests look at."""

    @cache
    def write(name: str) -> Path:
        folder, records = tmp_path_factory.mktemp(name), STUDIES[name]()
        made = iter([[*drawn(name).values()]])  # all rows of a study stand side by side: this is used once
        render(records, {**plan, "cells": [r.cell for r in records]}, folder, pictures=lambda *_: next(made))
        return folder / "index.html"

    return write


@pytest.fixture
def page_of(plan: dict[str, Any], tmp_path: Path) -> Callable[..., str]:
    """The page of these records as text, without pictures unless they are given; `about` replaces parts of its plan."""

    def rendered(records: list[Record], unreadable: Any = None, drawn: Any = lambda *_: [], **about: Any) -> str:
        cells = [one.cell for one in records]
        return render(records, {**plan, "cells": cells, **about}, tmp_path, unreadable, pictures=drawn)

    return rendered
