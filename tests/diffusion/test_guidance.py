from __future__ import annotations

import itertools
import math
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.model.methods.subjects import BACKBONES, answering, cell_of, network_of
from tread_bench.core.config.routed import setting_of, with_blocks
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.guidance import Branch
from tread_bench.core.describe.routes import Route
from tread_bench.core.numbers.costs import sampling_macs
from tread_bench.core.problems import SuiteError
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.guidance import Guided
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.methods.base import BatchRange

TIMES = [1.0, 0.75, 0.5, 0.25, 0.0]
RULES = {
    "none": "none",
    "cfg": "cfg",
    "sparse": {"name": "sparse", "blocks": "1:2", "strong": 0.25, "weak": 0.75},
    "sparse-decayed": {"name": "sparse", "blocks": "1:2", "strong": 0.25, "weak": 0.75, "decay": "cosine"},
    "sparse-cfg": {"name": "sparse", "blocks": "1:2", "label_weak": False},
    "sparse-early": {"name": "sparse", "blocks": "1:2", "snapshot": 3},
    "tread": {"name": "tread", "blocks": "1:2", "strong": 0, "weak": 0.5},
    "tread_released": {"name": "tread_released", "blocks": "1:2", "strong": 0.25, "weak": 0.5},
    "autoguidance": {"name": "autoguidance", "snapshot": 3},
    "path_drop": {"name": "path_drop", "blocks": "1:2"},
    "path_drop-of-the-method": {"name": "path_drop", "label_weak": True},
}


class Linear:
    """Its output is linear in x, t, the label, how many tokens bypass, and 2^n of each block n that is left out."""

    def __init__(self, gain: float = 1.0) -> None:
        self.gain, self.calls, self.num_blocks = gain, 0, 4
        sizes = {"num_tokens": 16, "grid": (4, 4), "channels": 1, "image_size": 4}
        self.spec = SimpleNamespace(num_classes=10, context_shape=None, **sizes)
        self.backbone = self
        self.method = SimpleNamespace(selector="random", shallow_forward=self.shallow_forward)

    def output(self, x, t, y, bypassed=0, dropped=0):
        self.calls += 1
        label = 0 if y is None else y.view(len(y), -1).sum(1).view(-1, 1, 1, 1)
        return self.gain * x + t.view(-1, 1, 1, 1) + label + 100 * bypassed + 1000 * dropped

    def __call__(self, x, t, y=None, *, routes=(), selector="random", ids=()):
        return self.output(x, t, y, bypassed=sum(16 - kept.shape[1] for kept in ids))

    def shallow_forward(self, backbone, start):
        return self.output(*start[:3], dropped=15)

    def start(self, x, t, y):
        return x, t, y, 0

    def run_block(self, block, state):
        return *state[:3], state[3] + 2**block

    def finish(self, state):
        return self.output(*state[:3], dropped=15 - state[3])


def outputs(rule, y, null, x, t):
    """Strong and weak branch of each rule at the first step, written out; without a label or text, y is `null`."""
    at, half = Linear().output, Linear(0.5)
    return {
        "none": (at(x, t, y), 0 * x),
        "cfg": (at(x, t, y), at(x, t, null)),
        "sparse": (at(x, t, y, bypassed=4), at(x, t, y, bypassed=12)),
        "sparse-decayed": (at(x, t, y, bypassed=4), at(x, t, y, bypassed=12)),
        "sparse-cfg": (at(x, t, y, bypassed=8), at(x, t, null, bypassed=14)),
        "sparse-early": (at(x, t, y, bypassed=8), half.output(x, t, y, bypassed=14)),
        "tread": (at(x, t, y), at(x, t, y, bypassed=8)),
        "tread_released": (at(x, t, null, bypassed=4), at(x, t, null, bypassed=8)),
        "autoguidance": (at(x, t, y), half.output(x, t, y)),
        "path_drop": (at(x, t, y), at(x, t, null, dropped=2 + 4)),
        "path_drop-of-the-method": (at(x, t, y), at(x, t, y, dropped=15)),
    }[rule]


@pytest.mark.parametrize("condition", ["label", "text"])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_its_formula_on_a_linear_network(rule, condition):
    """A branch without the label has class 10, or the empty caption's text; every other one the sample's own."""
    network, y, null, empty = Linear(), torch.tensor([3, 7]), torch.tensor([10, 10]), None
    if condition == "text":
        network.spec.num_classes, network.spec.context_shape = 0, (3, 5)
        y, empty = torch.randn(2, 3, 5), torch.randn(3, 5)
        null = empty.expand(2, 3, 5)
    sampling = Sampling(steps=4, guidance=RULES[rule], guidance_scale=1 if rule == "none" else 2.5)
    predict = Guided(network, sampling, TIMES, BatchRange(0, 0, 2), y, Linear(0.5), empty)
    x, t = torch.randn(2, 1, 4, 4), torch.full((2,), 1.0)
    strong, weak = outputs(rule, y, null, x, t)
    torch.testing.assert_close(predict(x, t), strong if rule == "none" else weak + 2.5 * (strong - weak))


@pytest.mark.parametrize(("sampler", "calls"), [("euler", 4), ("heun", 7)])
@pytest.mark.parametrize("rule", RULES)
def test_scale_one_makes_one_call_per_evaluation_of_the_velocity(rule, sampler, calls):
    network, weak = Linear(), Linear()
    sampling = Sampling(sampler=sampler, steps=4, guidance=RULES[rule], guidance_scale=1)
    predict = Guided(network, sampling, TIMES, BatchRange(0, 0, 2), torch.tensor([3, 7]), weak)
    for _ in range(calls):
        predict(torch.zeros(2, 1, 4, 4), torch.ones(2))
    predict.check_complete()
    assert (network.calls, weak.calls) == (calls, 0)
    with pytest.raises(RuntimeError, match=f"sampler {sampler} makes more calls than its call_times say"):
        predict(torch.zeros(2, 1, 4, 4), torch.ones(2))


def test_outside_its_interval_guidance_is_the_strong_branch_alone():
    network, x, y, counts = Linear(), torch.zeros(2, 1, 4, 4), torch.tensor([3, 7]), []
    sampling = Sampling(steps=4, guidance={"name": "cfg", "interval": (0.25, 0.75)}, guidance_scale=2.5)
    predict = Guided(network, sampling, TIMES, BatchRange(0, 0, 2), y)
    for time in TIMES[:-1]:
        before = network.calls
        out = predict(x, torch.full((2,), time))
        counts.append(network.calls - before)
        if counts[-1] == 1:
            assert torch.equal(out, Linear().output(x, torch.full((2,), time), y))
    assert counts == [1, 2, 2, 1]  # low < t <= high


def test_rates_decay_as_half_a_cosine():
    branch = Branch("weak", routes=(Route(1, 2, 0.8),), decays=True)
    rates = [route.rate for step in range(10) for route in branch.routes_at(step, 10)]
    assert rates == pytest.approx([0.8 * (1 + math.cos(math.pi * step / 10)) / 2 for step in range(10)])
    assert rates[0] == 0.8
    assert rates[5] == pytest.approx(0.4)


INTERVAL = {"name": "cfg", "interval": (0.2, 0.8)}


@pytest.mark.parametrize("rule", [RULES["autoguidance"], RULES["sparse-decayed"], INTERVAL])
def test_sampling_macs_with_heun_are_those_of_the_calls_that_are_made(rule):
    """With Euler: tests/diffusion/test_guidance_contract.py."""
    sampling = Sampling(guidance=rule, steps=4, sampler="heun", guidance_scale=1.5)
    cell, weak_cell = cell_of("dense", "DiT"), cell_of("dense", "LightningDiT")
    setting = setting_of(cell.model_copy(update={"sampling": sampling}))
    objective, network, weak = build_objective(cell.objective), answering(network_of(cell)), network_of(weak_cell)
    with FlopCounterMode(display=False) as counter:
        list(generate(network, objective, sampling, 0, 1, 1, answering(weak)))
    found = sampling_macs(setting, objective.sampling_times(4), setting_of(weak_cell))
    assert found == counter.get_total_flops() // 2


def is_whole(backbone, dropped):
    """Whether every long skip that is saved is read, and none else, without these blocks."""
    state = backbone.start(torch.zeros(1, 1, 8, 8), torch.ones(1), torch.tensor([3]))
    try:
        for block in sorted(set(range(backbone.num_blocks)) - dropped):
            state = backbone.run_block(block, state)
    except ValueError:
        return False
    return not state.skips


@pytest.mark.parametrize("backbone", BACKBONES)
def test_path_drop_is_planned_where_the_other_blocks_are_a_network_and_nowhere_else(backbone):
    cell = cell_of("dense", backbone)
    network, setting = network_of(cell).backbone, setting_of(cell)
    ranges = list(itertools.combinations_with_replacement(range(5), 2))
    planned = dict.fromkeys(ranges, False)
    for first, end in ranges:
        sampling = Sampling(guidance={"name": "path_drop", "blocks": f"{first}:{end}"}, guidance_scale=2)
        asked = setting._replace(cell=cell.model_copy(update={"sampling": sampling}))
        with suppress(SuiteError):
            planned[first, end] = isinstance(with_blocks(asked), Cell)
    with torch.no_grad():
        whole = {(a, b): (a, b) != (0, 4) and is_whole(network, set(range(a, b + 1))) for a, b in ranges}
    assert planned == whole


def test_what_a_branch_needs_must_be_there():
    network = Linear()
    for rule, message in (("cfg", "has none"), (RULES["autoguidance"], "pass their network")):
        with pytest.raises(ValueError, match=message):
            Guided(network, Sampling(steps=4, guidance=rule, guidance_scale=2), TIMES, BatchRange(0, 0, 2), None)
