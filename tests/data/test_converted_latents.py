"""The lines of docs/methods/latents.md that convert other layouts: what they write is read as its authors read it."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data import latent_layouts as peers
from tests.data.latent_layouts import CLASSES, SHAPE, SIDE, Content, add_members, npy
from tread_bench.core.numbers import draws
from tread_bench.data.check import data_problems
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.source import open_data

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "latents.md"
CONTENT = Content.of(0, 11)
MOMENTS = CONTENT.moments()
BY_CLASS = np.argsort(CONTENT.labels, kind="stable")
IN_ORDER = np.arange(11)


def class_folder(folder: Path, number: int) -> Path:
    place = folder / f"n0144{CONTENT.labels[number]:04d}"
    place.mkdir(exist_ok=True)
    return place / f"n0144_{number:05d}"


def write_mar(folder: Path) -> None:
    """As MAR's main_cache.py: np.savez of both moments under the image's name."""
    for i, mirrored in enumerate(CONTENT.moments(flipped=True)):
        np.savez(f"{class_folder(folder, i)}.JPEG.npz", moments=MOMENTS[i], moments_flip=mirrored)


def write_ddt(folder: Path) -> None:
    """As DDT's cache_imlatent4.py: torch.save of half-precision mean and log-variance."""
    for i in range(11):
        mean, logvar = (torch.from_numpy(one).half() for one in np.split(MOMENTS[i], 2))
        torch.save({"mean": mean, "logvar": logvar}, f"{class_folder(folder, i)}.JPEG.pt")


def ddt_batch(content: Content, at: np.ndarray, noise: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    return peers.from_logvar(MOMENTS[at].astype(np.float16).astype(np.float32), noise) * 0.18215


def write_dc_ae(folder: Path) -> None:
    """As DC-AE's dc_ae_generate_latent.py, whose factor is an argument."""
    for i in range(11):
        np.save(f"{class_folder(folder, i)}.npy", CONTENT.mean[i] * np.float32(0.18215))


TEXT = np.random.default_rng(1).normal(size=(22, 6, 8)).astype(np.float32)  # of two captions each


def write_zigma(folder: Path) -> None:
    """As ZigMa's train_acc.py reads them; the empty caption's features are a file of the user's."""
    for i in range(11):
        members = {
            f"{i:06d}.caption.json": json.dumps([f"caption {i}", "é"]).encode(),
            f"{i:06d}.caption_feature.npy": npy(TEXT[2 * i : 2 * i + 2]),
            f"{i:06d}.image.jpg": b"not read",
            f"{i:06d}.img_feature256.npy": npy(CONTENT.mean[i]),
        }
        add_members(folder / f"{i // 6}.tar", members)
    np.save("empty.npy", np.zeros((6, 8), np.float32))


def write_maskdit(folder: Path) -> None:
    """As MaskDiT's lmdb2wds.py: pickle.dumps of an array, and the class as WebDataset writes numbers."""
    for number, part in enumerate(np.array_split(np.arange(11), 2)):
        members = {}
        for i in part.tolist():
            members[f"{i:07d}.cls"] = str(CONTENT.labels[i]).encode()
            members[f"{i:07d}.latent"] = pickle.dumps(MOMENTS[i])
        add_members(folder / f"latent_imagenet_512_train-{number:04d}.tar", members)


def write_uvit(folder: Path) -> None:
    """As U-ViT's extract_imagenet_feature.py: numpy.save of an array and a class."""
    for i in range(11):
        pair = np.empty(2, dtype=object)
        pair[0], pair[1] = MOMENTS[i], CONTENT.labels[i]
        np.save(folder / f"{i}.npy", pair, allow_pickle=True)


LOGVAR = {"quantity": "mean_logvar"}
CONVERTED: dict[str, tuple[Any, Any, np.ndarray, dict[str, Any]]] = {
    "mar": (write_mar, peers.mar_batch, BY_CLASS, {**LOGVAR, "flips": "pair", "scale": 0.2325}),
    "ddt": (write_ddt, ddt_batch, BY_CLASS, LOGVAR),
    "dc_ae": (write_dc_ae, peers.scaled_sample, BY_CLASS, {"already_scaled": True}),
    "zigma_wds": (
        write_zigma,
        peers.scaled_sample,
        IN_ORDER,
        {"num_classes": 0, "captions": {"tokens": 6, "width": 8}},
    ),
    "maskdit_wds": (write_maskdit, peers.maskdit_batch, IN_ORDER, LOGVAR),
    "u_vit": (write_uvit, peers.maskdit_batch, IN_ORDER, LOGVAR),
}


@pytest.mark.parametrize("function", CONVERTED)
def test_what_the_page_converts_is_read_as_its_authors_read_it(function: str, tmp_path: Path, monkeypatch: Any) -> None:
    write, batch, order, facts = CONVERTED[function]
    (tmp_path / "DIR").mkdir()
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "DIR")
    (lines, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text().split("## Other layouts")[1], re.DOTALL)
    exec(lines.replace('enumerate(mar("DIR"))', f'enumerate({function}("DIR"))'), {})

    entry = (str(tmp_path / "NEW"),)
    size = {"image_size": SIDE, "channels": SHAPE[0], "num_classes": CLASSES}
    choice = LatentsData(name="latents", train=entry, held_out=entry, **{**size, **facts})
    assert data_problems([(choice, False)], reads_everything=True) == []
    train, index = open_data(choice).train, np.array([10, 0, 4])
    mirrored = draws.uniform(0, "flip", 7, 3) < 0.5
    expected = batch(CONTENT, order[index], draws.normal(0, "posterior", 7, 3, SHAPE, np.float32), mirrored)
    np.testing.assert_allclose(train.drawn(index, 0, 7).numpy(), expected, rtol=2e-5, atol=2e-6)
    if choice.num_classes:
        assert train.labels(index).tolist() == CONTENT.labels[order[index]].tolist()
    else:
        places = 2 * index + draws.integers(0, "caption", 7, 3, 2)
        expected_captions = ["é" if place % 2 else f"caption {place // 2}" for place in places]
        assert train.captions(index, 0, 7) == expected_captions
        assert np.array_equal(train.text(index, 0, 7), TEXT[places]) and not train.empty_text.any()
