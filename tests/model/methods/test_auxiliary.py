"""Auxiliary losses against their formulas, and the networks that target features come from."""

from __future__ import annotations

import hashlib
import math

import pytest
import timm
import torch
from safetensors.torch import save_file

from tests.model.methods.subjects import BACKBONES, batch_range, cell_of, inputs, network_of, trainer_of
from tread_bench.core.errors import UserError
from tread_bench.measure.quality.networks.classifier.network import DIGITS_WEIGHTS, load_classifier
from tread_bench.measure.targets import open_targets
from tread_bench.model.losses.mae.network import Mae
from tread_bench.model.losses.repa.family import RepaOptions
from tread_bench.model.losses.repa.network import default_block
from tread_bench.model.methods.base import Images, Prediction

REPA = {"name": "repa", "projector": 8, "block": 2}


def test_mae_is_its_formula_summed_and_weighted_over_routes():
    generator = torch.Generator().manual_seed(0)
    noised, denoised = (torch.randn(2, 3, 4, 4, generator=generator) for _ in range(2))
    kept = {0: torch.tensor([[0], [3]]), 2: torch.tensor([[0, 1, 2], [1, 2, 3]])}
    loss = Mae(weight=0.1, route_weights=[0.5, 9.0, 2.0], patch=2)
    seen = loss(Prediction(denoised, kept), Images(noised, noised, denoised))

    def error(sample, token):
        row, column = 2 * (token // 2), 2 * (token % 2)
        target = noised[sample, :, row : row + 2, column : column + 2]
        target = (target - target.mean()) / math.sqrt(target.var().item() + 1e-6)
        return (denoised[sample, :, row : row + 2, column : column + 2] - target).square().mean().item()

    first = sum(error(0, i) for i in (1, 2, 3)) + sum(error(1, i) for i in (0, 1, 2))
    third = error(0, 3) + error(1, 0)
    assert seen.item() == pytest.approx(0.1 * (0.5 * first / 6 + 2.0 * third / 2), rel=1e-5)
    (by_default,) = network_of(cell_of("tread", routes="1:1@0.5,3:3@0.25", auxiliary=["mae"])).auxiliaries
    assert by_default.route_weights == (0.5, 0.5)


@pytest.mark.parametrize(("method", "present"), [("dense", 16), ("tread", 8), ("sprint", 8), ("mod", 16)])
def test_repa_is_the_mean_cosine_over_the_tokens_that_are_present(method, present):
    network = network_of(cell_of(method, auxiliary=[REPA]), perturbed=True)
    (repa,) = network.auxiliaries
    x, t, y = inputs()
    with torch.no_grad():
        prediction = network.train_forward(x, t, y, batch_range())
        seen = network.auxiliary_losses(prediction, Images(x, x, x))[0]
        state = prediction.states[2]
        hidden = repa.projector[1](repa.projector[0](state.stream()))
        hidden = repa.projector[4](repa.projector[3](repa.projector[2](hidden)))
        maps = load_classifier(DIGITS_WEIGHTS)[0].body[:-2](x).flatten(2).transpose(1, 2)
        assert hidden.shape[1] == present
        cosines = []
        for sample in range(6):
            for place in range(present):
                token = place if state.ids is None else state.ids[sample, place]
                a, b = hidden[sample, place], maps[sample, token]
                cosines.append(a @ b / (a.norm() * b.norm()))
    assert seen.item() == pytest.approx(-0.5 * torch.stack(cosines).mean().item(), rel=1e-4)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_repa_stands_on_every_family_and_leaves_what_is_judged_alone(backbone):
    plain, aligned = (network_of(cell_of("tread", backbone, auxiliary=a)) for a in ([], [REPA]))
    with torch.no_grad():
        assert torch.equal(plain.eval()(*inputs()), aligned.eval()(*inputs()))
    assert {name.split(".")[0] for name, _ in aligned.named_parameters()} == {"backbone", "auxiliaries"}
    assert not any("targets" in name or "body" in name for name in aligned.state_dict())


def test_the_published_block_keeps_its_place_in_other_depths():
    assert [default_block(blocks) for blocks in (28, 24, 12, 2, 1)] == [7, 6, 2, 0, 0]


def test_copies_share_the_target_network():
    trainer = trainer_of(cell_of("dense", auxiliary=[REPA]))
    assert trainer.average.auxiliaries[0].targets is trainer.network.auxiliaries[0].targets


# Target features


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A timm model with weights of its own, and the file of them."""
    torch.manual_seed(0)
    model = timm.create_model("test_vit", pretrained=False, num_classes=3).eval()
    path = tmp_path_factory.mktemp("weights") / "vit.safetensors"
    save_file(model.state_dict(), path)
    return model, path


def test_features_of_a_timm_model_are_its_own_on_the_grid_of_tokens(vit):
    model, path = vit
    targets = open_targets(RepaOptions(model="test_vit", weights=str(path)))
    x = inputs(2)[0]
    seen = targets(x, (10, 10))
    with torch.no_grad():
        resized = torch.nn.functional.interpolate(
            x.expand(-1, 3, -1, -1) / 2 + 0.5, (160, 160), mode="bicubic", antialias=True
        )
        tokens = model.forward_features((resized - 0.5) / 0.5)[:, model.num_prefix_tokens :]
    assert targets.width == 64
    assert targets.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    torch.testing.assert_close(seen, tokens, rtol=1e-4, atol=1e-4)
    assert targets(x, (4, 4)).shape == (2, 16, 64)


def test_a_torch_file_is_read_as_tensors_alone(vit, tmp_path):
    model, _ = vit
    torch.save(model.state_dict(), tmp_path / "vit.pth")
    assert open_targets(RepaOptions(model="test_vit", weights=str(tmp_path / "vit.pth"))).width == 64
    torch.save({"model": model}, tmp_path / "pickle.pth")
    with pytest.raises(UserError, match="not safe to load"):
        open_targets(RepaOptions(model="test_vit", weights=str(tmp_path / "pickle.pth")))


@pytest.mark.parametrize(
    ("model", "file", "message"),
    [
        ("test_vitt", "vit.safetensors", "test_vit"),
        ("test_resnet", "vit.safetensors", "of test_resnet .*Missing key.*another auxiliary repa.model"),
        ("test_vit", "none.safetensors", "cannot read"),
        ("test_vit", "broken.safetensors", "not a file of weights"),
    ],
)
def test_wrong_weights_are_refused_with_the_way_out(vit, model, file, message):
    folder = vit[1].parent
    (folder / "broken.safetensors").write_bytes(b"no weights")
    with pytest.raises(UserError, match=message):
        open_targets(RepaOptions(model=model, weights=str(folder / file)))
