from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from tests.captioned_digits import TOKENS, WIDTH, CaptionedDigits, read_captioned
from tread_bench.core.config.sampling import Churn, Sampling
from tread_bench.core.describe.families import make_spec
from tread_bench.core.describe.objectives import samplers
from tread_bench.diffusion.conditioning import held_out_captions
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.objectives.ddpm.family import DdpmOptions
from tread_bench.diffusion.objectives.ddpm.objective import Ddpm
from tread_bench.diffusion.objectives.edm.family import EdmOptions
from tread_bench.diffusion.objectives.edm.objective import Edm
from tread_bench.diffusion.objectives.flow.family import FlowOptions
from tread_bench.diffusion.objectives.flow.objective import Flow

EDM, FLOW, DDPM = Edm(EdmOptions()), Flow(FlowOptions()), Ddpm(DdpmOptions())
LEARNED = Ddpm(DdpmOptions(learned_variance=True))


class Pointwise(nn.Module):
    """A network of plain arithmetic on single pixels, whose output does not depend on the batch in any bit."""

    returns_variance = False

    def __init__(self) -> None:
        super().__init__()
        _, self.spec = make_spec("DiT", depth=1, hidden=8, heads=1, patch=2, image_size=4, channels=1, num_classes=3)
        self.weight = nn.Parameter(torch.tensor(0.7))
        self.calls: list[int] = []

    @property
    def backbone(self):
        return self

    def forward(self, x, t, y=None):
        assert x.dtype == t.dtype == torch.float32
        self.calls.append(len(x))
        return self.weight * x / (1 + x.abs()) + t.view(-1, 1, 1, 1) / (2 + y.view(-1, 1, 1, 1))


def images(objective, batch, network=None, seed=3, **sampling):
    settings = Sampling(**{"steps": 5, **sampling})
    return torch.cat(list(generate(network or Pointwise(), objective, settings, seed, 10, batch)))


INDEPENDENT = [
    *product((FLOW,), ("euler", "heun"), (None,)),
    *product((EDM, DDPM), samplers(), (None,)),
    *product((EDM,), ("euler", "heun"), (Churn(s_churn=3),)),
]


@pytest.mark.parametrize(("objective", "sampler", "churn"), INDEPENDENT)
def test_an_image_depends_on_its_index_alone(objective, sampler, churn):
    whole = images(objective, 10, sampler=sampler, churn=churn)
    assert whole.dtype == torch.float32 and whole.shape == (10, 1, 4, 4)
    for batch in (1, 3, 7):
        assert torch.equal(images(objective, batch, sampler=sampler, churn=churn), whole)
    assert not torch.equal(images(objective, 10, sampler=sampler, churn=churn, seed=4), whole)
    assert torch.equal(images(objective, 10, sampler=sampler), whole) == (churn is None)


class Varying(Pointwise):
    """Says behind its prediction that the variance depends on the label."""

    returns_variance = True

    def forward(self, x, t, y=None):
        return torch.cat([super().forward(x, t, y), (y.view(-1, 1, 1, 1) - 1).expand_as(x)], dim=1)


def test_the_variance_of_ancestral_samples_is_the_network_s_and_not_guided():
    whole = images(LEARNED, 10, Varying(), sampler="ddpm")
    assert torch.equal(images(LEARNED, 3, Varying(), sampler="ddpm"), whole)
    fixed = images(DDPM, 10, sampler="ddpm")
    smallest = torch.arange(10) % 3 == 0  # the label 0, for which it says the posterior's variance
    torch.testing.assert_close(whole[smallest], fixed[smallest])
    assert ((whole - fixed)[~smallest].abs().amax((1, 2, 3)) > 1e-3).all()

    # Without the label, 3, the weak branch says another variance, which does not count.
    guided = {"sampler": "ddpm", "guidance": "cfg", "guidance_scale": 2}
    of_network, of_fixed = images(LEARNED, 10, Varying(), **guided), images(DDPM, 10, **guided)
    torch.testing.assert_close(of_network[smallest], of_fixed[smallest])


class Reading(Pointwise):
    """Writes the sum of its text into every pixel, and notes the text."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = self.spec.model_copy(update={"num_classes": 0, "context_tokens": TOKENS, "context_dim": WIDTH})
        self.read: list[torch.Tensor] = []

    def forward(self, x, t, y=None):
        self.read.append(y)
        return self.weight * x / (1 + x.abs()) + y.sum((1, 2)).view(-1, 1, 1, 1)


def test_samples_are_made_for_the_held_out_captions_in_turn():
    held_out = read_captioned(CaptionedDigits()).held_out
    few = replace(held_out, pixels=held_out.pixels[:7], classes=held_out.classes[:7], numbers=held_out.numbers[:7])
    expected = few.text(np.arange(10) % 7, 0, 0)
    made = {}
    for batch, turns in ((10, 1), (4, 1), (3, 2)):
        parts = []
        for turn in range(turns):
            network = Reading()
            images = list(generate(network, FLOW, Sampling(steps=1), 3, 10, batch, turn=(turn, turns), held_out=few))
            parts += [
                (turn + turns * number, *both) for number, both in enumerate(zip(images, network.read, strict=True))
            ]
        parts.sort(key=lambda part: part[0])
        assert torch.equal(torch.cat([text for _, _, text in parts]), expected)
        made[batch] = torch.cat([image for _, image, _ in parts])
    assert torch.equal(made[10], made[4]) and torch.equal(made[10], made[3])
    assert held_out_captions(few, 0, 10) == few.captions(np.arange(10) % 7, 0, 0)


def test_without_their_caption_samples_have_the_empty_one():
    network, held_out = Reading(), read_captioned(CaptionedDigits()).held_out
    sampling = Sampling(steps=1, guidance="cfg", guidance_scale=2)
    list(generate(network, FLOW, sampling, 3, 5, 5, held_out=held_out))
    weak, strong = sorted(network.read, key=lambda text: not torch.equal(text[0], held_out.empty_text))
    assert torch.equal(weak, held_out.empty_text.expand(5, -1, -1))
    assert torch.equal(strong, held_out.text(np.arange(5), 0, 0))


@pytest.mark.parametrize(("step", "amount"), [("CallsTwice", "more"), ("CallsNever", "fewer")])
def test_a_sampler_that_makes_other_calls_than_are_costed_is_refused(step, amount, monkeypatch):
    other = replace(samplers.find("euler"), builder=f"tests.diffusion.samplers.broken:{step}")
    monkeypatch.setattr(Sampling, "sampler_family", other)
    with pytest.raises(RuntimeError, match=f"sampler euler makes {amount} calls than its call_times say"):
        images(FLOW, 10)
