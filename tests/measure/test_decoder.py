"""Decoders in folders of diffusers: the same pictures as diffusers gives, in the training's range and precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.data.tiny_vae import LATENT, SIDE, write_vae
from tread_bench.core.errors import UserError
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.source import to_uint8
from tread_bench.measure.quality.decoder import Decoder, open_decoder, to_pixels
from tread_bench.measure.quality.fingerprint import _decoding


@pytest.fixture(scope="module", params=tuple(LATENT))
def folder(request, tmp_path_factory):
    """A model, and the folder that it was written to."""
    path = tmp_path_factory.mktemp("vae")
    return write_vae(path, request.param), path


def of_folder(folder, **choice):
    channels, side, _ = LATENT[type(folder[0]).__name__]
    form = {"channels": channels, "image_size": side, "decoded_size": SIDE, "images": ("i",), **choice}
    return LatentsData(name="latents", train=("t",), held_out=("h",), decoder=str(folder[1]), **form)


def latents_of(folder, count):
    return torch.randn(count, *LATENT[type(folder[0]).__name__])


def test_pictures_are_those_of_diffusers_on_unscaled_latents_in_the_range_of_the_encoder(folder):
    """EDM2 encodes pixels in [0, 1], so what comes back is in [0, 1], too, and has a protocol of its own."""
    latents = latents_of(folder, 2)
    scale = tuple(2.0**k for k in range(latents.shape[1]))
    shift = tuple(k - 1.0 for k in range(latents.shape[1]))
    usual, other = (
        Decoder(of_folder(folder, scale=scale, shift=shift, **form)) for form in ({}, {"encoder_input": (0.0, 1.0)})
    )
    unscaled = latents / torch.tensor(scale)[:, None, None] + torch.tensor(shift)[:, None, None]
    with torch.no_grad():
        expected = folder[0].decode(unscaled).sample  # of two latents; ours are eight at a time
        torch.testing.assert_close(usual(latents), expected, rtol=0, atol=1e-5)
    assert torch.allclose(other(latents), usual(latents) * 2 - 1, atol=1e-6)
    assert torch.equal(to_pixels(latents, usual), to_uint8(usual(latents)))
    assert _decoding(other) == {**_decoding(usual), "decoded_pixels": [0.0, 1.0]}


def test_the_precision_of_the_training_does_not_reach_the_decoder(folder):
    latents, decoder = latents_of(folder, 3), Decoder(of_folder(folder))
    with torch.autocast("cpu", torch.bfloat16):
        inside = decoder(latents)
    assert torch.equal(inside, decoder(latents))


def test_latents_that_are_not_finite_have_no_pixels(folder):
    with pytest.raises(FloatingPointError, match="the model diverged"):
        to_pixels(latents_of(folder, 2) * torch.nan, Decoder(of_folder(folder)))


def test_without_a_decoder_samples_are_the_images():
    images = torch.rand(2, 1, 3, 3) * 2 - 1
    assert torch.equal(to_pixels(images, None), to_uint8(images))
    assert open_decoder(LatentsData(name="latents", train=("t",), held_out=("h",))) is None


def test_what_is_no_autoencoder_of_these_latents_is_refused(folder, tmp_path):
    with pytest.raises(UserError, match=r"does not take latents \(16, 8, 8\), and data\.decoder must map"):
        Decoder(of_folder(folder, channels=16))
    with pytest.raises(UserError, match=r"maps latents .* to images \(3, 16, 16\), .* data\.decoded_size"):
        Decoder(of_folder(folder, decoded_size=32))
    (tmp_path / "a.pt2").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"a\.pt2: not a folder; give a folder that `save_pretrained` of diffusers"):
        Decoder(of_folder((folder[0], tmp_path / "a.pt2")))


def test_what_decoding_depends_on_is_in_the_protocol(folder, tmp_path):
    array = tmp_path / "shift.npy"
    np.save(array, np.ones(LATENT[type(folder[0]).__name__]))
    one = _decoding(Decoder(of_folder(folder)))
    assert one["latent_scale"] == 0.18215 and one["decoding"] == "float32, latents / scale, 8 at a time"
    shifted = _decoding(Decoder(of_folder(folder, shift=str(array))))
    assert shifted["decoding"] == "float32, latents / scale + shift, 8 at a time"
    assert "sha256" in shifted["latent_shift"] and str(tmp_path) not in str(shifted)


@pytest.mark.gpu
def test_on_a_gpu_pictures_are_the_same_but_for_rounding(folder):
    latents, decoder = latents_of(folder, 3), Decoder(of_folder(folder))
    found = decoder(latents.cuda())
    assert found.device.type == "cuda"
    assert torch.allclose(found.cpu(), decoder(latents), atol=1e-5)
