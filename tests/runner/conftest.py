"""The suite that a module writes as SUITE, and its run from beginning to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import tread_bench
from tests.toy_suite import write_suite


@pytest.fixture(scope="module")
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_suite(tmp_path_factory.mktemp("suite"), request.module.SUITE)


@pytest.fixture(scope="module")
def whole(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    done = tread_bench("run", suite, "--out", out)
    assert done.returncode == 0, done.stderr
    return out
