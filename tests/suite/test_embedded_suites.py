from __future__ import annotations

import csv

import pytest

from tests.command_line import tread_bench


@pytest.mark.full
@pytest.mark.parametrize("suite", ["methods", "architectures"])
def test_every_row_of_a_suite_ends_with_its_figures(suite, tmp_path):
    """All methods and all families, from the plan to the page, as small as `--smoke` makes them."""
    settings = ("--set", "seeds=1", "--set", "timing.pairs=0")
    ended = tread_bench("run", suite, "--smoke", "--out", tmp_path / "run", *settings)
    assert ended.returncode == 0, ended.stderr
    with (tmp_path / "run" / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 5 and {(row["status"], row["reason"]) for row in rows} == {("done", "")}
    assert all(float(row["fid"]) > 0 and float(row["validation_loss"]) > 0 for row in rows)
