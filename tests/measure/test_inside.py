"""What is measured inside a network: similarity of layers, gradients of blocks, and the gap to inference."""

from __future__ import annotations

import pytest
import torch

from tests.model.methods.subjects import answering, network_of
from tread_bench.core.config.routed import setting_of, with_blocks
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.families import make_spec
from tread_bench.data.source import ImageSet
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.diffusion.objectives.edm.family import EdmOptions
from tread_bench.diffusion.objectives.edm.objective import Edm
from tread_bench.diffusion.objectives.flow.family import FlowOptions
from tread_bench.diffusion.objectives.flow.objective import Flow
from tread_bench.measure.inside import blocks as similarity
from tread_bench.measure.inside.blocks import block_parameters, gradient_norms
from tread_bench.measure.inside.validation import routed_gap, validation_losses
from tread_bench.model.backbone import build_backbone
from tread_bench.model.ops.similarity import cosine_across_times, cosine_between_layers, unit_vectors


def test_are_the_means_of_the_tokens_cosines():
    outputs = torch.randn(3, 4, 10, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))  # T L M D
    unit = unit_vectors(outputs)
    cosine = torch.nn.functional.cosine_similarity
    between = cosine(outputs[:, :, None], outputs[:, None], dim=-1).mean((0, -1))
    torch.testing.assert_close(cosine_between_layers(unit), between)
    by_layer = outputs.transpose(0, 1)
    across = cosine(by_layer[:, :, None], by_layer[:, None], dim=-1).mean(-1)
    torch.testing.assert_close(cosine_across_times(unit), across)


@pytest.fixture
def model():
    family, spec = make_spec("DiT", depth=3, hidden=16, heads=2, patch=2, image_size=4, channels=1, num_classes=3)
    model = build_backbone(family, spec, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return model


def test_number_of_images_at_a_time_changes_nothing(model, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (7, 1, 4, 4), dtype=torch.uint8, generator=generator).numpy()
    images = ImageSet(pixels, torch.arange(7).numpy() % 3)
    measured = []
    for tokens in (12, 1000):
        monkeypatch.setattr(similarity, "TOKENS_AT_A_TIME", tokens)
        measured.append(similarity.layer_similarity(model, Flow(FlowOptions()), images, 7, (0.2, 0.8)))
    some, every = measured
    torch.testing.assert_close(torch.tensor(some.matrix), torch.tensor(every.matrix))
    torch.testing.assert_close(torch.tensor(some.across_times), torch.tensor(every.across_times))
    assert torch.tensor(every.across_times).shape == (3, 2, 2)


def test_blocks_are_given_what_the_objective_makes_of_the_image(model):
    edm, x, y = Edm(EdmOptions()), 3 * torch.randn(2, 1, 4, 4), torch.tensor([0, 2])
    sigma = torch.tensor([0.1, 3.0])
    _, _, c_in, c_noise = edm.preconditioning(sigma)
    expected: list[torch.Tensor] = []
    model(c_in * x, c_noise, y, on_block=lambda block, state: expected.append(state.stream()))
    assert torch.equal(similarity.block_outputs(model, edm, x, sigma, y), torch.stack(expected))


def test_gradient_norms_are_those_of_backward(model):
    x, t, y = torch.randn(2, 1, 4, 4), torch.rand(2), torch.tensor([0, 2])
    loss = lambda: model(x, t, y).square().mean()  # noqa: E731
    norms = gradient_norms(block_parameters(model, x, t, y), [loss, loss])
    loss().backward()
    for block, norm in zip(model.blocks, norms, strict=True):
        squares = sum(p.grad.double().square().sum().item() for p in block.parameters())
        assert norm == pytest.approx(squares**0.5, rel=1e-6)


RATES = (0, 0.25, 0.5, 0.75)


def made(objective="flow", **backbone):
    """A cell and its network with weights that answer to everything."""
    metrics = {"validation_samples": 12, "similarity_samples": 6, "routed_rates": RATES, "routed_blocks": "1:2"}
    sizes = {"name": "DiT", "depth": 4, "hidden": 32, "heads": 2, "patch": 2, **backbone}
    asked = {"backbone": sizes, "objective": objective, "training": {"iterations": 8}, "metrics": metrics}
    cell = with_blocks(setting_of(Cell.model_validate(asked)))
    return cell, answering(network_of(cell))


@pytest.mark.parametrize(("objective", "backbone"), [("flow", "DiT"), ("edm", "U-ViT")])  # with a prefix
def test_at_rate_zero_the_network_is_dense(digits, objective, backbone):
    cell, network = made(objective, name=backbone)
    objective = build_objective(cell.objective)
    gap = routed_gap(network, objective, digits.held_out, cell.metrics)
    dense = validation_losses(network, objective, digits.held_out, 12, 256)
    at_zero = gap.rates[0]
    assert at_zero.validation_loss_per_time == pytest.approx(dense)
    assert at_zero.validation_loss == pytest.approx(sum(dense.values()) / 8)
    assert gap.blocks == "1:2" and [at.rate for at in gap.rates] == list(RATES)
    assert gap.rates[-1].validation_loss != at_zero.validation_loss


def test_figures_do_not_depend_on_the_batch(digits):
    cell, network = made()
    objective = build_objective(cell.objective)
    whole = routed_gap(network, objective, digits.held_out, cell.metrics)
    parts = routed_gap(network, objective, digits.held_out, cell.metrics.model_copy(update={"batch": 5}))
    for a, b in zip(whole.rates, parts.rates, strict=True):
        assert a.validation_loss == pytest.approx(b.validation_loss, rel=1e-5)
