"""Every layout is opened as its authors write it: what a network sees, what is drawn, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from tests.data.latent_layouts import CLASSES, PEERS, SHAPE, written
from tread_bench.core.numbers import draws
from tread_bench.data.check import data_problems
from tread_bench.data.latents.layouts import LAYOUTS
from tread_bench.data.latents.manifest import MANIFEST
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.loader import Loader
from tread_bench.data.source import open_data

SEED, FIRST = 3, 40


def problems(settings: dict[str, Any]) -> list[str]:
    return data_problems([(LatentsData(name="latents", **settings), False)])


def test_every_layout_is_tried() -> None:
    assert PEERS.keys() | {"u-vit-coco"} == LAYOUTS.keys()  # that one in test_captioned_latents.py


@pytest.mark.parametrize("layout", PEERS)
def test_a_batch_is_what_the_peer_s_formula_gives(layout: str, tmp_path: Path) -> None:
    settings, content = written(layout, tmp_path / "set")
    assert problems(settings) == []
    data = open_data(LatentsData(name="latents", **settings))
    order = PEERS[layout].order(len(content.labels))
    index = np.array([10, 0, 7, 7, 3, 1, 9, 2])
    noise = draws.normal(SEED, "posterior", FIRST, len(index), SHAPE, np.float32)
    flipped = draws.uniform(SEED, "flip", FIRST, len(index)) < 0.5
    assert flipped.any() and not flipped.all()
    expected = PEERS[layout].batch(content, order[index], noise, flipped)
    drawn = data.train.drawn(index, SEED, FIRST)
    assert drawn.dtype == torch.float32
    np.testing.assert_allclose(drawn.numpy(), expected, rtol=2e-5, atol=2e-6)
    assert np.array_equal(data.train.labels(index).numpy(), content.labels[order][index])

    # As it is read by processes beside each other.
    with Loader(lambda step: data.train.drawn(index, SEED, FIRST), range(16), 2) as batches:
        assert all(torch.equal(batch, drawn) for batch in batches)


# ---- confusions that shapes, values or a manifest show


def mean(tensors: dict[str, Any]) -> Any:
    return tensors["moments"][:, : SHAPE[0]]


SAMPLES = {"quantity": "sample", "flips": "none"}
CONFUSIONS: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], dict[str, Any], str]] = {
    "scaled twice": (lambda t: {"latents": 0.18215 * mean(t)}, SAMPLES, "twice"),
    "not scaled": (lambda t: {"latents": mean(t)}, {**SAMPLES, "already_scaled": True}, "the scale is missing"),
    "moments, not samples": (lambda t: {"latents": t["moments"]}, SAMPLES, "set data.quantity: mean_std or mean_logv"),
    "moments": (lambda t: t, SAMPLES, "no tensor 'latents'.*set data.quantity"),
    "samples, not moments": (lambda t: {"moments": mean(t)}, {"flips": "none"}, "set data.quantity: sample"),
    "log-variances": (lambda t: t, {"quantity": "mean_std"}, "look like mean_logvar: set data.quantity: mean_logvar"),
    "mirrored ones": (
        lambda t: t,
        {"flips": "none"},
        "moments_flip is not read with data.flips none; set data.layout: lightningdit, or data.flips: pair",
    ),
    "deviations": (
        lambda t: {**t, "moments": torch.cat([mean(t), t["moments"][:, 4:].exp()], 1)},
        {},
        "look like mean_std: set data.quantity: mean_std",
    ),
}


@pytest.mark.parametrize("name", CONFUSIONS)
def test_a_confusion_is_reported_with_the_way_out(name: str, tmp_path: Path) -> None:
    change, confused, told = CONFUSIONS[name]
    settings, _ = written("safetensors", tmp_path / "set")
    for path in (tmp_path / "set").iterdir():
        tensors = load_file(path)
        changed = {"labels": tensors["labels"], **change(tensors)}
        save_file({name: value.contiguous() for name, value in changed.items()}, path)
    found = problems({**settings, "scale": 0.18215, **confused})
    assert found
    assert all(re.search(told, message) for message in found), found


REFUSED = (
    ({"layout": "repa", "quantity": "sample"}, "quantity 'sample': layout repa has 'mean_std'; leave the key out"),
    ({"scale": [1.0, 2.0]}, "scale has 2 numbers for 4 channels"),
    (
        {"already_scaled": True, "quantity": "mean_std"},
        "already_scaled with quantity mean_std: moments are scaled when",
    ),
    ({"layout": "repaa"}, "unknown layout 'repaa'; did you mean 'repa'.*docs/methods/latents"),
    ({"layout": "fast-dit", "train_images": "x"}, "have no names by which an image is found; those of repa, .* have"),
    ({"layout": "repa", "captions": {}, "num_classes": 0}, "layout repa stores none; safetensors, u-vit-coco do"),
    ({"captions": {}, "num_classes": 10}, "num_classes 10: captions take the place of labels; set num_classes: 0"),
)


@pytest.mark.parametrize(("settings", "told"), REFUSED)
def test_settings_that_contradict_the_layout_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        LatentsData(name="latents", train=["x"], held_out=["x"], **settings)


# ---- the manifest


def with_manifest(tmp_path: Path, **changed: Any) -> dict[str, Any]:
    settings, _ = written("safetensors", tmp_path / "set")
    facts = {"quantity": "mean_logvar", "encoder_input": (-1, 1), "already_scaled": False, "flips": "pair"}
    scale = {"scale": [0.2, 0.3, 0.2325, 0.25], "shift": [1.0, 0.0, 0.0, -1.0]}
    about = {**facts, **scale, "shape": SHAPE, "count": 11, "num_classes": 3, **changed}
    (tmp_path / "set" / MANIFEST).write_text(json.dumps(about))
    return {"train": settings["train"], "held_out": settings["held_out"]}


def test_a_manifest_says_what_the_suite_leaves_out_and_the_cell_holds_it(tmp_path: Path) -> None:
    settings = with_manifest(tmp_path)
    assert problems(settings) == []
    options = LatentsData(name="latents", **settings)
    assert (options.quantity, options.flips, options.shift) == ("mean_logvar", "pair", (1.0, 0.0, 0.0, -1.0))
    assert (options.channels, options.image_size, options.num_classes) == (4, 4, 3)
    assert str(tmp_path / "set" / MANIFEST) in [path for _, path in options.family.files(options, False)]
    kept = options.model_dump(mode="json")
    shutil.rmtree(tmp_path / "set")
    assert LatentsData.model_validate(kept) == options


CONTRADICTIONS = (
    ({"version": 2}, {"quantity": "mean_logvar", "flips": "pair"}, "manifest.json: unknown version 2"),
    ({}, {"quantity": "mean_std"}, "has quantity 'mean_logvar', and the suite data.quantity 'mean_std'"),
    ({}, {"scale": 0.18215}, r"manifest.json has scale \(0.2, .*, and the suite data.scale 0.18215"),
    ({"shape": (4, 4, 5)}, {}, "latents must be square"),
    ({"count": 12}, {}, "manifest.json has count 12, and there are 11"),
    ({"files": {"gone.safetensors": "0"}}, {}, "manifest.json lists gone.safetensors, which is missing"),
)


@pytest.mark.parametrize(("changed", "settings", "told"), CONTRADICTIONS)
def test_a_manifest_that_contradicts_suite_or_files_is_reported(changed: Any, settings: Any, told: str, tmp_path: Path):
    found = problems({**with_manifest(tmp_path, **changed), **settings})
    assert any(re.search(told, message) for message in found), found


def test_a_database_by_two_names_is_opened_once(tmp_path: Path) -> None:
    settings, content = written("maskdit-lmdb", tmp_path / "set")
    (tmp_path / "link").symlink_to(tmp_path / "set" / "train")
    both = LatentsData(name="latents", **{**settings, "train": [*settings["train"], str(tmp_path / "link")]})
    labels = open_data(both).train.labels(np.arange(22))
    assert labels.tolist() == [*content.labels, *content.labels]


# ---- files of every layout under the name of another one

ALIKE = [{"repa", "edm2"}]  # the same files, of pixels in another range


def named(settings: dict[str, Any], layout: str | None) -> dict[str, Any]:
    """The settings with another layout, or none, and nothing else that says what is stored."""
    kept = {key: settings[key] for key in ("train", "held_out", "image_size", "channels", "num_classes")}
    if layout == "lightningdit":
        kept |= {"scale": 0.18215, "shift": None}
    if layout == "u-vit-coco":
        kept |= {"captions": None, "num_classes": 0}
    return kept if layout is None else {**kept, "layout": layout}


@pytest.mark.parametrize("num_classes", [CLASSES, 0])
@pytest.mark.parametrize("layout", PEERS)
def test_files_of_a_layout_are_refused_under_every_other_name_and_without_one(
    layout: str, num_classes: int, tmp_path: Path
) -> None:
    settings, _ = written(layout, tmp_path / "set")
    settings["num_classes"] = num_classes
    assert problems(settings) == []
    for other in LAYOUTS.keys() - {layout}:
        found = problems(named(settings, other))
        assert bool(found) == ({other, layout} not in ALIKE), (other, found)
    without = LatentsData(name="latents", **named(settings, None))
    assert without == LatentsData(name="latents", **named(settings, "safetensors"))
