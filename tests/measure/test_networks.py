"""Feature networks against a restatement: DINOv2 as released, and Inception as torch-fidelity has it."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file
from torch_fidelity import FeatureExtractorInceptionV3

from tests.measure.random_images import difference, random_images
from tread_bench.core.errors import UserError
from tread_bench.data.pretrained import full_float32
from tread_bench.measure.quality.features import open_extractor
from tread_bench.measure.quality.networks.dinov2.extractor import open_dinov2
from tread_bench.measure.quality.networks.dinov2.family import DINOV2
from tread_bench.measure.quality.networks.inception.extractor import open_inception

WIDTH, HEADS, DEPTH, STORED_SIDE = 384, 6, 12, 37  # ViT-S/14, positions of images of 518 pixels


@pytest.fixture(scope="module")
def weights():
    """Random ones, by timm's names, with layer scales that let every block count."""
    torch.manual_seed(0)
    model = timm.create_model("vit_small_patch14_dinov2", pretrained=False, num_classes=0)
    weights = model.state_dict()
    for name, tensor in weights.items():
        if name.endswith("gamma"):
            tensor.uniform_(0.1, 0.5)
    weights["pos_embed"].normal_(0, 0.2)
    weights["cls_token"].normal_()
    return weights


@pytest.fixture(scope="module")
def released(weights, tmp_path_factory):
    """A file with what the release has besides: the token of masked patches."""
    path = tmp_path_factory.mktemp("dinov2") / "dinov2_vits14_pretrain.pth"
    torch.save({**weights, "mask_token": torch.zeros(1, WIDTH)}, path)
    return path


def cubic(t, a=-0.75):
    """Weights of the four neighbours at distances 1 + t, t, 1 - t and 2 - t (Keys 1981)."""
    near = [(a + 2) * x**3 - (a + 3) * x**2 + 1 for x in (t, 1 - t)]
    far = [a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a for x in (1 + t, 2 - t)]
    return np.array([far[0], *near, far[1]])


def restated_positions(table, grid=16):
    """Bicubic at (i + 1/2) * side / (grid + 0.1) - 1/2 along both axes, edges repeated, without antialiasing."""
    side = math.isqrt(table.shape[1] - 1)
    weights = np.zeros((grid, side))
    for i in range(grid):
        at = (i + 0.5) * side / (grid + 0.1) - 0.5
        low = math.floor(at)
        for k, weight in enumerate(cubic(at - low)):
            weights[i, min(max(low - 1 + k, 0), side - 1)] += weight
    patches = table[0, 1:].double().numpy().reshape(side, side, -1)
    small = np.einsum("ia,jb,abd->ijd", weights, weights, patches).reshape(grid * grid, -1)
    return torch.cat([table[0, :1], torch.from_numpy(small).float()])[None]


def restated_by_pillow(pixels):
    """dgm-eval's resize, and EDM2's mode "pil": whole levels, 0 to 255."""
    small = [Image.fromarray(one.permute(1, 2, 0).numpy()).resize((224, 224), Image.BICUBIC) for one in pixels]
    return torch.from_numpy(np.stack([np.asarray(one, np.float32) for one in small])).permute(0, 3, 1, 2)


def restated_by_torch(pixels):
    """EDM2's mode "torch", its default: levels are not rounded, and not clipped."""
    return F.interpolate(pixels.to(torch.float32), size=(224, 224), mode="bicubic", antialias=True)


RESTATED = {"pillow": restated_by_pillow, "torch": restated_by_torch}


def restated(w, images):
    """Class tokens of a vision transformer with layer scale, of images of 224 pixels, 0 to 255."""
    x = images / 255
    x = (x - torch.tensor([0.485, 0.456, 0.406])[:, None, None]) / torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    x = F.conv2d(x, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=14).flatten(2).transpose(1, 2)
    x = torch.cat([w["cls_token"].expand(len(x), -1, -1), x], 1) + restated_positions(w["pos_embed"])
    for i in range(DEPTH):
        block = {name.removeprefix(f"blocks.{i}."): one for name, one in w.items() if name.startswith(f"blocks.{i}.")}
        y = F.layer_norm(x, (WIDTH,), block["norm1.weight"], block["norm1.bias"], 1e-6)
        qkv = F.linear(y, block["attn.qkv.weight"], block["attn.qkv.bias"])
        q, k, v = (one.unflatten(2, (HEADS, -1)).transpose(1, 2) for one in qkv.chunk(3, 2))
        y = (q @ k.mT / math.sqrt(WIDTH // HEADS)).softmax(-1) @ v
        y = F.linear(y.transpose(1, 2).flatten(2), block["attn.proj.weight"], block["attn.proj.bias"])
        x = x + block["ls1.gamma"] * y
        y = F.layer_norm(x, (WIDTH,), block["norm2.weight"], block["norm2.bias"], 1e-6)
        y = F.gelu(F.linear(y, block["mlp.fc1.weight"], block["mlp.fc1.bias"]))
        x = x + block["ls2.gamma"] * F.linear(y, block["mlp.fc2.weight"], block["mlp.fc2.bias"])
    return F.layer_norm(x[:, 0], (WIDTH,), w["norm.weight"], w["norm.bias"], 1e-6)


@pytest.mark.parametrize("resize", RESTATED)
def test_class_tokens_are_those_of_the_released_network(resize, released, weights):
    pixels = random_images(3, side=64)
    found = open_dinov2(released, resize).features(pixels)
    assert (found.pooled.shape, found.logits, found.spatial) == ((3, WIDTH), None, None)
    assert difference(found.pooled, restated(weights, RESTATED[resize](pixels))) < 1e-4


def test_the_resize_is_in_the_identity_and_that_of_pillow_is_the_one_of_before(released):
    usual, pillow, torch_s = (
        open_extractor(DINOV2.options.model_validate({"weights": str(released), **settings}), (3, 8))
        for settings in ({}, {"resize": "pillow"}, {"resize": "torch"})
    )
    before = (
        "uint8, Pillow bicubic to 224x224, / 255, ImageNet mean and deviation; "
        "positions bicubic without antialias by (16 + 0.1) / side; class token after the last norm"
    )
    file_sha256 = hashlib.sha256(released.read_bytes()).hexdigest()
    expected = hashlib.sha256(json.dumps([file_sha256, before]).encode()).hexdigest()
    assert usual.sha256 == pillow.sha256 == expected != torch_s.sha256
    assert (usual.settings, pillow.settings, torch_s.settings) == ({}, {}, {"resize": "torch"})
    assert usual.name == "vit_small_patch14_dinov2"  # only the large one has the protocol's name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"register_tokens": torch.zeros(1, 4, WIDTH)}, "it has registers"),
        ({"cls_token": torch.zeros(1, 1, 100)}, r"its class token has shape \(1, 1, 100\)"),
        ({"pos_embed": torch.zeros(1, 300, WIDTH)}, "its table of 300 positions is not a square"),
        ({"pos_embed": torch.zeros(1, 257, 100)}, "its class token has shape"),
        ({"cls_token": torch.zeros(WIDTH)}, "it has no class token"),
    ],
)
def test_other_weights_are_refused_with_the_way_out(changes, message, weights, tmp_path):
    save_file({**weights, **changes}, tmp_path / "other.safetensors")
    with pytest.raises(UserError, match=rf"not the weights of DINOv2 \(.*{message}.*give dinov2_vitl14_pretrain\.pth"):
        open_dinov2(tmp_path / "other.safetensors")


FEW = 2


@pytest.fixture(scope="module")
def extractor(inception_weights):
    return open_inception(inception_weights)


@pytest.fixture(scope="module")
def ours(extractor):
    return extractor.features(random_images(FEW), spatial=True)


def test_spatial_features_change_nothing_else_and_come_only_if_requested(ours, extractor):
    without = extractor.features(random_images(FEW))
    assert without.spatial is None
    assert torch.equal(without.pooled, ours.pooled) and torch.equal(without.logits, ours.logits)
    assert not extractor.network.Mixed_6d.branch1x1._forward_hooks


def test_it_is_torch_fidelity_s_network(inception_weights, ours):
    """Spatial features are the first 7 channels of `mixed_6/conv`, channels last: 7 x 17 x 17 of 192 x 17 x 17."""
    theirs, maps = FeatureExtractorInceptionV3("inception", ["2048", "logits_unbiased"], str(inception_weights)), []
    theirs.Mixed_6d.branch1x1.register_forward_hook(lambda module, inputs, output: maps.append(output))
    with full_float32(torch.device("cpu")):  # whatever a test before it chose
        pooled, logits = theirs(random_images(FEW))
    assert maps[0][:, :7].std() > 1e-3 and pooled.std() > 1e-3  # no layer has died out
    assert torch.equal(pooled, ours.pooled) and torch.equal(logits, ours.logits)
    assert maps[0].shape == (FEW, 192, 17, 17)
    assert torch.equal(maps[0].permute(0, 2, 3, 1)[..., :7].reshape(FEW, 7 * 17 * 17), ours.spatial)
