"""The files that a plan passes on its way through `run`, as docs/architecture.md names them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import tread_bench
from tests.runner.test_timed_only import SUITE
from tests.toy_suite import write_suite
from tread_bench.runner.executors.tasks import Task
from tread_bench.runner.items import WorkItem
from tread_bench.runner.options import Options
from tread_bench.services.run import bring_up_to_date
from tread_bench.suite.plan import Plan, PlannedCell

PACKAGE = Path(tread_bench.__file__).parent
DOCUMENT = PACKAGE.parent / "docs" / "architecture.md"


def is_of_the_plan(value: object) -> bool:
    """Whether a value is a plan, what is made of it, or several of those."""
    if isinstance(value, dict | list | tuple):
        return any(is_of_the_plan(one) for one in [*getattr(value, "values", lambda: value)()][:1])
    return isinstance(value, Plan | PlannedCell | WorkItem | Task)


def test_a_plan_passes_ten_files_at_most(tmp_path, monkeypatch):
    suite = write_suite(tmp_path, SUITE)
    files = {"services/run.py"}  # which makes it

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(is_of_the_plan(frame.f_locals.get(name)) for name in names):
                files.add(Path(code.co_filename).relative_to(PACKAGE).as_posix())

    monkeypatch.setattr("tread_bench.services.run.write_report", lambda roots: None)  # records are there before
    sys.setprofile(note)
    try:
        bring_up_to_date(str(suite), [], tmp_path / "run", False, Options(device="cpu"))
    finally:
        sys.setprofile(None)

    # The same files as are documented, which are above the records.
    files = {file for file in files if not file.startswith(("core", "cell"))}
    section = DOCUMENT.read_text(encoding="utf-8").split("**A plan's way**")[1].split("\n\n")[0]
    assert files == set(re.findall(r"`([\w/]+\.py)`", section)) and len(files) <= 10
