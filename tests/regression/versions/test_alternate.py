from __future__ import annotations

import random

import pytest

from tread_bench.regression.baseline.findings import Verdict, exit_status
from tread_bench.regression.versions.alternate import alternate, findings


def machine(noise, slower=1.0, drift=0.0, rows=("dense", "routed")):
    """Windows of two versions on a machine that grows slower; the new one takes `slower` times as long."""
    rng, taken = random.Random(0), []

    def window(is_new):
        taken.append(is_new)
        base = 50 * (1 + drift * len(taken)) * (slower if is_new else 1.0)
        return {row: base * rng.lognormvariate(0, noise) for row in rows}

    return window, taken


def test_versions_take_turns_in_the_order_a_b_b_a():
    window, taken = machine(0.001)
    alternate(window)
    assert taken[:8] == [False, True, True, False] * 2
    assert len(taken) == 40


def test_the_same_version_passes_and_drift_falls_on_both_alike():
    window, _ = machine(0.005, drift=0.01)
    found = findings(alternate(window))
    assert {finding.verdict for finding in found} == {Verdict.PASS}


@pytest.mark.parametrize("slower", [1.05, 1.2])
def test_a_slower_version_fails(slower):
    window, taken = machine(0.005, slower)
    found = findings(alternate(window))
    assert {finding.verdict for finding in found} == {Verdict.FAIL}
    assert exit_status(found) == 1
    assert len(taken) == 40


def test_what_cannot_be_told_takes_sixty_pairs():
    window, taken = machine(0.01, slower=1 / 0.97)
    found = findings(alternate(window))
    assert len(taken) == 120
    assert exit_status(found) in (1, 3)


def test_a_row_for_which_the_machine_is_not_fit_takes_nothing_from_the_others():
    rng = random.Random(0)

    def window(is_new):
        slower = 1 / 0.97 if is_new else 1.0
        return {"close": 50 * slower * rng.lognormvariate(0, 0.01), "noisy": 50 * rng.lognormvariate(0, 0.2)}

    timings = alternate(window)
    assert timings.pairs == 60
    assert {f.cell: f.verdict for f in findings(timings)}["noisy"] is Verdict.UNFIT


def test_a_noisy_machine_is_not_fit_to_judge():
    window, taken = machine(0.05, slower=1.03)
    found = findings(alternate(window))
    assert len(taken) == 40
    assert {finding.verdict for finding in found} == {Verdict.UNFIT}
    assert exit_status(found) == 3


def test_a_row_of_one_version_alone_is_not_timed():
    def window(is_new):
        return {"shared": 1.0, **({} if is_new else {"old": 2.0})}

    assert alternate(window).log_ratios().keys() == {"shared"}


def test_a_row_whose_gpu_changed_is_not_judged_and_the_others_are():
    window, _ = machine(0.005, slower=1.2)
    timings = alternate(window)
    found = {finding.cell: finding for finding in findings(timings, {"routed": ["its SM clock went from 9 to 1 MHz"]})}
    assert (found["dense"].verdict, found["routed"].verdict) == (Verdict.FAIL, Verdict.UNFIT)
    assert "the GPU changed in 1 of 40 windows, first: its SM clock" in found["routed"].reason
