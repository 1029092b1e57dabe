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
from tests.data.captioned import COUNTS, with_metadata
from tests.data.tiny_vae import LATENT, SIDE, write_vae
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.data.check import data_problems
from tread_bench.data.encode.encode import EncodeRequest, encode
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.open import open_data

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


def images_of(place: Path, **captions: Any) -> DataOptions:
    folders = {"train": [str(place / "coco" / "train2014")], "held_out": [str(place / "coco" / "val2014")]}
    return captioned.options("image_folder", {"encoder": "words", **captions}, **folders, image_size=SIDE)


def encoded(place: Path, out: Path, data: DataOptions | None = None, **changes: Any) -> LatentsData:
    """Data of a suite that trains on the encoded latents."""
    request = EncodeRequest(data or images_of(place), place / KIND, out, shard_samples=SHARD, **changes)
    encode(request, lambda *_: None)
    return LatentsData(train=[str(out / "train")], held_out=[str(out / "held_out")])


@pytest.fixture(scope="module")
def whole(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "latents"
    encoded(place, out)
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


def stored(whole: Path, split: str) -> list[tuple[np.ndarray, np.ndarray, list[str]]]:
    """Moments, features and captions of each sample of an encoded split."""
    found = []
    for path in sorted((whole / split).glob("*.safetensors")):
        tensors = load_file(path)
        texts, content, caption = iter(tensors["text"]), tensors["captions"].tobytes(), 0
        ends = np.cumsum(tensors["caption_bytes"])
        for moments, count in zip(tensors["moments"], tensors["text_counts"].tolist(), strict=True):
            places = range(caption, caption + count)
            captions = [content[ends[p - 1] if p else 0 : ends[p]].decode() for p in places]
            found.append((moments, np.stack([next(texts) for _ in places]), captions))
            caption += count
    return found


def write_coco_features(whole: Path, root: Path) -> dict[str, Any]:
    """What U-ViT's scripts leave."""
    empty = load_file(whole / "train" / "latents-00000.safetensors")["empty_text"]
    for split, name in (("train", "train"), ("held_out", "val")):
        (root / name).mkdir(parents=True)
        for i, (moments, features, _) in enumerate(stored(whole, split)):
            np.save(root / name / f"{i}.npy", moments)
            for k, one in enumerate(features):
                np.save(root / name / f"{i}_{k}.npy", one)
    np.save(root / "empty_context.npy", empty)
    return {"layout": "u-vit-coco", "train": [str(root / "train")], "held_out": [str(root / "val")]}


SHAPE = {"channels": LATENT[KIND][0], "image_size": LATENT[KIND][1]}


def written(whole: Path, root: Path) -> LatentsData:
    settings = write_coco_features(whole, root)
    captions = {"captions": {"tokens": 24, "width": 64}}
    return LatentsData(**{**captions, **SHAPE, **settings, "scale": 1.0})


def test_u_vits_layout_has_the_same_draws_and_features(place: Path, whole: Path, tmp_path: Path) -> None:
    choice = written(whole, tmp_path / "features")
    assert (choice.num_classes, choice.text_shape) == (0, (24, 64))
    assert [one for one in data_problems([(choice, False)]) if "standard deviation" not in one] == []
    assert choice.family.counts(choice) == tuple(COUNTS.values())
    here, there = open_data(choice), open_data(images_of(place))
    own = open_data(LatentsData(train=[str(whole / "train")], held_out=[str(whole / "held_out")], scale=1.0))
    for part, other, latents in ((here.train, there.train, own.train), (here.held_out, there.held_out, own.held_out)):
        index = INDEX % len(part)
        assert torch.equal(part.text(index, 3, 70), other.text(index, 3, 70))
        assert torch.equal(part.empty_text, other.empty_text)
        assert torch.equal(part.drawn(index, 3, 70), latents.drawn(index, 3, 70))
        assert part.captions(index, 3, 70) == [""] * len(index)  # not stored


def saved(name: str, values: Any) -> Any:
    return lambda root: np.save(root / name, values, allow_pickle=True)


def gone(name: str) -> Any:
    return lambda root: (root / name).unlink()


WRONG_COCO = {
    "moments are missing": (gone("train/3.npy"), "of an image that is not there"),
    "a caption is missing": (gone("train/3_2.npy"), "files are features of captions"),
    "other width": (saved("train/0_0.npy", np.zeros((24, 63), "f4")), "0_0.npy: array of shape"),
    "pickled": (saved("train/0_0.npy", np.array([{}])), "train/0_0.npy: array holds Python objects"),
    "not finite": (saved("train/0_0.npy", np.full((24, 64), np.nan, "f4")), "contain NaN"),
    "no empty caption": (gone("empty_context.npy"), "empty_context.npy cannot be read"),
}


@pytest.mark.parametrize("name", WRONG_COCO)
def test_mistakes_in_features_of_coco_are_located(name: str, whole: Path, tmp_path: Path) -> None:
    choice = written(whole, tmp_path / "features")
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
    facts = {"quantity": "mean_logvar", "num_classes": 0, "captions": {"tokens": 24, "width": 64}}
    choice = LatentsData(train=[str(path)], held_out=[str(path)], **facts, **SHAPE)
    assert data_problems([(choice, False)])[0].startswith(f"{path}: {told}")


def test_captions_where_a_layout_has_none_are_refused() -> None:
    files = {"train": ["x"], "held_out": ["x"]}
    with pytest.raises(ValueError, match=r"layout repa stores none; safetensors, u-vit-coco do"):
        LatentsData(layout="repa", captions={}, num_classes=0, **files)
    with pytest.raises(ValueError, match="num_classes 10: captions take the place of labels; set num_classes: 0"):
        LatentsData(captions={}, num_classes=10, **files)
