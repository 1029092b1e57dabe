"""A script that starts a run as soon as it is imported, which its child processes do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.toy_suite import toy_suite, write_suite

SCRIPT = """\
from pathlib import Path
from tread_bench.runner.options import Options
from tread_bench.services.display import Lines
from tread_bench.runner.runner import run
from tread_bench.suite.load import load_plan

suite = Path({suite!r})
run(load_plan(suite), suite.read_text(), Path({out!r}), Options(), Lines(lambda *news, **style: None))
"""


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, toy_suite(2, 1, seeds=1, pairs=0))
    script, out = tmp_path / "study.py", tmp_path / "run"
    script.write_text(SCRIPT.format(suite=str(suite), out=str(out)) + "print('after')\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "after" and done.stdout.count("after") == 1
    assert len(list(out.glob("cells/*/record.json"))) == 2
