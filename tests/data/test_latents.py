"""Latents in safetensors files: what comes back, what stays on disk, each mistake; and images beside latents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from tests.data import latent_layouts
from tests.data.latent_layouts import CHANNELS, CLASSES, written
from tests.data.test_parquet import COLOUR, PNGS, SIDE
from tests.data.test_parquet import write as write_images
from tests.model.methods.subjects import trainer_of
from tread_bench.core.config.routed import setting_of
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.source import DataSource, open_data, to_uint8
from tread_bench.measure import targets

LATENTS = torch.randn(7, 4, 2, 2, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0])


def write(path: Path, latents: Any = LATENTS, labels: Any = LABELS) -> str:
    tensors = {"latents": latents, "labels": labels}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)
    return str(path)


def read(train: str, *more: str, **choice: Any) -> DataSource:
    form = {"image_size": 2, "num_classes": 3, "held_out": (train,), **choice}
    return open_data(LatentsData(name="latents", train=(train, *more), **form))


def test_any_order_over_several_files_gives_the_scaled_latents_and_their_labels(tmp_path: Path) -> None:
    first = write(tmp_path / "a.safetensors", LATENTS[:3], LABELS[:3])
    second = write(tmp_path / "b.safetensors", LATENTS[3:], LABELS[3:])
    data, index = read(first, second, scale=0.5), np.array([6, 0, 3, 2, 3])
    assert torch.equal(data.train.images(index), LATENTS[index] * 0.5)
    assert torch.equal(data.train.labels(index), LABELS[index])
    assert (len(data.train), len(data.held_out), data.channels, data.image_size) == (7, 3, 4, 2)
    assert data.sha256 != read(second, first).sha256


def test_latents_stay_on_disk(tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", torch.ones(1000, 4, 64, 64), torch.zeros(1000, dtype=torch.int64))
    before = psutil.Process().memory_full_info().uss
    data = read(path, image_size=64, scale=1)
    assert data.train.images(np.array([999, 5])).sum() == 2 * 4 * 64**2
    assert psutil.Process().memory_full_info().uss - before < 16e6  # of 64 MB


WRONG: dict[str, tuple[Any, Any, str]] = {
    "no latents": (None, LABELS, r"no tensor 'latents'; it has labels"),
    "no labels": (LATENTS, None, r"no tensor 'labels'; it has latents"),
    "channels": (LATENTS[:, :3].clone(), LABELS, r"of shape \(7, 3, 2, 2\) where .* \(4, 2, 2\) of a sample"),
    "bfloat16": (LATENTS.bfloat16(), LABELS, r"latents are BF16; store float16"),
    "few labels": (LATENTS, LABELS[:6].clone(), r"labels of shape \(6,\); store 7 of them"),
    "label type": (LATENTS, LABELS.int(), r"labels are I32"),
    "label": (LATENTS, LABELS + 1, r"label 2: 3 where data\.num_classes allows 0 to 2"),
    "negative": (LATENTS.half(), LABELS - 1, r"label 0: -1 where"),
    "empty": (LATENTS[:0], LABELS[:0], r"0 latents; a file has at least one"),
}


@pytest.mark.parametrize(("latents", "labels", "told"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_named_with_the_rule(tmp_path: Path, latents: Any, labels: Any, told: str) -> None:
    path = write(tmp_path / "a.safetensors", latents, labels)
    with pytest.raises(UserError, match=rf"^{path}.*{told}"):
        read(path)


def test_a_file_that_is_no_safetensors_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.safetensors").write_text("latents")
    with pytest.raises(UserError, match=r"text\.safetensors: not a readable safetensors file"):
        read(str(tmp_path / "text.safetensors"))


def test_a_value_that_is_not_finite_is_named_when_it_is_read(tmp_path: Path) -> None:
    latents = LATENTS.clone()
    latents[5, 1, 0, 1] = -torch.inf
    data = read(write(tmp_path / "a.safetensors", LATENTS), write(tmp_path / "b.safetensors", latents))
    data.train.images(np.array([11, 13]))
    with pytest.raises(UserError, match=r"b\.safetensors, latent 5: contains NaN or infinite values"):
        data.train.images(np.array([11, 12, 13]))


def test_real_images_are_opened_when_they_are_asked_for(tmp_path: Path) -> None:
    latents, gone = write(tmp_path / "a.safetensors"), str(tmp_path / "gone.parquet")
    one, two, empty = (write_images(tmp_path / f"{count}.parquet", PNGS[:count], None) for count in (1, 2, 0))
    found = [read(latents, images=files, decoded_size=SIDE).reference for files in ((one, two), (two, one))]
    assert [len(batch) for batch in found[0].batches(2)] == [2, 1] and found[0].sha256 != found[1].sha256
    assert np.array_equal(torch.cat([*found[0].batches(2)]), COLOUR[[0, 0, 1]].transpose(0, 3, 1, 2))
    with pytest.raises(UserError, match=r"row 0: image of 4x4 pixels where data\.decoded_size is 8"):
        next(read(latents, images=(one,), decoded_size=8).reference.batches(3))
    for path, told in ((gone, r"gone\.parquet cannot be read \(No such file"), (empty, r"0\.parquet: no rows")):
        data = read(latents, images=(path,))
        with pytest.raises(UserError, match=told):
            _ = data.reference


PIXELS = 16


def with_images(folder: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Settings of REPA's latents with an image beside each, and the images in the order of the latents' names."""
    settings, content = written("repa", folder / "latents")
    images = np.random.default_rng(0).integers(0, 256, (len(content.labels), PIXELS, PIXELS, 3), dtype=np.uint8)
    (folder / "images" / "00000").mkdir(parents=True)
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / "images" / "00000" / f"img{number:08d}.png")
    stated = {"train_images": str(folder / "images"), "decoded_size": PIXELS}
    return {**settings, **stated}, images.transpose(0, 3, 1, 2)


def test_every_latent_has_its_image_mirrored_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, images = with_images(tmp_path)
    choice = LatentsData(name="latents", **settings)
    assert data_problems([(choice, False)]) == []
    train, index = open_data(choice).train, np.array([3, 10, 0, 3, 7, 5])
    assert np.array_equal(to_uint8(train.pictures(index, 0, 40)), images[index])
    mirrored = np.array([True, False, True, True, False, False])  # no layout with names has mirrored latents
    monkeypatch.setattr(train, "is_mirrored", lambda seed, first, count: mirrored)
    expected = np.where(mirrored[:, None, None, None], images[index][..., ::-1], images[index])
    assert np.array_equal(to_uint8(train.pictures(index, 0, 40)), expected)


def narrow(folder: Path) -> None:
    Image.new("RGB", (PIXELS - 1, PIXELS)).save(folder / "img00000000.png")


HARMS = {
    "no image of latent 00000/img-mean-std-00000003.npy": lambda folder: (folder / "img00000003.png").unlink(),
    "and 00000/img00000003.png are images of one latent": lambda folder: (folder / "img00000003.jpg").write_bytes(b""),
    "img00000000.png: image of 15x16 pixels where data.decoded_size is 16": narrow,
}


@pytest.mark.parametrize("told", HARMS)
def test_images_that_do_not_fit_are_named(told: str, tmp_path: Path) -> None:
    settings, _ = with_images(tmp_path)
    HARMS[told](tmp_path / "images" / "00000")
    (found,) = data_problems([(LatentsData(name="latents", **settings), False)])
    assert told in found


def repa_cell(data: dict[str, Any]) -> Cell:
    return Cell(
        backbone={"name": "DiT", "depth": 3, "hidden": 16, "heads": 2, "patch": 2},
        data={"name": "latents", **data},
        training={"iterations": 3, "batch": 4},
        auxiliary=[{"name": "repa", "model": "vit", "weights": "w", "block": 1, "projector": 8}],
        metrics={"generate": False},
    )


def test_repa_sees_the_images_and_not_the_latents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, images = with_images(tmp_path)
    seen: list[torch.Tensor] = []
    network = nn.AvgPool2d(PIXELS // 2)  # feature maps that are the images themselves, pooled
    network.weight = nn.Parameter(torch.ones(()))  # whose type is that of the images
    network.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
    monkeypatch.setattr(targets, "open_targets", lambda options: targets.TargetFeatures(network, 3, "0"))
    cell = repa_cell(settings)
    assert trainer_of(cell.model_copy(update={"auxiliary": ()})).batch(1).pictures is None  # read where they are seen
    trainer = trainer_of(cell)
    batch = trainer.batch(1)
    assert batch.x.shape == (4, CHANNELS, latent_layouts.SIDE, latent_layouts.SIDE) and batch.y.max() <= CLASSES
    assert trainer.step(batch).isfinite()
    (found,) = seen
    assert torch.equal(found, batch.pictures)
    keys = {image.tobytes() for image in images}
    assert all(image.tobytes() in keys for image in to_uint8(found).numpy())


def test_without_images_beside_them_repa_is_refused_on_latents(tmp_path: Path) -> None:
    settings, _ = with_images(tmp_path)
    refused, allowed = repa_cell({**settings, "train_images": None}), repa_cell(settings)
    (problem,) = refused.auxiliary[0].family.check(setting_of(refused), refused.auxiliary[0])
    assert "give the images beside latents (data.train_images)" in problem.message
    assert not list(allowed.auxiliary[0].family.check(setting_of(allowed), allowed.auxiliary[0]))


def test_an_image_that_cannot_be_read_ends_the_step_with_its_name(tmp_path: Path) -> None:
    settings, _ = with_images(tmp_path)
    train = open_data(LatentsData(name="latents", **settings)).train
    (tmp_path / "images" / "00000" / "img00000005.png").write_bytes(b"png")
    with pytest.raises(UserError, match=r"img00000005\.png: not a readable image"):
        train.pictures(np.array([5]), 0, 0)
