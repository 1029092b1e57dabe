"""Autoencoders of diffusers from folders: the same numbers as diffusers gives, and nothing from anywhere else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.data.tiny_vae import LATENT, SIDE, write_vae
from tread_bench.core.errors import UserError
from tread_bench.data.encode.vae import CHUNK, Vae

KINDS = tuple(LATENT)


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Vae]:
    """A model, and the folder that it was written to, opened."""
    folder = tmp_path_factory.mktemp("vae")
    return write_vae(folder, request.param), Vae(folder)


@pytest.mark.parametrize("count", [1, CHUNK, CHUNK + 3])
def test_it_encodes_and_decodes_as_diffusers_however_many_there_are(pair: tuple[Any, Vae], count: int) -> None:
    model, vae = pair
    images = torch.rand(2 * CHUNK, 3, SIDE, SIDE) * 2 - 1
    encoded = vae.encode(images)
    assert torch.equal(vae.encode(images[:count]), encoded[:count])
    with torch.no_grad():
        found = model.encode(images[:CHUNK])
    expected = found.latent_dist.parameters if vae.has_posterior else found.latent
    assert torch.equal(encoded[:CHUNK], expected)
    assert tuple(encoded.shape[1:]) == vae.encoded_shape((3, SIDE, SIDE)) and vae.encoded_shape((1, SIDE, SIDE)) is None

    latents = torch.randn(2 * CHUNK, *LATENT[vae.kind])
    decoded = vae.decode(latents)
    assert torch.equal(vae.decode(latents[:count]), decoded[:count])
    with torch.no_grad():
        assert torch.equal(decoded[:CHUNK], model.decode(latents[:CHUNK]).sample)
    assert tuple(decoded.shape[1:]) == vae.decoded_shape(LATENT[vae.kind]) == (3, SIDE, SIDE)
    assert vae.decoded_shape((3, 8, 8)) is None


OF_CHANNELS = {"scaling_factor": 0.5, "latents_mean": [1.0, 2.0, 3.0, 4.0], "latents_std": [2.0, 4.0, 1.0, 0.5]}


@pytest.mark.parametrize(
    ("settings", "scale", "shift"),
    [
        ({"scaling_factor": 0.18215}, 0.18215, None),
        ({"scaling_factor": 1.5305, "shift_factor": 0.0609}, 1.5305, 0.0609),  # of Stable Diffusion 3
        # (latent - mean) / std * scaling_factor, as pipelines with a playground-v2.5 autoencoder compute
        (OF_CHANNELS, (0.25, 0.125, 0.5, 1.0), (1.0, 2.0, 3.0, 4.0)),
    ],
)
def test_scale_and_shift_are_those_of_diffusion_pipelines(tmp_path: Path, settings: Any, scale: Any, shift: Any):
    write_vae(tmp_path, **settings)
    assert (Vae(tmp_path).scale, Vae(tmp_path).shift) == (scale, shift)


def test_weights_in_half_precision_are_computed_with_in_float32(tmp_path: Path) -> None:
    write_vae(tmp_path).half().save_pretrained(tmp_path)
    vae = Vae(tmp_path)
    images = torch.rand(1, 3, SIDE, SIDE)
    with torch.autocast("cpu", torch.bfloat16):
        inside = vae.encode(images)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, vae.encode(images))


def test_its_hash_is_that_of_configuration_and_weights(tmp_path: Path) -> None:
    for name, about in {"a": {}, "b": {}, "c": {"seed": 1}, "d": {"scaling_factor": 1.0}}.items():
        write_vae(tmp_path / name, **about)
    first, same, *others = (Vae(tmp_path / name).sha256 for name in "abcd")
    assert first == same and len({first, *others}) == 3


# What is refused

WEIGHTS = "diffusion_pytorch_model.safetensors"


def configured(**values: Any) -> Any:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


def weights(change: Any) -> Any:
    def harm(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS, {"format": "pt"})

    return harm


REFUSED = [
    (lambda folder: (folder / "config.json").unlink(), r"config\.json: no such file; .*its subfolder vae"),
    (lambda folder: (folder / "config.json").write_text("[]"), r"config\.json: not a JSON object"),
    (configured(_class_name="UNet2DModel"), r"_class_name is 'UNet2DModel' and must be AutoencoderKL or AutoencoderDC"),
    (configured(norm_num_groups=3), r"diffusers .* cannot load its AutoencoderKL"),
    (configured(quantization_config={"quant_method": "torchao"}), "quantised weights are not read"),
    (lambda folder: (folder / WEIGHTS).unlink(), r"weights are read from one file, .*safe_serialization=True\)"),
    (lambda folder: (folder / f"{WEIGHTS}.index.json").write_text("{}"), "weights are read from one file"),
    (weights(lambda tensors: tensors.pop("decoder.conv_out.bias")), r"1 weights are missing, such as decoder\.conv"),
    (weights(lambda tensors: tensors.update(more=torch.zeros(1))), "1 weights are unknown, such as more"),
]


@pytest.mark.parametrize(("damage", "told"), REFUSED)
def test_a_folder_without_a_whole_autoencoder_is_refused_in_one_message(
    tmp_path: Path, damage: Any, told: str, caplog: Any, capfd: Any
) -> None:
    write_vae(tmp_path / "vae")
    damage(tmp_path / "vae")
    with pytest.raises(UserError, match=told):
        Vae(tmp_path / "vae")
    assert not caplog.records and capfd.readouterr() == ("", "")


def test_without_diffusers_the_message_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": "AutoencoderKL"}))
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(UserError, match=r"needs diffusers .*: pip install 'tread-bench\[vae\]'"):
        Vae(tmp_path)
