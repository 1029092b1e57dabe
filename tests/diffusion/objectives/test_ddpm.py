"""DDPM, held against the equations of Ho et al. 2020 and of Nichol and Dhariwal 2021, restated over z in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from tests.model.methods.subjects import cell_of, trainer_of
from tests.small_backbones import BACKBONES
from tread_bench.core.describe.families import make_spec
from tread_bench.diffusion.objectives.ddpm.family import SCHEDULES, DdpmOptions, noise_levels
from tread_bench.diffusion.objectives.ddpm.objective import Ddpm
from tread_bench.measure.inside.validation import validation_losses
from tread_bench.model.backbone import build_backbone

FIXED, LEARNED = Ddpm(DdpmOptions()), Ddpm(DdpmOptions(learned_variance=True))
STEPS = torch.tensor([0, 1, 2, 50, 499, 998, 999])


class Restated:
    """The papers' symbols, each (1000,): beta, alpha, the product of alphas, the posterior's variance."""

    def __init__(self, schedule):
        if schedule == "linear":
            self.beta = torch.linspace(0.0001, 0.02, 1000, dtype=torch.float64)
        else:
            self.beta = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
        self.alpha = 1 - self.beta
        self.product = self.alpha.cumprod(0)
        self.before = torch.cat([torch.ones(1, dtype=torch.float64), self.product[:-1]])
        self.posterior = (1 - self.before) / (1 - self.product) * self.beta
        self.clipped = torch.cat([self.posterior[1:2], self.posterior[1:]])

    def posterior_mean(self, z, x, step):
        """Eq. 7 of Ho et al."""
        of_x = self.before[step].sqrt() * self.beta[step] / (1 - self.product[step])
        of_z = self.alpha[step].sqrt() * (1 - self.before[step]) / (1 - self.product[step])
        return of_x.view(-1, 1, 1, 1) * x + of_z.view(-1, 1, 1, 1) * z

    def data(self, z, noise, step):
        """x of z = sqrt(product) x + sqrt(1 - product) noise."""
        product = self.product[step].view(-1, 1, 1, 1)
        return (z - (1 - product).sqrt() * noise) / product.sqrt()


RESTATED = Restated("linear")


def batch(steps=STEPS):
    generator = torch.Generator().manual_seed(0)
    x, noise, first, second = torch.randn(4, len(steps), 2, 4, 4, generator=generator, dtype=torch.float64)
    x = ((x.clamp(-1, 1) + 1) * 127.5).round() / 127.5 - 1  # pixels of 8 bits
    levels = torch.tensor(noise_levels("linear"), dtype=torch.float64)[steps]
    return x, noise, levels, torch.cat([noise + 0.1 * first, second / 2], dim=1).requires_grad_()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_levels_are_those_of_the_betas(schedule):
    restated = Restated(schedule)
    expected = ((1 - restated.product) / restated.product).sqrt()
    levels = torch.tensor(noise_levels(schedule), dtype=torch.float64)
    torch.testing.assert_close(levels, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(Ddpm(DdpmOptions(schedule=schedule)).levels(levels.device), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_sampling_takes_the_steps_of_adm_for_every_number_of_them(schedule):
    """ADM's `space_timesteps` of one section, restated: the stride is added up, and each sum rounded."""
    levels, ddpm = noise_levels(schedule), Ddpm(DdpmOptions(schedule=schedule))
    for count in range(2, 1001):
        at, taken = 0.0, []
        for _ in range(count):
            taken.append(round(at))
            at += 999 / (count - 1)
        assert ddpm.sampling_times(count) == [*(levels[step] for step in reversed(taken)), 0.0]
    assert ddpm.sampling_times(35)[17] == levels[499]
    assert ddpm.sampling_times(1) == [levels[999], 0.0]


def test_the_network_sees_z_and_the_number_of_its_step():
    x, noise, levels, _ = batch()
    seen = []
    FIXED.losses(lambda *inputs: seen.append(inputs) or noise, x, noise, levels)
    product = RESTATED.product[STEPS].view(-1, 1, 1, 1)
    torch.testing.assert_close(seen[0][0], product.sqrt() * x + (1 - product).sqrt() * noise)
    assert torch.equal(seen[0][1], STEPS.double())


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_level_of_a_step_has_exactly_its_number(schedule, dtype):
    ddpm = Ddpm(DdpmOptions(schedule=schedule))
    assert torch.equal(ddpm.steps(torch.tensor(noise_levels(schedule), dtype=dtype)), torch.arange(1000).double())


def test_between_two_steps_the_number_follows_the_logarithm_of_the_level():
    low, high = noise_levels("linear")[7:9]
    levels = torch.tensor([low**0.75 * high**0.25, low**0.5 * high**0.5, 1e-9, 1e9], dtype=torch.float64)
    torch.testing.assert_close(FIXED.steps(levels), torch.tensor([7.25, 7.5, 0, 999], dtype=torch.float64))


def test_without_a_learned_variance_the_loss_is_the_error_of_the_noise():
    x, noise, levels, output = batch()
    found = FIXED.losses(lambda *_: output[:, :2], x, noise, levels)
    torch.testing.assert_close(found, (output[:, :2] - noise).square().mean((1, 2, 3)))


def hybrid(output, x, noise, steps):
    """L_simple + L_vlb / 1000 of Nichol and Dhariwal, one step for the sum of 1,000; L_vlb trains no mean."""
    # The posterior's step from z, and the network's.
    product = RESTATED.product[steps].view(-1, 1, 1, 1)
    z = product.sqrt() * x + (1 - product).sqrt() * noise
    prediction, learned = output.chunk(2, dim=1)
    mean = RESTATED.posterior_mean(z, RESTATED.data(z, prediction.detach(), steps), steps)
    smallest = RESTATED.clipped[steps].log().view(-1, 1, 1, 1).expand_as(x)
    share = (learned + 1) / 2
    deviation = (share * RESTATED.beta[steps].log().view(-1, 1, 1, 1) + (1 - share) * smallest).exp().sqrt()

    # Its divergence, and at the first step the probability of 8-bit values.
    posterior = Normal(RESTATED.posterior_mean(z, x, steps), (smallest / 2).exp())
    divergence = kl_divergence(posterior, Normal(mean, deviation))
    above, below = (normal_cdf((x - mean + edge) / deviation) for edge in (1 / 255, -1 / 255))
    above, below = torch.where(x == 1, torch.ones_like(x), above), torch.where(x == -1, torch.zeros_like(x), below)
    bits = torch.where(steps.view(-1, 1, 1, 1) == 0, -(above - below).clamp(min=1e-12).log(), divergence) / math.log(2)
    return ((prediction - noise).square() + bits).mean((1, 2, 3))


def normal_cdf(x):
    """The approximation of ADM's code."""
    return (1 + torch.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2


def test_the_hybrid_loss_and_its_gradient_are_those_of_the_papers():
    x, noise, levels, output = batch()
    found, expected = LEARNED.losses(lambda *_: output, x, noise, levels), hybrid(output, x, noise, STEPS)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
    gradients = [torch.autograd.grad(losses.sum(), output)[0] for losses in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("name", "first"), [("DiT", 0), ("DiS", 0), ("DRWKV", 0), ("U-ViT", 1)])
def test_a_family_embeds_the_numbers_that_its_release_counts(name, first):
    family, spec = make_spec(**{**BACKBONES[name], "image_size": 8, "channels": 1, "num_classes": 3})
    backbone = build_backbone(family, spec, seed=0, objective=DdpmOptions())
    embed, embedded = backbone.embed, []
    backbone.embed = lambda x, t, y: embedded.append(t) or embed(x, t, y)
    levels = torch.tensor(noise_levels("linear"))[STEPS]
    with torch.no_grad():
        FIXED.velocity(backbone, torch.randn(len(STEPS), 1, 8, 8), levels)
    assert torch.equal(embedded[0], (STEPS + first).float())


@pytest.mark.parametrize(("method", "learned"), [("dense", True), ("tread", False), ("mask", True), ("sprint", False)])
def test_trains_and_is_validated_at_its_eight_levels(method, learned):
    options = {"mae_weight": 0} if method == "mask" else {}
    trainer = trainer_of(cell_of(method, objective={"name": "ddpm", "learned_variance": learned}, options=options))
    losses = [trainer.step(trainer.batch(step)).item() for step in range(3)]
    assert all(0.2 < loss < 40 for loss in losses)  # an untrained network's error is about 1
    assert losses[0] != losses[1]
    found = validation_losses(trainer.network.eval(), trainer.objective, trainer.data.held_out, 16, 8)
    assert [float(sigma) for sigma in found] == pytest.approx(trainer.objective.validation_times, rel=1e-5)
    assert all(math.isfinite(loss) for loss in found.values())
