"""Losses that see images work on latents whose images are beside them, mirrored where the latents are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from tests.data.latent_layouts import CHANNELS, CLASSES, SIDE, written
from tests.model.methods.subjects import trainer_of
from tread_bench.core.config.routed import setting_of
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.source import open_data, to_uint8
from tread_bench.measure import targets

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
    assert batch.x.shape == (4, CHANNELS, SIDE, SIDE) and batch.y.max() <= CLASSES
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
