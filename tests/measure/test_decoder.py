"""Decoders from torch.export files: the same pictures as the module gives, and nothing but arithmetic."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.data.tiny_vae import LATENT, SIDE, write_vae
from tests.traps import Trap
from tread_bench.core.errors import UserError
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.source import to_uint8
from tread_bench.measure.quality.decoder import BATCH, Decoder, open_decoder, to_pixels
from tread_bench.measure.quality.fingerprint import _decoding


class SmallDecoder(nn.Module):
    """The operations of SD-VAE's decoder: convolution, group norm, attention, upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
        self.norm, self.qkv = nn.GroupNorm(4, 16), nn.Linear(16, 48)

    def forward(self, latents: Tensor) -> Tensor:
        x = F.silu(self.norm(self.enter(latents)))
        q, k, v = self.qkv(x.flatten(2).transpose(1, 2)).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).unflatten(2, x.shape[2:])
        return torch.tanh(self.leave(F.interpolate(x, scale_factor=2.0)))


def write(path: Path, module: nn.Module, shape: tuple[int, ...] = (BATCH, 4, 4, 4), **options: Any) -> Path:
    torch.export.save(torch.export.export(module.eval(), (torch.zeros(shape),), **options), path)
    return path


def data(path: Path, **choice: Any) -> LatentsData:
    form = {"image_size": 4, "decoded_size": 8, "images": ("i",), **choice}
    return LatentsData(name="latents", train=("t",), held_out=("h",), decoder=str(path), **form)


@pytest.fixture(scope="module")
def module() -> nn.Module:
    torch.manual_seed(0)
    return SmallDecoder()


@pytest.fixture(scope="module")
def path(module: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("decoder") / "decoder.pt2", module)


def test_pictures_are_those_of_the_module_on_unscaled_latents(module: nn.Module, path: Path) -> None:
    latents = torch.randn(BATCH, 4, 4, 4)
    decoder = Decoder(data(path, scale=0.25))
    with torch.no_grad():
        assert torch.equal(decoder(latents), module(latents * 4))
        assert torch.equal(to_pixels(latents, decoder), to_uint8(module(latents * 4)))


@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH + 1, 2 * BATCH + 5])
def test_a_picture_does_not_depend_on_how_many_are_decoded(path: Path, count: int) -> None:
    latents, decoder = torch.randn(3 * BATCH, 4, 4, 4), Decoder(data(path))
    assert torch.equal(decoder(latents[:count]), decoder(latents)[:count])


def test_the_precision_of_the_training_does_not_reach_the_decoder(path: Path) -> None:
    latents, decoder = torch.randn(3, 4, 4, 4), Decoder(data(path))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(decoder(latents), decoder(latents).float())
        inside = decoder(latents)
    assert torch.equal(inside, decoder(latents))


def test_latents_that_are_not_finite_have_no_pixels(path: Path) -> None:
    with pytest.raises(FloatingPointError, match="the model diverged"):
        to_pixels(torch.full((2, 4, 4, 4), torch.nan), Decoder(data(path)))


def test_without_a_decoder_samples_are_the_images() -> None:
    images = torch.rand(2, 1, 3, 3) * 2 - 1
    assert torch.equal(to_pixels(images, None), to_uint8(images))
    assert open_decoder(LatentsData(name="latents", train=("t",), held_out=("h",))) is None


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"image_size": 8}, r"must map float32 \(16, 4, 8, 8\) to float32 \(16, 3, 8, 8\)"),
        ({"decoded_size": 16}, r"maps float32 \(16, 4, 4, 4\) to float32 \(16, 3, 8, 8\)"),
        ({"channels": 16}, r"set data\.channels, data\.image_size or data\.decoded_size"),
    ],
)
def test_a_decoder_of_other_shapes_is_refused(path: Path, choice: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Decoder(data(path, **choice))


def test_an_open_batch_is_refused(module: nn.Module, tmp_path: Path) -> None:
    path = write(tmp_path / "open.pt2", module, dynamic_shapes=({0: torch.export.Dim("batch")},))
    with pytest.raises(UserError, match=r"open\.pt2: .*a size is not fixed .*with an input of fixed sizes"):
        Decoder(data(path))


# Autoencoders of diffusers in folders


@pytest.fixture(scope="module", params=tuple(LATENT))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A model, and the folder that it was written to."""
    path = tmp_path_factory.mktemp("vae")
    return write_vae(path, request.param), path


def of_folder(folder: tuple[Any, Path], **choice: Any) -> LatentsData:
    channels, side, _ = LATENT[type(folder[0]).__name__]
    return data(folder[1], **{"channels": channels, "image_size": side, "decoded_size": SIDE, **choice})


def test_an_autoencoder_decodes_as_diffusers_does_and_of_other_pixels_to_the_same_range(
    folder: tuple[Any, Path],
) -> None:
    """EDM2 encodes pixels in [0, 1], so what comes back is in [0, 1], too, and has a protocol of its own."""
    usual, other = (Decoder(of_folder(folder, scale=0.25, **form)) for form in ({}, {"encoder_input": (0.0, 1.0)}))
    latents = torch.randn(2, *LATENT[type(folder[0]).__name__])
    with torch.no_grad():
        expected = folder[0].decode(latents / 0.25).sample  # of two latents; ours are eight at a time
        torch.testing.assert_close(usual(latents), expected, rtol=0, atol=1e-5)
    assert torch.allclose(other(latents), usual(latents) * 2 - 1, atol=1e-6)
    assert _decoding(other) == {**_decoding(usual), "decoded_pixels": [0.0, 1.0]}


def test_an_autoencoder_of_other_latents_is_refused(folder: tuple[Any, Path]) -> None:
    with pytest.raises(UserError, match=r"does not take latents \(16, 8, 8\), and data\.decoder must map"):
        Decoder(of_folder(folder, channels=16))
    with pytest.raises(UserError, match=r"maps latents .* to images \(3, 16, 16\), .* data\.decoded_size"):
        Decoder(of_folder(folder, decoded_size=32))


def test_the_files_of_an_autoencoder_are_those_that_a_run_watches(folder: tuple[Any, Path]) -> None:
    choice = of_folder(folder)
    read = [path for place, path in choice.family.files(choice, True) if place == ("decoder",)]
    assert read == [str(folder[1] / name) for name in ("config.json", "diffusion_pytorch_model.safetensors")]
    decoding = choice.family.decoding(choice)
    assert decoding is not None and list(decoding.files) == read


# Scale and shift


def test_scale_and_shift_of_each_channel_are_undone(module: nn.Module, path: Path) -> None:
    scale, shift = (0.5, 1.0, 2.0, 4.0), (1.0, 0.0, -1.0, 3.0)
    decoder = Decoder(data(path, scale=scale, shift=shift))
    latents = torch.randn(BATCH, 4, 4, 4)
    unscaled = latents / torch.tensor(scale)[:, None, None] + torch.tensor(shift)[:, None, None]
    with torch.no_grad():
        assert torch.equal(decoder(latents), module(unscaled))


def test_what_decoding_depends_on_is_in_the_protocol(path: Path, tmp_path: Path) -> None:
    array = tmp_path / "shift.npy"
    np.save(array, np.ones((4, 4, 4)))
    one = _decoding(Decoder(data(path)))
    assert one["latent_scale"] == 0.18215 and one["decoding"] == "float32, latents / scale, 16 at a time"
    shifted = _decoding(Decoder(data(path, shift=str(array))))
    assert shifted["decoding"] == "float32, latents / scale + shift, 16 at a time"
    assert "sha256" in shifted["latent_shift"] and str(tmp_path) not in str(shifted)


# Files that somebody else wrote


Members = dict[str, bytes]


def pickled(trap: Trap) -> bytes:
    buffer = io.BytesIO()
    torch.save({"trap": trap}, buffer)
    return buffer.getvalue()


def pickled_weight(members: Members, trap: Trap) -> Members:
    name = next(name for name in members if name.endswith("model_weights_config.json"))
    config = json.loads(members[name])
    about = next(iter(config["config"].values()))
    about["use_pickle"] = True
    return {**members, name: json.dumps(config).encode(), f"d/data/weights/{about['path_name']}": pickled(trap)}


def symbolic_size(members: Members, trap: Trap) -> Members:
    text = f"__import__('os').mkdir('{trap.marker}')"
    size = {"as_expr": {"expr_str": text, "hint": {"as_int": 16}}}

    def change(program: dict[str, Any]) -> None:
        tensors = program["graph_module"]["graph"]["tensor_values"]
        next(iter(tensors.values()))["sizes"][0] = size

    return _program(members, change)


def guard(members: Members, trap: Trap) -> Members:
    text = f"__import__('os').mkdir('{trap.marker}') is None"
    return _program(members, lambda program: program.update(guards_code=[text]))


def injected_name(members: Members, trap: Trap) -> Members:
    """An argument's name whose default is computed when the function is defined."""
    name = next(name for name in members if name.endswith("models/model.json"))
    text = f"latents=__import__('os').mkdir('{trap.marker}')"
    return {**members, name: members[name].replace(b'"latents"', json.dumps(text).encode())}


def factory(members: Members, trap: Trap) -> Members:
    context = {"default_factory_module": "antigravity", "default_factory_name": "fly", "dict_context": []}
    spec = [1, {"type": "collections.defaultdict", "context": json.dumps(context), "children_spec": []}]

    def change(program: dict[str, Any]) -> None:
        program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps(spec)

    return _program(members, change)


def other_operator(members: Members, trap: Trap) -> Members:
    return _with_operator(members, "torch.hub.load")


def from_file(members: Members, trap: Trap) -> Members:
    return _with_operator(members, "torch.ops.aten.from_file.default")


def _with_operator(members: Members, target: str) -> Members:
    return _program(members, lambda program: program["graph_module"]["graph"]["nodes"][0].update(target=target))


def _program(members: Members, change: Callable[[dict[str, Any]], object]) -> Members:
    name = next(name for name in members if name.endswith("models/model.json"))
    program = json.loads(members[name])
    change(program)
    return {**members, name: json.dumps(program).encode()}


def library(members: Members, trap: Trap) -> Members:
    return {**members, "d/data/aotinductor/model/a.so": b"\x7fELF"}


def members_of(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {f"d/{name.partition('/')[2]}": archive.read(name) for name in archive.namelist()}


def write_members(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


DAMAGE = (pickled_weight, symbolic_size, guard, injected_name, factory, other_operator, from_file, library)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_that_would_run_something_is_refused_before_it_does(
    path: Path, tmp_path: Path, damage: Callable[[Members, Trap], Members]
) -> None:
    trap = Trap(tmp_path / "sprung")
    members = members_of(path)
    assert Decoder(data(write_members(tmp_path / "same.pt2", members))).sha256
    with pytest.raises(UserError, match=r"changed\.pt2: not a torch\.export program, or not safe to load"):
        Decoder(data(write_members(tmp_path / "changed.pt2", damage(members, trap))))
    assert not trap.marker.exists()


def test_inputs_of_examples_are_left_unread(path: Path, tmp_path: Path) -> None:
    """torch would unpickle them without restriction, where it fails to with one."""
    trap, members = Trap(tmp_path / "sprung"), members_of(path)
    hostile = {name: pickled(trap) for name in members if "/sample_inputs/" in name}
    changed = write_members(tmp_path / "changed.pt2", {**members, **hostile})
    latents = torch.randn(BATCH, 4, 4, 4)
    assert hostile and torch.equal(Decoder(data(changed))(latents), Decoder(data(path))(latents))
    assert not trap.marker.exists()


def test_a_program_that_torch_refuses_is_one_line_with_the_reason(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    members = members_of(path)
    name = next(name for name in members if name.endswith("/weight_0"))
    cut = write_members(tmp_path / "a.pt2", {**members, name: members[name][:-4]})
    with pytest.raises(UserError, match=r"a\.pt2: not a torch\.export program, .* out of bounds for storage"):
        Decoder(data(cut))
    assert not [record for record in caplog.records if record.exc_info]


def test_files_that_are_no_program(tmp_path: Path) -> None:
    for content in (b"", b"PK\x05\x06" + bytes(18), pickle.dumps({"a": 1})):
        (tmp_path / "a.pt2").write_bytes(content)
        with pytest.raises(UserError, match=r"a\.pt2: not a torch\.export program"):
            Decoder(data(tmp_path / "a.pt2"))
    with pytest.raises(UserError, match=r"none\.pt2: cannot read data\.decoder \(No such file"):
        Decoder(data(tmp_path / "none.pt2"))


@pytest.mark.gpu
def test_on_a_gpu_pictures_are_the_same_but_for_rounding(path: Path) -> None:
    latents, decoder = torch.randn(BATCH + 3, 4, 4, 4), Decoder(data(path))
    found = decoder(latents.cuda())
    assert found.device.type == "cuda"
    assert torch.allclose(found.cpu(), decoder(latents), atol=1e-5)
