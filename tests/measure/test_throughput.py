from __future__ import annotations

import itertools
import time
from itertools import chain

import numpy as np
import pytest
import torch

from tread_bench.data.loader import Loader
from tread_bench.measure.speed.throughput import (
    LARGE_REPEATS,
    LARGE_SIDE,
    REPEATS,
    WARMUP,
    host_share,
    interleave,
    probe_ms,
    product_macs_per_s,
    time_loop,
)


class FakeMachine:
    """A clock that only work moves; the k-th call of each takes `slow` or `fast` times (1 + drift * k) seconds."""

    def __init__(self, drift: float = 0.0) -> None:
        self.now, self.drift, self.calls = 0.0, drift, []

    def work(self, name: str, seconds: float, preparing: float = 0.0):
        counter = itertools.count()

        def call() -> None:
            self.calls.append(name)
            self.now += seconds * (1 + self.drift * next(counter))

        def ready():
            self.now += preparing
            return call

        return ready


def test_the_two_take_turns_at_going_first():
    machine = FakeMachine()
    interleave(machine.work("a", 1), machine.work("b", 1), pairs=3, warmup=1, now=lambda: machine.now)
    assert "".join(machine.calls) == "ab" + "ab" + "ba" + "ab"


def test_a_drifting_machine_leaves_the_paired_ratio_and_getting_inputs_ready_is_not_timed():
    machine = FakeMachine(drift=0.1)
    dense, routed = machine.work("a", 2, preparing=0.2), machine.work("b", 1, preparing=0.3)
    times = interleave(dense, routed, pairs=20, warmup=1, now=lambda: machine.now)
    assert np.divide(times.reference_ms, times.subject_ms) == pytest.approx([2] * 20)
    assert times.subject_ms[:2] == pytest.approx([1100, 1200])


def test_waits_for_the_device_before_and_after_each_sample():
    events: list[str] = []

    def ready():
        events.append("inputs")
        return lambda: events.append("work")

    def now():
        events.append("wait")
        return 0.0

    interleave(ready, ready, pairs=1, warmup=1, now=now)
    assert events[4:] == 2 * ["inputs", "wait", "work", "wait"]


@pytest.mark.parametrize(("preparing_s", "share"), [(0.0, 0.0), (0.05, 1 / 3), (0.3, 0.75)])
def test_a_loop_tells_its_time_and_the_share_of_it_lost_to_waiting_for_batches(preparing_s, share):
    """Each batch is made when it is asked for, so that every wait is as long as that takes."""
    machine, made = FakeMachine(), []

    def make(step: int) -> int:
        made.append(step)
        machine.now += preparing_s
        return step

    def train(step: int) -> None:
        machine.now += 0.1

    with Loader(make, itertools.count(7), workers=0, clock=lambda: machine.now) as batches:
        found = time_loop(batches, train, steps=5, warmup=2, now=lambda: machine.now)
    assert found.step_ms == pytest.approx(100 + 1e3 * preparing_s)
    assert found.data_wait_share == pytest.approx(share)
    assert made == list(range(7, 14))


def test_the_probe_is_the_median_of_what_is_not_warm_up():
    durations = [90.0] * WARMUP + [2.0] * (REPEATS // 2) + [5.0] + [8.0] * (REPEATS // 2)
    readings = itertools.chain.from_iterable((0.0, seconds) for seconds in durations)
    assert probe_ms(torch.device("cpu"), lambda: next(readings)) == 5e3
    assert next(readings, None) is None


def test_the_rate_of_products_is_that_of_a_large_one(monkeypatch):
    monkeypatch.setitem(LARGE_SIDE, "cpu", 8)
    readings = iter(chain.from_iterable((at, at + 0.5) for at in range(WARMUP + LARGE_REPEATS)))
    assert product_macs_per_s(torch.device("cpu"), now=lambda: next(readings)) == 8**3 / 0.5


@pytest.mark.plain_bits
def test_operators_take_their_time_the_host_the_rest_and_inputs_are_prepared_before_the_profile():
    matrix = torch.randn(400, 400, requires_grad=True)

    def ready():
        time.sleep(0.05)
        return lambda: (matrix @ matrix).sum().backward()

    assert 0 <= host_share(ready, torch.device("cpu")) < 0.5
    assert host_share(lambda: lambda: time.sleep(0.01), torch.device("cpu")) > 0.9
