"""Several runs on one page: the rows of each, with the name of their run, and the figures that they have alone."""

from __future__ import annotations

import pandas as pd
import pytest
from synthetic_records import record, study
from synthetic_runs import write_run
from synthetic_studies import STUDIES

from tests.command_line import tread_bench
from tread_bench.cli.commands.report import export_run
from tread_bench.core.stored.records import Record
from tread_bench.reports.differences import ITERATIONS
from tread_bench.reports.page import run as page
from tread_bench.reports.study import Study
from tread_bench.runner.sources import read_joined, read_run
from tread_bench.services.report import write_report


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    monkeypatch.setattr(page, "pictures", lambda *arguments: [])


def figures(records: list[Record]) -> dict[str, tuple[object, ...]]:
    """Of each row: its FIDs, those that it is compared with, and its speed-up."""
    return {row.name: (row.scores, row.difference(ITERATIONS), row.speedup) for row in Study(records).rows}


@pytest.mark.parametrize("name", ["guidance", "finetune"])
def test_rows_have_the_figures_that_they_have_alone(tmp_path, name):
    runs = {"old": STUDIES[name](), "new": study(seeds=2)}
    for run, records in runs.items():
        write_run(tmp_path / run, records)
    joined = read_joined([tmp_path / run for run in runs])
    alone = {f"{run}/{row}": found for run in runs for row, found in figures(read_run(tmp_path / run).records).items()}
    assert figures(joined.records) == alone


def test_rows_of_the_same_protocol_are_ranked_together(tmp_path):
    write_run(tmp_path / "a", [record("dense", "", seed, 17.0) for seed in range(5)])
    write_run(tmp_path / "b", [record("dense", "", seed, 9.0) for seed in range(5)])
    rows = Study(read_joined([tmp_path / "a", tmp_path / "b"]).records).rows
    assert {row.name: row.is_lowest_fid for row in rows} == {"a/dense": False, "b/dense": True}
    assert len({row.group for row in rows}) == 1


def test_a_folder_and_an_export_are_drawn_on_one_page(tmp_path):
    write_run(tmp_path / "here", study(seeds=2))
    export_run([tmp_path / "here"], tmp_path / "there.zip")
    drawn = write_report([tmp_path / "here", tmp_path / "there.zip"], tmp_path / "both")
    table = pd.read_csv(tmp_path / "both" / "results.csv", keep_default_na=False)
    by_run = dict(tuple(table.groupby(table.row.str.partition("/")[0])))
    assert by_run.keys() == {"here", "there"}
    assert by_run["here"].fid.tolist() == by_run["there"].fid.tolist()
    assert drawn.plan.planned == len(set(table.cell)) == 2 * len(study(seeds=2))
    text = (tmp_path / "both" / "index.html").read_text()
    assert "here and there" in text and "there/2:8" in text


def test_what_cannot_be_drawn_on_one_page_is_refused(tmp_path):
    write_run(tmp_path / "a", study(seeds=1))
    write_run(tmp_path / "b", study(seeds=1))
    for arguments, told in (
        (["a", "b"], "2 runs are drawn on one page: say where with --out DIR"),
        (["a", "b/../a", "--out", "both"], "a run is given twice"),
        (["a", "b", "--export", "c"], "--export c writes the records of one run"),
        (["a", "c", "--out", "both"], "c is not a run folder"),
    ):
        done = tread_bench("report", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and told in done.stderr, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    for folder in ("x", "y"):
        write_run(tmp_path / folder / "run", study(seeds=1))
    joined = read_joined([tmp_path / folder / "run" for folder in ("x", "y")])
    assert {record.row.partition("/run/")[0] for record in joined.records} == {"x", "y"}
    assert joined.plan.suite.name == "x/run and y/run"
