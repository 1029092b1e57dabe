"""What a row says: ratios by a clock that is known, verdicts by intervals, and sides that must agree."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.figure import DisagreementError, Figure, agree
from benchmarks.row import Row, Verdict
from benchmarks.timing import FEWEST_PAIRS, Bench, always


class FakeClock:
    """Stands still but for what is computed; `slower` by as much with every second."""

    def __init__(self, slower=0.0):
        self.now, self.slower = 0.0, slower

    def __call__(self):
        return self.now

    def takes(self, seconds):
        def call():
            self.now += seconds * (1 + self.slower * self.now)

        return call


def bench_of(clock, seconds=0.0):
    return Bench(threads=2, seconds=seconds, wall=clock)


def test_a_ratio_is_that_of_the_clock():
    clock = FakeClock()
    figure = bench_of(clock).faster(always(clock.takes(3)), always(clock.takes(2)))
    assert (figure.value, figure.low, figure.high) == pytest.approx((1.5, 1.5, 1.5))
    assert bench_of(clock).clock is clock and Bench(threads=1, wall=clock).clock is not clock  # but the CPU's
    assert figure.samples == {"reference_ms": [3000.0] * FEWEST_PAIRS, "subject_ms": [2000.0] * FEWEST_PAIRS}


def test_a_machine_that_slows_down_changes_no_ratio_by_much():
    clock = FakeClock(slower=1e-3)  # the last pair takes 5 % longer than the first
    figure = bench_of(clock).faster(always(clock.takes(3)), always(clock.takes(3)))
    assert figure.low < 1 < figure.high and figure.value == pytest.approx(1, abs=1e-3)


def test_pairs_are_taken_while_there_is_time_and_short_sides_are_timed_several_times_together():
    clock = FakeClock()
    figure = bench_of(clock, seconds=40).faster(always(clock.takes(3)), always(clock.takes(2)))
    assert len(figure.samples["subject_ms"]) == 8  # A B B A takes 10 s
    figure = bench_of(clock).faster(always(clock.takes(3)), always(clock.takes(0.5), calls=4)).times(4)
    assert figure.value == pytest.approx(6)


@pytest.mark.parametrize(
    ("low", "high", "as_speed", "as_cost"),
    [
        (2.0, 3.0, "reached", "inconclusive"),
        (1.0, 2.0, "inconclusive", "reached"),
        (1.0, 1.9, "not reached", "reached"),
        (2.1, 3.0, "reached", "not reached"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low, high, as_speed, as_cost):
    for is_cost, verdict in ((False, as_speed), (True, as_cost)):
        one = Row("a/b", "claim", lambda bench: Figure(0, 0, 0), required=2.0, is_cost=is_cost)
        assert one.verdict(Figure((low + high) / 2, low, high), one.required) == Verdict(verdict)
        assert one.verdict(Figure(1, 1, 1), None) is None


def test_both_sides_must_agree():
    ours, theirs = [torch.tensor([1.0, 100.0])], [torch.tensor([1.001, 100.0])]
    assert agree(ours, theirs, 1e-4).error == pytest.approx(1e-5, rel=1e-3)
    with pytest.raises(DisagreementError, match=r"differ by 1\.0e-05 relative, where 1e-06 is accepted"):
        agree(ours, theirs, 1e-6)
    with pytest.raises(DisagreementError):
        agree([torch.tensor([math.nan])], [torch.tensor([1.0])], 1.0)
