from __future__ import annotations

import itertools

import torch

from tread_bench.measure.probe import REPEATS, WARMUP, probe_ms
from tread_bench.measure.throughput import interleave


class FakeMachine:
    """A clock that only work moves; the k-th call of each takes `slow` or `fast` times (1 + drift * k) seconds."""

    def __init__(self, drift: float = 0.0) -> None:
        self.now, self.drift, self.calls = 0.0, drift, []

    def work(self, name: str, seconds: float):
        counter = itertools.count()

        def call() -> None:
            self.calls.append(name)
            self.now += seconds * (1 + self.drift * next(counter))

        return call


def test_every_sample_is_kept_in_milliseconds_and_warm_up_is_not():
    machine = FakeMachine()
    times = interleave(
        machine.work("dense", 0.4), machine.work("routed", 0.25), pairs=5, warmup=2, clock=lambda: machine.now
    )
    assert [round(t, 6) for t in times.reference_ms] == [400.0] * 5
    assert [round(t, 6) for t in times.subject_ms] == [250.0] * 5


def test_the_two_take_turns_at_going_first():
    machine = FakeMachine()
    interleave(machine.work("a", 1), machine.work("b", 1), pairs=3, warmup=1, clock=lambda: machine.now)
    assert "".join(machine.calls) == "ab" + "ab" + "ba" + "ab"


def test_a_drifting_machine_leaves_the_paired_ratio():
    machine = FakeMachine(drift=0.1)
    times = interleave(machine.work("a", 2), machine.work("b", 1), pairs=20, warmup=1, clock=lambda: machine.now)
    ratios = [a / b for a, b in zip(times.reference_ms, times.subject_ms, strict=True)]
    assert all(abs(ratio - 2) < 1e-9 for ratio in ratios)


def test_waits_for_the_device_before_and_after_each_sample():
    events: list[str] = []
    interleave(
        lambda: events.append("work"),
        lambda: events.append("work"),
        pairs=1,
        warmup=1,
        synchronize=lambda: events.append("wait"),
    )
    assert events[2:] == ["wait", "work", "wait", "wait", "work", "wait"]


def test_the_probe_is_the_median_of_what_is_not_warm_up():
    durations = [90.0] * WARMUP + [2.0] * (REPEATS // 2) + [5.0] + [8.0] * (REPEATS // 2)
    readings = itertools.chain.from_iterable((0.0, seconds) for seconds in durations)
    waits = []
    found = probe_ms(torch.device("cpu"), lambda: waits.append(1), lambda: next(readings))
    assert found == 5e3
    assert len(waits) == 2 * (WARMUP + REPEATS)
