"""When a training that started from other weights has come back to its first loss."""

from __future__ import annotations

import pytest

from tread_bench.core.stored.records import Evaluation, Record
from tread_bench.reports.claims.recovery import recovered_at


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
