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
from tread_bench.data.open import open_data
from tread_bench.data.source import to_uint8
from tread_bench.measure import targets

PIXELS = 16
NAMED = ("repa", "edm2")


def with_images(layout: str, folder: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Settings of latents with an image beside each, and the images in the order of the latents' names."""
    settings, _ = written(layout, folder / "latents")
    images = []
    random = np.random.default_rng(0)
    names = sorted(path for path in (folder / "latents").rglob("*.*") if path.parent != folder / "latents")
    for path in names:
        place = folder / "images" / path.parent.name / f"{path.stem.replace('img-mean-std-', 'img')}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        images.append(random.integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8))
        Image.fromarray(images[-1]).save(place)
    stated = {"train_images": str(folder / "images"), "decoded_size": PIXELS}
    return {**settings, **stated}, np.stack(images).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("layout", NAMED)
def test_every_latent_has_its_image_mirrored_with_it(layout: str, tmp_path: Path) -> None:
    settings, images = with_images(layout, tmp_path)
    choice = LatentsData(name="latents", **settings)
    assert data_problems([(choice, False)]) == []
    train, index = open_data(choice).train, np.array([3, 10, 0, 3, 7, 5])
    mirrored = train.is_mirrored(0, 40, len(index))
    assert mirrored.any() == (choice.flips == "pair")
    expected = images[index]
    expected[mirrored] = expected[mirrored][..., ::-1]
    assert np.array_equal(to_uint8(train.pictures(index, 0, 40)).numpy(), expected)


HARMS = {
    "no image of latent 00000/img-mean-std-00000003.npy": lambda folder: (folder / "img00000003.png").unlink(),
    "and 00000/img00000003.png are images of one latent": lambda folder: (folder / "img00000003.jpg").write_bytes(b""),
    "img00000000.png: image of 15x16 pixels where data.decoded_size is 16": lambda folder: Image.new(
        "RGB", (PIXELS - 1, PIXELS)
    ).save(folder / "img00000000.png"),
}


@pytest.mark.parametrize("told", HARMS)
def test_images_that_do_not_fit_are_named(told: str, tmp_path: Path) -> None:
    settings, _ = with_images("repa", tmp_path)
    HARMS[told](tmp_path / "images" / "00000")
    (found,) = data_problems([(LatentsData(name="latents", **settings), False)])
    assert told in found


class Seen(nn.Module):
    """Feature maps that are the images themselves, pooled; keeps what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.images: list[torch.Tensor] = []
        self.weight = nn.Parameter(torch.ones(()))  # whose type is that of the images

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.images.append(images)
        return nn.functional.avg_pool2d(images, PIXELS // 2)


def repa_cell(data: dict[str, Any]) -> Cell:
    return Cell(
        backbone={"name": "DiT", "depth": 3, "hidden": 16, "heads": 2, "patch": 2},
        data={"name": "latents", **data},
        training={"iterations": 3, "batch": 4},
        auxiliary=[{"name": "repa", "model": "vit", "weights": "w", "block": 1, "projector": 8}],
        metrics={"generate": False},
    )


def test_repa_sees_the_images_and_not_the_latents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, images = with_images("repa", tmp_path)
    seen = Seen()
    monkeypatch.setattr(targets, "open_targets", lambda options: targets.TargetFeatures(seen, 3, "0"))
    cell = repa_cell(settings)
    assert trainer_of(cell.model_copy(update={"auxiliary": ()})).batch(1).pictures is None  # read where they are seen
    trainer = trainer_of(cell)
    batch = trainer.batch(1)
    assert batch.x.shape == (4, CHANNELS, SIDE, SIDE) and batch.y.max() <= CLASSES
    loss = trainer.step(batch)
    assert loss.isfinite()
    (found,) = seen.images
    assert torch.equal(found, batch.pictures)
    keys = {image.tobytes() for image in images}
    assert all(image.tobytes() in keys for image in to_uint8(found).numpy())


def test_without_images_beside_them_repa_is_refused_on_latents(tmp_path: Path) -> None:
    settings, _ = with_images("repa", tmp_path)
    refused, allowed = repa_cell({**settings, "train_images": None}), repa_cell(settings)
    (problem,) = refused.auxiliary[0].family.check(setting_of(refused), refused.auxiliary[0])
    assert "give the images beside latents (data.train_images)" in problem.message
    assert not list(allowed.auxiliary[0].family.check(setting_of(allowed), allowed.auxiliary[0]))


def test_an_image_that_cannot_be_read_ends_the_step_with_its_name(tmp_path: Path) -> None:
    settings, _ = with_images("repa", tmp_path)
    train = open_data(LatentsData(name="latents", **settings)).train
    (tmp_path / "images" / "00000" / "img00000005.png").write_bytes(b"png")
    with pytest.raises(UserError, match=r"img00000005\.png: not a readable image"):
        train.pictures(np.array([5]), 0, 0)
