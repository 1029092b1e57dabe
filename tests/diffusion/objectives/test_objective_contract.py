"""Every announced objective keeps the rules of docs/extending/objective.md, whose tests find each broken one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.shown_checks import failing
from tread_bench.core.describe import objectives as registry
from tread_bench.core.describe.objectives import objectives
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.samples import Samples

FLOW, DDPM = objectives.find("flow"), objectives.find("ddpm")
OPTIONS = [
    ("flow", {}),
    ("flow", {"times": "uniform"}),
    ("edm", {}),
    ("edm", {"sigma_data": 0.8, "rho": 3, "p_std": 0.9}),
    ("ddpm", {}),
    ("ddpm", {"schedule": "stable_diffusion"}),
    ("ddpm", {"learned_variance": True}),
    ("x_prediction", {}),
    ("x_prediction", {"noise_scale": 2, "least_time": 0.01}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_every_announced_objective_keeps_the_contract(name, options):
    assert failing("objective", OBJECTIVE=objectives()[name], OPTIONS=options) == set()


def test_every_announced_objective_is_checked():
    assert {name for name, _ in OPTIONS} == objectives().keys()


BROKEN = {
    "DrawsFromTorch": {"times"},
    "SamplesUpwards": {"times", "sampling"},
    "LosesTheMean": {"losses"},
    "EstimatesTheNoise": {"clean"},
    "RunsBackwards": {"clean", "sampling"},
    "StartsTooNarrow": {"sampling"},
    "IgnoresTheVariance": {"variance"},
    "HidesTheVariance": {"variance"},
}
OF_DDPM = {"IgnoresTheVariance", "HidesTheVariance"}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name, monkeypatch):
    sound, options = (DDPM, {"learned_variance": True}) if name in OF_DDPM else (FLOW, {})
    broken = replace(sound, builder=f"tests.diffusion.objectives.broken:{name}")
    monkeypatch.setitem(registry.objectives(), sound.name, broken)
    assert failing("objective", OBJECTIVE=broken, OPTIONS=options) == BROKEN[name]


UNIFORM_TO_NORMAL = torch.distributions.Normal(0.0, 1.0).icdf
TO_NORMAL = [  # options, and what makes standard normal numbers of their training times
    ("flow", {}, torch.logit),
    ("flow", {"times": "uniform"}, UNIFORM_TO_NORMAL),
    ("edm", {"p_mean": -0.8, "p_std": 1.1}, lambda sigma: (sigma.log() + 0.8) / 1.1),
    ("ddpm", {}, lambda level: UNIFORM_TO_NORMAL((build_objective(DDPM.options()).steps(level) + 0.5) / 1000)),
    ("x_prediction", {}, lambda t: (torch.logit(1 - t) + 0.8) / 0.8),
]


@pytest.mark.parametrize(("name", "options", "to_normal"), TO_NORMAL)
def test_training_times_have_their_distribution(name, options, to_normal):
    objective = build_objective(objectives()[name].options(**options))
    z = to_normal(objective.draw_times(Samples(0, 0, 20_000)).double())
    for quantile, share in ((-1, 0.1587), (0, 0.5), (1, 0.8413)):
        assert (z < quantile).double().mean().item() == pytest.approx(share, abs=0.012)
