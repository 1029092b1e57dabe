"""The files that a plan passes on its way through `run`, as docs/architecture.md names them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import grimp

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
    if type(value) is dict:
        value = [*value.values()]
    if type(value) in (list, tuple) and value:
        return is_of_the_plan(value[0])
    return isinstance(value, Plan | PlannedCell | WorkItem | Task)


def file_of(frame: FrameType | None) -> str:
    """The file in the package that called last, "" if none did."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            return path.relative_to(PACKAGE).as_posix()
        frame = frame.f_back
    return ""


def test_a_plan_passes_ten_files_at_most_and_one_calls_one_above_it(tmp_path, monkeypatch):
    suite = write_suite(tmp_path, SUITE)
    calls: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        if any(map(is_of_the_plan, given)):
            calls.add((file_of(frame.f_back), file_of(frame)))

    monkeypatch.setattr("tread_bench.services.run.write_report", lambda roots: None)  # records are there before
    sys.setprofile(note)
    try:
        bring_up_to_date(str(suite), [], tmp_path / "run", False, Options(device="cpu"))
    finally:
        sys.setprofile(None)

    # The same files as are documented.
    calls = {call for call in calls if not any(file.startswith(("core", "cell")) for file in call)}
    files = {file for call in calls for file in call if file}
    section = DOCUMENT.read_text(encoding="utf-8").split("**A plan's way**")[1].split("\n\n")[0]
    assert files == set(re.findall(r"`([\w/]+\.py)`", section)) and len(files) <= 10

    # A file that is imported by another stands below it.
    graph = grimp.build_graph("tread_bench", cache_dir=None)
    name = {file: f"tread_bench.{file.removesuffix('.py').replace('/', '.')}" for file in files}
    climbs = [
        (caller, called)
        for caller, called in calls
        if caller and caller != called and graph.find_shortest_chain(name[called], name[caller])
    ]
    assert climbs == [("runner/executors/tasks.py", "runner/executors/local.py")]  # a site calls its executor
