"""When a training that started from other weights has come back to its first loss."""

from __future__ import annotations

import pytest
import synthetic_records

from tread_bench.core.stored.records import Evaluation, Record
from tread_bench.reports.frame import recovered_at


def record(losses):
    evaluations = [
        Evaluation(iteration=at, train_seconds=0, validation_loss=loss, validation_loss_per_time={})
        for at, loss in losses.items()
    ]
    about = dict.fromkeys(("cell", "suite", "row", "backbone", "family"), "toy")
    return Record(**about, seed=0, status="done", config={}, method="tread", evaluations=evaluations)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({0: 1.0, 5: 1.2, 10: 1.0, 20: 0.9}, 10),
        ({0: 1.0, 5: 1.2, 10: 0.9, 20: 1.1, 40: 0.8}, 40),  # it was back once before
        ({0: 1.0, 5: 0.9, 10: 0.8}, 0),  # never above
        ({0: 1.0, 5: 1.2, 10: 1.1}, None),  # not yet
        ({5: 1.2, 10: 0.9}, None),  # not evaluated at its start
        ({0: 1.0}, None),
        ({}, None),
    ],
)
def test_the_first_point_from_which_on_the_loss_is_not_above_the_first_one(losses, expected):
    assert recovered_at(record(losses)) == expected


def test_the_table_shows_the_last_seed_and_rows_that_did_not_recover():
    """A column for rows that were evaluated before their first step, and none without such rows."""
    back = {0: 1.0, 25: 1.2, 400: 0.9}, {0: 1.0, 25: 1.2, 100: 1.0, 400: 0.9}
    not_back = {0: 1.0, 400: 0.9}, {0: 1.0, 400: 1.1}
    cells = [
        synthetic_records.record(row, routes, seed, 17.0, evaluations=record(losses).evaluations)
        for row, routes, of_seeds in (("dense", "", back), ("2:8", "2:8@0.5", not_back))
        for seed, losses in enumerate(of_seeds)
    ]
    view = synthetic_records.view_of(cells)
    assert [(cell.text, cell.below) for cell in view.columns["Recovered at"].entries] == [
        ("400", ""),
        ("not reached", "by 1 of 2 seeds"),
    ]
    without = [synthetic_records.record("dense", "", seed, 17.0) for seed in range(2)]
    assert "Recovered at" not in synthetic_records.view_of(without).columns
