"""The rendered report of a synthetic study, to look at."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import cpu_seconds, tread_bench_anew
from tread_bench.core.stored.records import Record
from tread_bench.reports.figures.pictures import pictures

sys.path.insert(0, str(Path(__file__).parent))  # torch-fidelity installs a package called `tests`

from synthetic_records import NUMERICS, RENDERING_S, VERSIONS, record, render, study, write_samples
from synthetic_runs import write_run
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
def reported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], tuple[Path, float]]:
    """Folder of a run of so many rows and seeds, and the processor time in which `report` made its page."""

    def measured(folder: Path) -> float:
        before = cpu_seconds()
        assert tread_bench_anew("report", folder).returncode == 0
        return cpu_seconds() - before

    @cache
    def report(rows: int, seeds: int) -> tuple[Path, float]:
        ends = [f"{start}:{end}@{rate / 8:g}" for rate in range(1, 8) for start in range(8) for end in range(8, 12)]
        routes = ["", *ends[: rows - 1]]
        records = [
            record(f"row {routes[k]}" if k else "dense", routes[k], seed, 17 + 0.1 * k, 1 + 0.01 * k)
            for k in range(rows)
            for seed in range(seeds)
        ]
        folder = write_run(tmp_path_factory.mktemp("large") / "run", 1, records)
        seconds = measured(folder)
        return folder, seconds if seconds < RENDERING_S else min(
            seconds, measured(folder)
        )  # others are on this machine

    return report


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
