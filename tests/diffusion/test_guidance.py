from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.model.methods.subjects import BACKBONES, answering, cell_of, network_of
from tread_bench import create_backbone
from tread_bench.core.config.routed import setting_of, with_blocks
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.guidance import Branch
from tread_bench.core.describe.routes import Route
from tread_bench.core.numbers.costs import sampling_macs
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.guidance import Guided, without_blocks
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
    """A network whose output is linear in x, t, its label and how many tokens bypass; it notes its calls."""

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
        return self.output(*start[:3], dropped=self.num_blocks)

    def start(self, x, t, y):
        return x, t, y, 0

    def run_block(self, block, state):
        return *state[:3], state[3] + 1

    def finish(self, state):
        return self.output(*state[:3], dropped=self.num_blocks - state[3])


def guided(rule, scale=2.5, sampler="euler", weak=None, network=None, steps=4):
    sampling = Sampling(sampler=sampler, steps=steps, guidance=rule, guidance_scale=1 if rule == "none" else scale)
    network, y = network or Linear(), torch.tensor([3, 7])
    return network, Guided(network, sampling, TIMES, BatchRange(0, 0, 2), y, weak or Linear(0.5)), y


def outputs(rule, y, x, t, null=None):
    """Strong and weak branch of each rule at the first step, written out; without a label, y is `null`."""
    null, half = torch.full_like(y, 10) if null is None else null, Linear(0.5)
    at = Linear().output
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
        "path_drop": (at(x, t, y), at(x, t, null, dropped=2)),
        "path_drop-of-the-method": (at(x, t, y), at(x, t, y, dropped=4)),
    }[rule]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_its_formula_on_a_linear_network(rule):
    _, predict, y = guided(RULES[rule])
    x, t = torch.randn(2, 1, 4, 4), torch.full((2,), 1.0)
    strong, weak = outputs(rule, y, x, t)
    expected = strong if rule == "none" else weak + 2.5 * (strong - weak)
    torch.testing.assert_close(predict(x, t), expected)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_leaves_text_out_as_it_leaves_a_label_out(rule):
    """A branch without the label has the empty caption's text, and every other one the sample's own."""
    network, text, empty = Linear(), torch.randn(2, 3, 5), torch.randn(3, 5)
    network.spec.num_classes, network.spec.context_shape = 0, (3, 5)
    sampling = Sampling(steps=4, guidance=RULES[rule], guidance_scale=1 if rule == "none" else 2.5)
    predict = Guided(network, sampling, TIMES, BatchRange(0, 0, 2), text, Linear(0.5), empty)
    x, t = torch.randn(2, 1, 4, 4), torch.full((2,), 1.0)
    strong, weak = outputs(rule, text, x, t, null=empty.expand(2, 3, 5))
    torch.testing.assert_close(predict(x, t), strong if rule == "none" else weak + 2.5 * (strong - weak))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sampler", ["euler", "heun"])
def test_scale_one_makes_one_call_per_evaluation_of_the_velocity(rule, sampler):
    weak = Linear()
    network, predict, _ = guided(RULES[rule], scale=1.0, sampler=sampler, weak=weak)
    for _ in range(4 if sampler == "euler" else 7):
        predict(torch.zeros(2, 1, 4, 4), torch.ones(2))
    assert (network.calls, weak.calls) == (4 if sampler == "euler" else 7, 0)
    predict.check_complete()
    with pytest.raises(RuntimeError, match=f"sampler {sampler} makes more calls than its call_times say"):
        predict(torch.zeros(2, 1, 4, 4), torch.ones(2))


def test_outside_its_interval_guidance_is_the_strong_branch_alone():
    network, predict, y = guided({"name": "cfg", "interval": (0.25, 0.75)})
    x, counts = torch.zeros(2, 1, 4, 4), []
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


def trained(method="dense", backbone="DiT", **sampling):
    """A cell and its network with weights that answer to everything, as after a training."""
    cell = cell_of(method, backbone).model_copy(update={"sampling": Sampling(**sampling)})
    cell = with_blocks(setting_of(cell))
    return setting_of(cell), answering(network_of(cell))


@pytest.mark.parametrize(
    ("rule", "sampler"),
    [*((rule, "euler") for rule in (*RULES, "interval")), *((rule, "heun") for rule in ("sparse-decayed", "interval"))],
)
def test_sampling_macs_are_those_of_the_calls_that_are_made(rule, sampler):
    asked = {"name": "cfg", "interval": (0.2, 0.8)} if rule == "interval" else RULES[rule]
    scale = {"guidance_scale": 1 if rule == "none" else 1.5}
    method = "sprint" if rule == "path_drop-of-the-method" else "dense"
    setting, network = trained(method, guidance=asked, steps=4, sampler=sampler, **scale)
    weak, weak_network = trained(backbone="LightningDiT") if rule == "autoguidance" else (setting, network)
    objective = build_objective(setting.cell.objective)
    with FlopCounterMode(display=False) as counter:
        list(generate(network, objective, setting.cell.sampling, 0, 1, 1, weak_network))
    assert sampling_macs(setting, objective.sampling_times(4), weak) == counter.get_total_flops() // 2


def test_a_network_without_blocks_is_that_of_the_others():
    deep, shallow = (create_backbone("DiT", depth=d, hidden=32, heads=2, patch=2, image_size=8, channels=1,
                                     num_classes=10, seed=0).eval() for d in (4, 2))  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in deep.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
        state = {k: v for k, v in deep.state_dict().items() if not k.startswith(("blocks.1.", "blocks.2."))}
        shallow.load_state_dict({k.replace("blocks.3.", "blocks.1."): v for k, v in state.items()})
        x, t, y = torch.randn(2, 1, 8, 8, generator=generator), torch.rand(2), torch.tensor([1, 2])
        torch.testing.assert_close(without_blocks(deep, x, t, y, frozenset({1, 2})), shallow(x, t, y))


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
    planned = {}
    for first, end in ranges:
        sampling = Sampling(guidance={"name": "path_drop", "blocks": f"{first}:{end}"}, guidance_scale=2)
        asked = setting._replace(cell=cell.model_copy(update={"sampling": sampling}))
        planned[first, end] = isinstance(with_blocks(asked), Cell)
    with torch.no_grad():
        whole = {(a, b): (a, b) != (0, 4) and is_whole(network, set(range(a, b + 1))) for a, b in ranges}
    assert planned == whole


def test_what_a_branch_needs_must_be_there():
    network = Linear()
    for rule, message in (("cfg", "has none"), (RULES["autoguidance"], "pass their network")):
        with pytest.raises(ValueError, match=message):
            Guided(network, Sampling(steps=4, guidance=rule, guidance_scale=2), TIMES, BatchRange(0, 0, 2), None)
