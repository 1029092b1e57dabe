from __future__ import annotations

import pytest
import torch

from tread_bench.core.describe.families import make_spec
from tread_bench.data.source import ImageSet
from tread_bench.diffusion.objectives.edm.family import EdmOptions
from tread_bench.diffusion.objectives.edm.objective import Edm
from tread_bench.diffusion.objectives.flow.family import FlowOptions
from tread_bench.diffusion.objectives.flow.objective import Flow
from tread_bench.measure.inside import blocks as similarity
from tread_bench.measure.inside.blocks import block_parameters, gradient_norms
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
