"""What must hold of every rule of guidance: save this beside your own, and put it in place of RULE.

It is tried on a small DiT with TREAD and, where the weak branch has other weights, on a second one. All weights are
random, so that every label, route and block has an effect.
"""

import torch
from thinned.family import THINNED as RULE
from torch.utils.flop_counter import FlopCounterMode

from tread_bench import Branch
from tread_bench.core.config.routed import setting_of, with_blocks
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.describe.methods import find_method
from tread_bench.core.numbers.costs import sampling_macs
from tread_bench.data.open import open_data
from tread_bench.diffusion.conditioning import with_random_text
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.guidance import Guided
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.contract.cells import BATCH, SMALL, CellSubject
from tread_bench.model.methods.base import BatchRange
from tread_bench.model.network import Network

OPTIONS = {}
METHOD, ROUTES, BACKBONE = {"name": "tread"}, "1:3@0.5", SMALL
STEPS = 4


class Trial:
    """The rule in a cell as a suite resolves it, with its networks."""

    def __init__(self):
        self.written = RULE.options.model_validate({"name": RULE.name, **OPTIONS})
        has_weights = self.written.weak_row is not None or self.written.weak_snapshot is not None
        rule = self.written.with_weights("weak", 1) if has_weights else self.written
        self.subject = CellSubject(find_method(METHOD["name"]), METHOD, ROUTES, BACKBONE)
        sampling = Sampling(steps=STEPS).model_copy(update={"guidance": rule, "guidance_scale": 2.0})
        self.cell = with_blocks(setting_of(self.subject.cell.model_copy(update={"sampling": sampling})))
        self.rule = self.cell.sampling.guidance
        self.branches = [branch for branch in self.rule.branches if branch is not None]
        self.objective = build_objective(self.cell.objective)
        self.times = self.objective.sampling_times(STEPS)
        self.network, self.weak = self.random_network(0), self.random_network(1)
        if not any(branch.other_weights for branch in self.branches):
            self.weak = None

    @torch.no_grad()
    def random_network(self, seed):
        network = Network(*self.subject.build(self.cell, seed)).eval()
        generator = torch.Generator().manual_seed(seed)
        for weight in network.parameters():
            weight.copy_(0.2 * torch.randn(weight.shape, generator=generator))
        return network

    @torch.no_grad()
    def predicted(self, scale, first=0, count=BATCH):
        """The guided predictions (steps, B, C, H, W) of some samples."""
        part, subject = slice(first, first + count), self.subject
        y = None if subject.y is None else subject.y[part]
        sampling = self.cell.sampling.model_copy(update={"guidance_scale": scale})
        drawn = BatchRange(0, first, count)
        guided = Guided(self.network, sampling, self.times, drawn, y, self.weak, subject.empty_text)
        return torch.stack([guided(subject.x[part], torch.full((count,), time)) for time in self.times[:-1]])


def near(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_branches():
    """Its properties say of its branches what is true of them: names, weights, blocks, rates, times."""
    trial = Trial()
    rule, branches = trial.rule, trial.branches
    assert rule.branches == rule.branches and rule.branches[0] is not None
    assert all(isinstance(branch, Branch) for branch in branches)
    assert len({branch.name for branch in branches}) == len(branches), "branches of one name have the same masks"
    assert not branches[0].other_weights
    asked = bool(rule.weak_row or rule.weak_snapshot)
    assert any(branch.other_weights for branch in branches) == asked
    assert any(branch.routes or branch.drops_path for branch in branches) == (rule.routed_blocks is not None)
    rates = [tuple({route.rate for route in branch.routes}) for branch in branches if not branch.drops_path]
    assert rates == [(rate,) for rate in rule.rates] if rule.rates else not any(rates)
    if rule.guided_times is not None:
        low, high = rule.guided_times
        assert 0 <= low < high


def test_written():
    """A plan writes its blocks and weights in numbers, and reads the same rule again."""
    trial = Trial()
    rule = trial.rule
    read = RULE.options.model_validate(rule.model_dump(mode="json"))
    assert read == rule and read.branches == rule.branches
    if trial.written.routed_blocks == () and not trial.cell.method.family.has_shallow_path:
        blocks = [[(route.start, route.end) for route in routes] for routes in (trial.cell.routes, rule.routed_blocks)]
        assert blocks[0] == blocks[1]
    assert rule.weak_snapshot == (1 if rule.weak_row or rule.weak_snapshot else None)


def test_scale():
    """The prediction is weak + scale (strong - weak); at scale 1 it is the strong branch alone."""
    trial = Trial()
    strong, twice, thrice = (trial.predicted(scale) for scale in (1.0, 2.0, 3.0))
    near(thrice - twice, twice - strong)
    assert len(trial.branches) == 1 or not torch.equal(twice, strong)
    if trial.branches[0] == Branch(trial.branches[0].name):
        subject, times = trial.subject, trial.times[:-1]
        with torch.no_grad():
            plain = [trial.network(subject.x, torch.full((BATCH,), time), subject.y) for time in times]
        near(strong, torch.stack(plain))


def test_batch():
    """A sample does not depend on the others of its batch."""
    trial = Trial()
    parts = [trial.predicted(2.0, first, 2) for first in range(0, BATCH, 2)]
    near(torch.cat(parts, dim=1), trial.predicted(2.0))


def test_cost():
    """The multiply-adds of a sample that a record states are those that are counted."""
    trial = Trial()
    setting, data = setting_of(trial.cell), with_random_text(open_data(trial.cell.data), trial.subject.spec)
    with FlopCounterMode(display=False) as counter:
        list(generate(trial.network, trial.objective, trial.cell.sampling, 0, 1, 1, trial.weak, held_out=data.held_out))
    assert sampling_macs(setting, trial.times, setting) == counter.get_total_flops() // 2
