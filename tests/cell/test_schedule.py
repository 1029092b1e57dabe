from __future__ import annotations

import math

import pytest

from tests.cell.test_step import fingerprint, make_cell, make_trainer
from tread_bench.cell.optimizer import learning_rate
from tread_bench.core.config.training import RoutingSchedule, Training
from tread_bench.core.numbers.schedule import routing_share, stretches, summed_share


def shares(schedule, iterations=10):
    return [routing_share(step, iterations, schedule) for step in range(iterations)]


@pytest.mark.parametrize(
    ("schedule", "expected", "past_the_end"),
    [
        ({}, [1] * 10, 1),
        ({"warmup": 0.4}, [0, 0.25, 0.5, 0.75, *[1] * 6], 1),
        ({"warmup": 0.2, "until": 0.7}, [0, 0.5, 1, 1, 1, 1, 1, 0, 0, 0], 0),
    ],
)
def test_routing_rises_linearly_from_nothing_and_may_end_dense(schedule, expected, past_the_end):
    assert shares(RoutingSchedule(**schedule)) == expected
    assert routing_share(10, 10, RoutingSchedule(**schedule)) == past_the_end


def test_the_dense_part_has_its_own_learning_rate():
    training = Training(iterations=10, learning_rate=1.0)
    own = RoutingSchedule(until=0.8, dense_learning_rate=0.1)
    assert [learning_rate(step, training, own) for step in (0, 7, 8, 9)] == [1, 1, 0.1, 0.1]
    assert learning_rate(9, training, RoutingSchedule(until=0.8)) == 1
    warmed = Training(iterations=10, learning_rate=1.0, warmup=4)
    assert [learning_rate(step, warmed, own) for step in (0, 3, 8)] == [0.25, 1, 0.1]


@pytest.mark.parametrize(
    "schedule", [{}, {"warmup": 0.37}, {"until": 0.55}, {"warmup": 0.2, "until": 0.21}, {"until": 0.0001}], ids=str
)
def test_stretches_are_all_steps_with_as_many_bypassed_tokens_each(schedule):
    schedule = RoutingSchedule(**schedule)

    def bypassed(share):
        return int(64 * 0.5 * share), int(64 * 0.75 * share)

    found = [pair for steps, share in stretches(1000, schedule, bypassed) for pair in [bypassed(share)] * steps]
    assert found == [bypassed(share) for share in shares(schedule, 1000)]
    assert summed_share(1000, 1000, schedule) == pytest.approx(sum(shares(schedule, 1000)))


def factors(decay, iterations=10):
    training = Training(iterations=iterations, learning_rate=1.0, decay=decay)
    return [learning_rate(step, training, RoutingSchedule()) for step in range(iterations)]


def test_the_learning_rate_falls_as_it_is_requested_to():
    assert factors("constant") == [1] * 10
    assert factors("linear") == pytest.approx([(10 - k) / 10 for k in range(10)])
    assert factors("cosine") == pytest.approx([(1 + math.cos(math.pi * k / 10)) / 2 for k in range(10)])
    assert factors({"name": "wsd", "share": 0.4}) == pytest.approx([*[1] * 6, 1, 0.75, 0.5, 0.25])
    assert factors("wsd") == factors({"name": "wsd", "share": 0.2})


def test_a_decay_multiplies_warm_up_and_the_rate_of_the_dense_part():
    training = Training(iterations=10, learning_rate=1.0, warmup=4, decay="linear")
    own = RoutingSchedule(until=0.8, dense_learning_rate=0.1)
    found = [learning_rate(step, training, own) for step in (0, 1, 3, 4, 7, 8, 9)]
    assert found == pytest.approx([0.25, 0.5 * 0.9, 0.7, 0.6, 0.3, 0.1 * 0.2, 0.1 * 0.1])


def test_a_constant_rate_is_not_written_so_that_cells_keep_their_ids():
    written = Training(iterations=10, decay="constant").model_dump(mode="json")
    assert "decay" not in written and Training(iterations=10).model_dump(mode="json") == written
    assert Training(iterations=10, decay="wsd").model_dump(mode="json")["decay"] == {"name": "wsd", "share": 0.2}


def test_up_to_its_decay_a_training_is_that_of_a_constant_rate():
    trainers = {}
    for decay in ("constant", "wsd", "linear"):
        trainers[decay] = make_trainer(make_cell(training={"iterations": 5, "decay": decay}))
        for step in range(4):
            trainers[decay].step(trainers[decay].batch(step))
    assert fingerprint(trainers["wsd"]) == fingerprint(trainers["constant"]) != fingerprint(trainers["linear"])


@pytest.mark.parametrize("name", ["constant", "linear", "cosine"])
def test_a_cell_that_is_only_timed_has_the_rate_of_the_start_or_none(name):
    """Without iterations there is no decay, and steps beyond the end have nothing left."""
    timed, trained = (Training(iterations=n, learning_rate=1.0, decay=name) for n in (0, 4))
    assert learning_rate(5, timed, RoutingSchedule()) == 1
    assert learning_rate(9, trained, RoutingSchedule()) == pytest.approx(1 if name == "constant" else 0)
