"""Features of captions beside latents: encoded in one go with them, whatever interrupted it, in every layout that has
them, with the draws of the images that they were made of.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from tests.data import captioned
from tests.data.captioned import with_metadata
from tests.data.latent_layouts import from_logvar
from tests.data.tiny_vae import LATENT, SIDE, write_vae
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.numbers import draws
from tread_bench.data.check import data_problems
from tread_bench.data.encode.encode import EncodeRequest, encode
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.source import open_data

KIND = "AutoencoderKL"
INDEX = np.arange(40) * 5
SHARD = 48


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with captioned images and an autoencoder."""
    folder = tmp_path_factory.mktemp("captioned")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(captioned, "SIDE", SIDE)
        with_metadata(folder / "coco")
    write_vae(folder / KIND, KIND)
    return folder


def images_of(place: Path) -> DataOptions:
    folders = {"train": [str(place / "coco" / "train2014")], "held_out": [str(place / "coco" / "val2014")]}
    return captioned.options("image_folder", **folders, image_size=SIDE)


@pytest.fixture(scope="module")
def whole(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "latents"
    encode(EncodeRequest(images_of(place), place / KIND, out, shard_samples=SHARD), lambda *_: None)
    return out


def test_encoded_captions_are_those_of_the_images_with_their_draws(place: Path, whole: Path) -> None:
    choice = LatentsData(train=[str(whole / "train")], held_out=[str(whole / "held_out")])
    assert choice.text_shape == (24, 64) and choice.num_classes == 0
    assert data_problems([(choice, False)], reads_everything=True) == []
    latents, images = open_data(choice), open_data(images_of(place))
    for part, other in ((latents.train, images.train), (latents.held_out, images.held_out)):
        index = INDEX % len(part)
        assert part.captions(index, 3, 70) == other.captions(index, 3, 70)
        assert torch.equal(part.text(index, 3, 70), other.text(index, 3, 70))
        assert torch.equal(part.empty_text, other.empty_text)


# ---- layouts of others

FACTS = {"num_classes": 0, "captions": {"tokens": 24, "width": 64}}
SHAPE = {"channels": LATENT[KIND][0], "image_size": LATENT[KIND][1]}
MOMENTS = np.random.default_rng(0).normal(size=(40, 2 * SHAPE["channels"], 8, 8)).astype("f4")
FEATURES = np.random.default_rng(1).normal(size=(40, 5, 24, 64)).astype("f4")


def write_coco_features(root: Path) -> LatentsData:
    """What U-ViT's scripts leave, of images with one to five captions."""
    (root / "train").mkdir(parents=True)
    for i, (moments, features) in enumerate(zip(MOMENTS, FEATURES, strict=True)):
        np.save(root / "train" / f"{i}.npy", moments)
        for k, one in enumerate(features[: 1 + i % 5]):
            np.save(root / "train" / f"{i}_{k}.npy", one)
    np.save(root / "empty_context.npy", FEATURES[0, 4])
    split = [str(root / "train")]
    captions = FACTS["captions"]  # and no classes, which the layout says
    return LatentsData(layout="u-vit-coco", train=split, held_out=split, scale=1.0, captions=captions, **SHAPE)


def test_u_vits_layout_has_the_draws_and_features_of_each_image(tmp_path: Path) -> None:
    choice = write_coco_features(tmp_path / "features")
    assert data_problems([(choice, False)]) == [] and choice.family.counts(choice) == (40, 40)
    train, index = open_data(choice).train, np.arange(40)
    chosen = draws.integers(3, "caption", 70, len(index), 1 + index % 5)
    assert np.array_equal(train.text(index, 3, 70), FEATURES[index, chosen])
    assert np.array_equal(train.empty_text, FEATURES[0, 4])
    assert train.captions(index, 3, 70) == [""] * len(index)  # not stored
    noise = draws.normal(3, "posterior", 70, len(index), (SHAPE["channels"], 8, 8), np.float32)
    np.testing.assert_allclose(train.drawn(index, 3, 70), from_logvar(MOMENTS[index], noise), rtol=1e-5, atol=1e-6)


def saved(name: str, values: Any) -> Any:
    return lambda root: np.save(root / name, values)


def gone(name: str) -> Any:
    return lambda root: (root / name).unlink()


WRONG_COCO = {
    "moments are missing": (gone("train/3.npy"), "of an image that is not there"),
    "a caption is missing": (gone("train/3_1.npy"), "2 files are features of captions"),
    "other width": (saved("train/0_0.npy", np.zeros((24, 63), "f4")), "0_0.npy: array of shape"),
    "not finite": (saved("train/0_0.npy", np.full((24, 64), np.nan, "f4")), "contain NaN"),
    "no empty caption": (gone("empty_context.npy"), "empty_context.npy cannot be read"),
}


@pytest.mark.parametrize("name", WRONG_COCO)
def test_mistakes_in_features_of_coco_are_located(name: str, tmp_path: Path) -> None:
    choice = write_coco_features(tmp_path / "features")
    damage, told = WRONG_COCO[name]
    damage(tmp_path / "features")
    assert any(told in message for message in data_problems([(choice, False)]))


WRONG_TENSORS = {
    "no captions": ("text", lambda t: None, "no tensor 'text'; it has "),
    "another number": ("text_counts", lambda t: t[:-1], "text_counts of shape (47,)"),
    "no caption": ("text_counts", lambda t: np.array([0, 10, *t[2:]]), "text_counts: every sample needs a caption"),
    "fewer bytes": ("captions", lambda t: t[:-1], "captions of shape"),
    "other type": ("text", lambda t: t.astype("f8"), "text are F64; store float16"),
}


@pytest.mark.parametrize("name", WRONG_TENSORS)
def test_mistakes_in_tensors_are_located(name: str, whole: Path, tmp_path: Path) -> None:
    key, changed, told = WRONG_TENSORS[name]
    path = tmp_path / "latents-00000.safetensors"
    tensors = load_file(whole / "train" / path.name)
    tensors |= {key: changed(tensors[key])}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)
    choice = LatentsData(train=[str(path)], held_out=[str(path)], quantity="mean_logvar", **FACTS, **SHAPE)
    assert data_problems([(choice, False)])[0].startswith(f"{path}: {told}")
