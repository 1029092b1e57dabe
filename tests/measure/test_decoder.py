"""Decoders from torch.export files: the same pictures as the module gives, and nothing but arithmetic."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from tests.data.tiny_vae import LATENT, SIDE, write_vae
from tests.traps import Trap
from tread_bench.core.errors import UserError
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.source import to_uint8
from tread_bench.measure.quality.decoder import BATCH, Decoder, open_decoder, to_pixels
from tread_bench.measure.quality.fingerprint import _decoding


def data(path, **choice):
    form = {"image_size": 4, "decoded_size": 8, "images": ("i",), **choice}
    return LatentsData(name="latents", train=("t",), held_out=("h",), decoder=str(path), **form)


@pytest.fixture(scope="module")
def module():
    """The operations of SD-VAE's decoder: convolutions, group norm, upsampling."""
    torch.manual_seed(0)
    enter, leave = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
    return nn.Sequential(enter, nn.GroupNorm(4, 16), nn.SiLU(), nn.Upsample(scale_factor=2.0), leave, nn.Tanh()).eval()


@pytest.fixture(scope="module")
def path(module, tmp_path_factory):
    path = tmp_path_factory.mktemp("decoder") / "decoder.pt2"
    torch.export.save(torch.export.export(module, (torch.zeros(BATCH, 4, 4, 4),)), path)
    return path


def test_pictures_are_those_of_the_module_on_unscaled_latents(module, path):
    latents, scale, shift = torch.randn(BATCH, 4, 4, 4), (0.5, 1.0, 2.0, 4.0), (1.0, 0.0, -1.0, 3.0)
    decoder = Decoder(data(path, scale=scale, shift=shift))
    unscaled = latents / torch.tensor(scale)[:, None, None] + torch.tensor(shift)[:, None, None]
    with torch.no_grad():
        assert torch.equal(decoder(latents), module(unscaled))
        assert torch.equal(to_pixels(latents, decoder), to_uint8(module(unscaled)))


def test_a_picture_does_not_depend_on_how_many_are_decoded(path):
    latents, decoder = torch.randn(2 * BATCH, 4, 4, 4), Decoder(data(path))
    for count in (1, BATCH + 1):
        assert torch.equal(decoder(latents[:count]), decoder(latents)[:count])


def test_the_precision_of_the_training_does_not_reach_the_decoder(path):
    latents, decoder = torch.randn(3, 4, 4, 4), Decoder(data(path))
    with torch.autocast("cpu", torch.bfloat16):
        inside = decoder(latents)
    assert torch.equal(inside, decoder(latents))


def test_latents_that_are_not_finite_have_no_pixels(path):
    with pytest.raises(FloatingPointError, match="the model diverged"):
        to_pixels(torch.full((2, 4, 4, 4), torch.nan), Decoder(data(path)))


def test_without_a_decoder_samples_are_the_images():
    images = torch.rand(2, 1, 3, 3) * 2 - 1
    assert torch.equal(to_pixels(images, None), to_uint8(images))
    assert open_decoder(LatentsData(name="latents", train=("t",), held_out=("h",))) is None


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"image_size": 8}, r"must map float32 \(16, 4, 8, 8\) to float32 \(16, 3, 8, 8\)"),
        ({"decoded_size": 16}, r"maps float32 \(16, 4, 4, 4\) to float32 \(16, 3, 8, 8\).* or data\.decoded_size"),
    ],
)
def test_a_decoder_of_other_shapes_is_refused(path, choice, told):
    with pytest.raises(UserError, match=told):
        Decoder(data(path, **choice))


# Autoencoders of diffusers in folders


@pytest.fixture(scope="module", params=tuple(LATENT))
def folder(request, tmp_path_factory):
    """A model, and the folder that it was written to."""
    path = tmp_path_factory.mktemp("vae")
    return write_vae(path, request.param), path


def of_folder(folder, **choice):
    channels, side, _ = LATENT[type(folder[0]).__name__]
    return data(folder[1], **{"channels": channels, "image_size": side, "decoded_size": SIDE, **choice})


def test_an_autoencoder_decodes_as_diffusers_does_and_of_other_pixels_to_the_same_range(folder):
    """EDM2 encodes pixels in [0, 1], so what comes back is in [0, 1], too, and has a protocol of its own."""
    usual, other = (Decoder(of_folder(folder, scale=0.25, **form)) for form in ({}, {"encoder_input": (0.0, 1.0)}))
    latents = torch.randn(2, *LATENT[type(folder[0]).__name__])
    with torch.no_grad():
        expected = folder[0].decode(latents / 0.25).sample  # of two latents; ours are eight at a time
        torch.testing.assert_close(usual(latents), expected, rtol=0, atol=1e-5)
    assert torch.allclose(other(latents), usual(latents) * 2 - 1, atol=1e-6)
    assert _decoding(other) == {**_decoding(usual), "decoded_pixels": [0.0, 1.0]}


def test_an_autoencoder_of_other_latents_is_refused(folder):
    with pytest.raises(UserError, match=r"does not take latents \(16, 8, 8\), and data\.decoder must map"):
        Decoder(of_folder(folder, channels=16))
    with pytest.raises(UserError, match=r"maps latents .* to images \(3, 16, 16\), .* data\.decoded_size"):
        Decoder(of_folder(folder, decoded_size=32))


def test_the_files_of_an_autoencoder_are_those_that_a_run_watches(folder):
    choice = of_folder(folder)
    read = [path for place, path in choice.family.files(choice, True) if place == ("decoder",)]
    assert read == [str(folder[1] / name) for name in ("config.json", "diffusion_pytorch_model.safetensors")]
    decoding = choice.family.decoding(choice)
    assert decoding is not None and list(decoding.files) == read


def test_what_decoding_depends_on_is_in_the_protocol(path, tmp_path):
    array = tmp_path / "shift.npy"
    np.save(array, np.ones((4, 4, 4)))
    one = _decoding(Decoder(data(path)))
    assert one["latent_scale"] == 0.18215 and one["decoding"] == "float32, latents / scale, 16 at a time"
    shifted = _decoding(Decoder(data(path, shift=str(array))))
    assert shifted["decoding"] == "float32, latents / scale + shift, 16 at a time"
    assert "sha256" in shifted["latent_shift"] and str(tmp_path) not in str(shifted)


# Files that somebody else wrote


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {f"d/{name.partition('/')[2]}": archive.read(name) for name in archive.namelist()}


def write_members(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


CODE = "__import__('os').mkdir('{}')"
MODEL, WEIGHTS = "models/model.json", "model_weights_config.json"


def pickled(trap):
    buffer = io.BytesIO()
    torch.save({"trap": trap}, buffer)
    return buffer.getvalue()


def of_first(values, **changes):
    next(iter(values.values())).update(changes)


def of_graph(program, **changes):
    program["graph_module"]["graph"]["nodes"][0].update(changes)


def symbolic_size(program, code):
    size = {"as_expr": {"expr_str": code, "hint": {"as_int": 16}}}
    of_first(program["graph_module"]["graph"]["tensor_values"], sizes=[size])


def factory(program, code):
    context = {"default_factory_module": "antigravity", "default_factory_name": "fly", "dict_context": []}
    spec = [1, {"type": "collections.defaultdict", "context": json.dumps(context), "children_spec": []}]
    program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps(spec)


DAMAGE = {  # by the reason that is given
    "is pickled": (WEIGHTS, lambda weights, code: of_first(weights["config"], use_pickle=True)),
    "a size is not fixed": (MODEL, symbolic_size),
    "it has guards": (MODEL, lambda program, code: program.update(guards_code=[code])),
    "is not a name": (MODEL, lambda program, code: of_graph(program, name=f"latents={code}")),
    "torch.hub.load' is not in": (MODEL, lambda program, code: of_graph(program, target="torch.hub.load")),
    "from_file.a' is not in": (MODEL, lambda program, code: of_graph(program, target="torch.ops.aten.from_file.a")),
    "contain a 'collections.defaultdict'": (MODEL, factory),
}


@pytest.mark.parametrize("reason", [*DAMAGE, "is not part of a plain program"])
def test_a_file_that_would_run_something_is_refused_before_it_does(path, tmp_path, reason):
    # A member that changes, or one more.
    trap, members = Trap(tmp_path / "sprung"), members_of(path)
    assert Decoder(data(write_members(tmp_path / "same.pt2", members))).sha256
    if reason in DAMAGE:
        ending, change = DAMAGE[reason]
        name = next(name for name in members if name.endswith(ending))
        content = json.loads(members[name])
        change(content, CODE.format(trap.marker))
        members[name] = json.dumps(content).encode()
    else:
        members["d/data/aotinductor/model/a.so"] = b"\x7fELF"
    if reason == "is pickled":
        members["d/data/weights/weight_0"] = pickled(trap)

    with pytest.raises(UserError, match=rf"changed\.pt2: not a .*, or not safe to load \(.*{reason}"):
        Decoder(data(write_members(tmp_path / "changed.pt2", members)))
    assert not trap.marker.exists()


def test_inputs_of_examples_are_left_unread(path, tmp_path):
    """torch would unpickle them without restriction, where it fails to with one."""
    trap, members = Trap(tmp_path / "sprung"), members_of(path)
    hostile = {name: pickled(trap) for name in members if "/sample_inputs/" in name}
    changed = write_members(tmp_path / "changed.pt2", {**members, **hostile})
    latents = torch.randn(BATCH, 4, 4, 4)
    assert hostile and torch.equal(Decoder(data(changed))(latents), Decoder(data(path))(latents))
    assert not trap.marker.exists()


def test_files_that_are_no_program(path, tmp_path):
    for content in (b"", b"PK\x05\x06" + bytes(18), pickle.dumps({"a": 1})):
        (tmp_path / "a.pt2").write_bytes(content)
        with pytest.raises(UserError, match=r"a\.pt2: not a torch\.export program"):
            Decoder(data(tmp_path / "a.pt2"))
    members = members_of(path)
    name = next(name for name in members if name.endswith("/weight_0"))
    with pytest.raises(UserError, match=r"not a torch\.export program, .* out of bounds for storage"):
        Decoder(data(write_members(tmp_path / "b.pt2", {**members, name: members[name][:-4]})))
    with pytest.raises(UserError, match=r"none\.pt2: cannot read data\.decoder \(No such file"):
        Decoder(data(tmp_path / "none.pt2"))


@pytest.mark.gpu
def test_on_a_gpu_pictures_are_the_same_but_for_rounding(path):
    latents, decoder = torch.randn(BATCH + 3, 4, 4, 4), Decoder(data(path))
    found = decoder(latents.cuda())
    assert found.device.type == "cuda"
    assert torch.allclose(found.cpu(), decoder(latents), atol=1e-5)
