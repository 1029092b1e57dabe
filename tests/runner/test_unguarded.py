"""A script that starts a run as soon as it is imported, which its own child processes do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.toy_suite import toy_suite, write_suite

SCRIPT = """\
from pathlib import Path
from tread_bench.runner.options import Options
from tread_bench.services.display import Lines
from tread_bench.runner.runner import run
from tread_bench.suite.load import load_plan

suite = Path({suite!r})
run(load_plan(suite), suite.read_text(), Path({out!r}), Options(), Lines(print))
"""


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_that(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, toy_suite(2, 1, seeds=1, pairs=0))
    script = tmp_path / "study.py"
    script.write_text(SCRIPT.format(suite=str(suite), out=str(tmp_path / "run")))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert f"{script} starts a run while it is imported" in last and 'if __name__ == "__main__":' in last
    assert "in use by another" not in done.stderr
