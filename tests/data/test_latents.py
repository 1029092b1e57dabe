"""Latents in safetensors files: what comes back, what stays on disk, and one clear error for each way to be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import save_file

from tests.data.test_parquet import COLOUR, PNGS, SIDE
from tests.data.test_parquet import write as write_images
from tread_bench.core.errors import UserError
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.source import DataSource, open_data

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
