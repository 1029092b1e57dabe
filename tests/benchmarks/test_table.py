"""`python -m benchmarks`: which rows, where results go, and what they look like."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from benchmarks import __main__ as command
from benchmarks.figure import Figure
from benchmarks.processes import measured_apart, register_rows
from benchmarks.row import ROWS, Row, SkippedError
from benchmarks.table import PAGE, Document, measured
from benchmarks.timing import Bench
from benchmarks.yardstick import PRECISIONS, Product


@pytest.fixture
def rows(monkeypatch):
    """Three rows in place of those that take minutes, and a yardstick that takes no time."""

    def fails(bench):
        raise RuntimeError("it broke\nhere")

    def skips(bench):
        raise SkippedError("not installed: pip install peer")

    found = {
        "x/good": Row("x/good", "one | two", lambda bench: Figure(2, 1.9, 2.1), required=1.5, aim=3),
        "x/bad": Row("x/bad", "what fails", fails, required=1),
        "x/skipped": Row("x/skipped", "what is not here", skips),
    }
    monkeypatch.setattr("benchmarks.row.ROWS", found)
    monkeypatch.setattr("benchmarks.processes.SUBJECTS", ())
    monkeypatch.setattr("benchmarks.processes.measured_apart", measured)
    product = {precision: Product(precision, (1, 1, 1), 100.0) for precision in PRECISIONS}
    monkeypatch.setattr("benchmarks.yardstick.fastest_products", lambda clock: product)
    return found


def test_the_rows_are_listed_with_their_claims(capsys):
    assert command.main(["--list", "--only", "dit-tiny/step", "scan/*"]) == 0
    listed = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert sorted(listed) == ["dit-tiny/step", "scan/numba", "scan/torch"]
    assert listed == {name: ROWS[name].claim for name in listed}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "x/goood"], "--only: unknown row 'x/goood'; did you mean 'x/good'?"),
        (["--threads", "0"], "--threads 0: this machine has 1 to "),
        (["--json", "notes.json"], "notes.json exists"),
        (["--json", "table.json", "--markdown", "notes.json"], "notes.json has no place for the table"),
    ],
)
def test_a_mistake_is_one_message_before_anything_is_measured(rows, arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.json").write_text('{"mine": 1}')
    assert command.main(arguments) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1
    assert [path.read_text() for path in tmp_path.iterdir()] == ['{"mine": 1}']


def test_a_row_that_fails_keeps_its_place_and_ends_with_status_1(rows, tmp_path, capsys):
    path = tmp_path / "table.json"
    assert command.main(["--json", str(path)]) == 1
    document = Document.model_validate_json(path.read_text())
    assert [one.status for one in document.results] == ["done", "failed", "skipped"]
    assert document.results[2].reason == "not installed: pip install peer"
    printed = capsys.readouterr().out
    assert "≥ 1.5: reached" in printed and "≥ 3: not reached" in printed and "RuntimeError: here" in printed
    assert command.main(["--json", str(path), "--only", "x/good", "x/skipped", "--overwrite"]) == 0


def test_a_page_gets_the_table_between_its_marks_and_nothing_else_changes(rows, tmp_path):
    page, results = tmp_path / "page.md", str(tmp_path / "table.json")
    page.write_text(f"before\n{PAGE.begin}\nold\n{PAGE.end}\nafter \\1\n")
    for _ in range(2):
        command.main(["--json", results, "--markdown", str(page), "--overwrite"])
        before, _, rest = page.read_text().partition(PAGE.begin)
        table, _, after = rest.partition(PAGE.end)
        assert (before, after) == ("before\n", "\nafter \\1\n")
        assert "old" not in table and table.count("x/good") == 1
    assert "| x/good | 2 × | 1.9 – 2.1 | ≥ 1.5: reached | ≥ 3: not reached |" in table


def dies(name, bench):
    os._exit(1)


def test_a_row_whose_process_dies_has_failed(monkeypatch):
    """It is not forked: the server that rows are forked from would stay, and tests of runs would get it."""
    monkeypatch.setattr("benchmarks.processes._forked", multiprocessing.get_context("spawn"))
    register_rows()
    monkeypatch.setattr("benchmarks.processes._measured_by_name", dies)
    result = measured_apart(ROWS["harness/help"], Bench())
    assert (result.name, result.status, result.reason) == ("harness/help", "failed", "its process died")
