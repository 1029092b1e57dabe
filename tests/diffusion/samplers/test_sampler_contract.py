"""Every announced sampler keeps the rules of docs/extending/sampler.md, whose tests find each broken one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shown_checks import failing
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.describe.objectives import samplers

EULER, HEUN, DDPM = samplers.find("euler"), samplers.find("heun"), samplers.find("ddpm")


def of_tests(name, family=EULER, **changes):
    return replace(family, builder=f"tests.diffusion.samplers.broken:{name}", **changes)


@pytest.mark.parametrize("name", samplers())
def test_every_announced_sampler_keeps_the_contract(name):
    assert failing("sampler", SAMPLER=samplers()[name]) == set()


def test_one_that_remembers_keeps_it_where_it_takes_no_churn():
    assert failing("sampler", SAMPLER=of_tests("TwoStep", order=2, takes_churn=False)) == set()


BROKEN = {
    "RoundsToFloat32": (of_tests("RoundsToFloat32"), {"step"}),
    "CallsTwice": (of_tests("CallsTwice"), {"calls"}),
    "calls that vary": (replace(EULER, call_times=lambda now, after: (now, now) if now < 0.5 else (now,)), {"calls"}),
    "TakesHalfOfTheSecondSlope": (of_tests("TakesHalfOfTheSecondSlope", HEUN), {"order", "churn"}),
    "StepsByTheBatch": (of_tests("StepsByTheBatch"), {"batch"}),
    "TwoStep": (of_tests("TwoStep", order=2), {"churn"}),
    "takes no noise": (replace(EULER, draws_noise=True), {"step"}),
    "AddsNoNoise": (of_tests("AddsNoNoise", DDPM), {"noise"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name):
    broken, expected = BROKEN[name]
    assert failing("sampler", SAMPLER=broken) == expected


def test_churn_is_refused_with_a_sampler_that_takes_none():
    message = "churn: sampler ddpm takes no noise between its steps; .*sampler to one of ddim, euler, heun"
    with pytest.raises(ValueError, match=message):
        Sampling(sampler="ddpm", churn={"s_churn": 1})
