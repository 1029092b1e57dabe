from __future__ import annotations

import pytest

from tread_bench.core.config.training import RoutingSchedule, Training
from tread_bench.core.numbers.schedule import learning_rate, mean_share, routing_share, stretches


def shares(schedule, iterations=10):
    return [routing_share(step, iterations, schedule) for step in range(iterations)]


def test_routing_is_there_from_the_start_to_the_end_where_nothing_is_scheduled():
    assert shares(RoutingSchedule()) == [1] * 10
    assert routing_share(10, 10, RoutingSchedule()) == 1  # past the end as at the end


def test_routing_rises_linearly_from_nothing():
    assert shares(RoutingSchedule(warmup=0.4)) == [0, 0.25, 0.5, 0.75, *[1] * 6]


def test_the_end_is_dense():
    schedule = RoutingSchedule(warmup=0.2, until=0.7)
    assert shares(schedule) == [0, 0.5, 1, 1, 1, 1, 1, 0, 0, 0]
    assert routing_share(10, 10, schedule) == 0


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
    assert mean_share(1000, schedule) == pytest.approx(sum(shares(schedule, 1000)) / 1000)
