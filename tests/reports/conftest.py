"""The rendered report of a synthetic study, and a browser to open it in."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tread_bench.records import Record

sys.path.insert(0, str(Path(__file__).parent))  # torch-fidelity installs a package called `tests`

from synthetic_records import NUMERICS, VERSIONS, study, write_samples


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
    from reports.page import render

    folder = tmp_path_factory.mktemp("run")
    write_samples(records, folder)
    render(records, plan, folder)
    return folder


@pytest.fixture(scope="session")
def open_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Any]]:
    """Starts headless Chromium; skips where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no chromium with chromedriver on this machine")
    started = []

    def start() -> Any:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        profile = tmp_path_factory.mktemp("profile")
        quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
        for argument in (*quiet, "--disable-background-networking", f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        started.append(webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)))
        return started[-1]

    yield start
    for browser in started:
        browser.quit()


@pytest.fixture(scope="session")
def browser(open_browser: Callable[[], Any]) -> Any:
    return open_browser()
