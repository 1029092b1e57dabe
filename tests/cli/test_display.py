"""Progress in a notebook."""

from __future__ import annotations

from types import SimpleNamespace

from tread_bench.services.display import OneLine, make_display


def test_in_a_notebook_progress_is_one_line_and_a_failure_keeps_its_own(capsys):
    display = make_display(SimpleNamespace(is_jupyter=True, is_terminal=False, print=print))
    assert isinstance(display, OneLine)
    display.begin("training", {"a": "dense seed 0", "b": "tread seed 0", "c": "tread seed 1"}, 2)
    for cell in ("a", "b", "c"):
        display.started(cell)
    display.ended("a")
    display.ended("b", "diverged at step 3")
    display.ended("c")
    display.end()
    lines = capsys.readouterr().err.split("\n")
    assert [line.split("\r")[-1].partition(",")[0].rstrip() for line in lines] == [
        "[2/3] tread seed 0: FAILED: diverged at step 3", "[3/3] tread seed 1", ""
    ]  # fmt: skip
    shown = lines[0].split("\r")
    assert shown[1].startswith("training: 3 to do") and len(shown[2]) >= len(shown[1])  # nothing is left of it
