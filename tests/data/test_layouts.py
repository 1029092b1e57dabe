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

from tests.data.checked import failing_of_data
from tests.data.latent_layouts import PEERS, SHAPE, write_npy_listed, written
from tread_bench.core.describe.data_sources import find_data_source
from tread_bench.core.errors import UserError
from tread_bench.core.numbers import draws
from tread_bench.data.check import data_problems
from tread_bench.data.latents.layouts import LAYOUTS
from tread_bench.data.latents.manifest import MANIFEST, LatentManifest, read_manifest
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.open import open_data
from tread_bench.suite.files import Look
from tread_bench.suite.load import load_plan

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
    order = PEERS[layout].order(content)
    index = np.array([10, 0, 7, 7, 3, 1, 9, 2])
    noise = draws.normal(SEED, "posterior", FIRST, len(index), SHAPE, np.float32)
    flipped = draws.uniform(SEED, "flip", FIRST, len(index)) < 0.5
    assert flipped.any() and not flipped.all()
    expected = PEERS[layout].batch(content, order[index], noise, flipped)
    drawn = data.train.drawn(index, SEED, FIRST)
    assert drawn.dtype == torch.float32
    np.testing.assert_allclose(drawn.numpy(), expected, rtol=2e-5, atol=2e-6)
    assert np.array_equal(data.train.labels(index).numpy(), content.labels[order][index])


def test_the_page_s_way_from_300_latents_to_a_report_is_planned_without_a_mistake(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "methods" / "latents.md").read_text(encoding="utf-8")
    (example,) = (part for part in page.split("```yaml\n")[1:] if part.startswith("name: my_latents"))
    suite = tmp_path / "my_latents.yaml"
    suite.write_text(example.split("```")[0], encoding="utf-8")
    random = np.random.default_rng(0)
    for split, count in (("train", 300), ("validation", 60)):
        mean = random.normal(size=(count, 4, 8, 8)).astype(np.float32) / 0.18215
        values = np.concatenate([mean, np.full_like(mean, 0.5)], axis=1)
        write_npy_listed(tmp_path / "vae-sd" / split, values, np.arange(count) % 3, "img-mean-std-")
    assert len(load_plan(suite, look=Look.CONTENTS).cells) == 4


@pytest.mark.parametrize("layout", PEERS)
def test_every_layout_keeps_the_contract_of_data_sources(layout: str, tmp_path: Path) -> None:
    options = []
    for seed in (0, 1):
        train, _ = written(layout, tmp_path / f"train{seed}", seed, 70)
        held_out, _ = written(layout, tmp_path / f"held_out{seed}", seed + 10, 9)
        options.append({**train, "held_out": held_out["train"]})
    assert failing_of_data(find_data_source("latents"), tmp_path, *options) == set()


# ---- confusions that shapes, values or a manifest show


def mean(tensors: dict[str, Any]) -> Any:
    return tensors["moments"][:, : SHAPE[0]]


SAMPLES = {"quantity": "sample", "flips": "none"}
CONFUSIONS: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], dict[str, Any], str]] = {
    "scaled twice": (lambda t: {"latents": 0.18215 * mean(t)}, SAMPLES, "twice"),
    "not scaled": (
        lambda t: {"latents": mean(t)},
        {**SAMPLES, "already_scaled": True},
        "the scale is missing",
    ),
    "moments under the name of samples": (
        lambda t: {"latents": t["moments"]},
        SAMPLES,
        "these are moments, .*; set data.quantity: mean_std or mean_logvar",
    ),
    "moments taken for samples": (lambda t: t, SAMPLES, "no tensor 'latents'.*set data.quantity"),
    "samples taken for moments": (
        lambda t: {"latents": mean(t)},
        {"flips": "none"},
        "no tensor 'moments'.*set data.quantity",
    ),
    "half the channels": (
        lambda t: {"moments": mean(t)},
        {"flips": "none"},
        "these are samples, .*; set data.quantity: sample",
    ),
    "log-variances taken for deviations": (
        lambda t: t,
        {"quantity": "mean_std"},
        "values look like mean_logvar: set data.quantity: mean_logvar",
    ),
    "deviations taken for log-variances": (
        lambda t: {**t, "moments": torch.cat([mean(t), t["moments"][:, 4:].exp()], 1)},
        {},
        "values look like mean_std: set data.quantity: mean_std",
    ),
    "no mirrored latents": (
        lambda t: {"moments": t["moments"]},
        {},
        "no tensor 'moments_flip'.*set data.quantity and data.flips",
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


@pytest.mark.parametrize(
    ("layout", "settings", "told"),
    [
        ("repa", {"quantity": "sample"}, "quantity 'sample': layout repa has 'mean_std'; leave the key out"),
        ("lightningdit", {"flips": "none"}, "flips 'none': layout lightningdit has 'pair'"),
        ("safetensors", {"scale": [1.0, 2.0]}, "scale has 2 numbers for 4 channels"),
        ("safetensors", {"already_scaled": True}, "already_scaled with quantity mean_logvar: moments are scaled when"),
        ("safetensors", {"scale": 0}, "must be positive and finite"),
        (
            "safetensors",
            {"layout": "repaa"},
            "unknown layout 'repaa'; did you mean 'repa'.*docs/methods/latents",
        ),
        (
            "lightningdit",
            {"train_images": "images"},
            "have no names by which an image is found; those of repa, .* have",
        ),
    ],
)
def test_settings_that_contradict_the_layout_are_refused(
    layout: str, settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    stated, _ = written(layout, tmp_path / "set")
    with pytest.raises(ValidationError, match=told):
        LatentsData(name="latents", **{**stated, **settings})


# ---- the manifest


def manifest(**changed: Any) -> LatentManifest:
    facts: dict[str, Any] = {
        "quantity": "mean_logvar",
        "encoder_input": (-1, 1),
        "already_scaled": False,
        "scale": [0.2, 0.3, 0.2325, 0.25],
        "shift": [1.0, 0.0, 0.0, -1.0],
        "flips": "pair",
        "shape": SHAPE,
        "count": 11,
        "num_classes": 3,
    }
    return LatentManifest(**{**facts, **changed})


def with_manifest(tmp_path: Path, text: str) -> dict[str, Any]:
    settings, _ = written("safetensors", tmp_path / "set")
    (tmp_path / "set" / MANIFEST).write_text(text)
    return {"train": settings["train"], "held_out": settings["held_out"]}


def test_a_manifest_says_what_the_suite_leaves_out_and_the_cell_holds_it(tmp_path: Path) -> None:
    settings = with_manifest(tmp_path, manifest().model_dump_json())
    assert problems(settings) == []
    options = LatentsData(name="latents", **settings)
    assert (options.quantity, options.flips, options.shift) == ("mean_logvar", "pair", (1.0, 0.0, 0.0, -1.0))
    assert (options.channels, options.image_size, options.num_classes) == (4, 4, 3)
    assert str(tmp_path / "set" / MANIFEST) in [path for _, path in options.family.files(options, False)]
    kept = options.model_dump(mode="json")
    shutil.rmtree(tmp_path / "set")
    assert LatentsData.model_validate(kept) == options


@pytest.mark.parametrize(
    ("changed", "settings", "told"),
    [
        (
            {},
            {"quantity": "mean_std"},
            "has quantity 'mean_logvar', and the suite data.quantity 'mean_std'",
        ),
        ({}, {"scale": 0.18215}, r"manifest.json has scale \(0.2, .*, and the suite data.scale 0.18215"),
        ({"count": 12}, {}, "manifest.json has count 12, and there are 11"),
        ({"files": {"gone.safetensors": "0"}}, {}, "manifest.json lists gone.safetensors, which is missing"),
    ],
)
def test_a_manifest_that_contradicts_suite_or_files_is_reported(
    changed: dict[str, Any], settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    stated = with_manifest(tmp_path, manifest(**changed).model_dump_json())
    found = problems({**stated, **settings})
    assert any(re.search(told, message) for message in found), found


def test_a_manifest_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    settings = with_manifest(tmp_path, "{")
    sizes = {"image_size": 4, "num_classes": 3, "quantity": "mean_logvar", "flips": "pair"}
    (found,) = problems({**settings, **sizes})
    assert "manifest.json: not JSON" in found


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"scale": 10**400}, r"manifest\.json: scale: 1000.*: must be a finite number"),
        ({"shift": -(10**400)}, r"manifest\.json: shift: -1000.*: must be a finite number"),
        ({"scale": [1, 1, 1, 0]}, r"manifest\.json: scale: 0: must be positive and finite"),
        ({"scale": True}, r"manifest\.json: scale: must be a number, not true"),
        ({"shift": [0, 0, 0, False]}, r"manifest\.json: shift: must be a number, not false"),
        ({"encoder_input": [-1, True]}, r"manifest\.json: encoder_input\.1: must be a number, not true"),
    ],
)
def test_what_must_be_a_number_is_one_in_manifest_and_suite(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    stated = json.loads(manifest().model_dump_json())
    settings = with_manifest(tmp_path, json.dumps({**stated, **changed}))
    with pytest.raises(UserError, match=told):
        read_manifest(tmp_path / "set" / MANIFEST)
    rule = told.rpartition(": ")[2]
    with pytest.raises(ValidationError, match=rule):
        LatentsData(name="latents", **{**settings, **changed, "quantity": "mean_logvar", "flips": "pair"})


def test_a_database_by_two_names_is_opened_once(tmp_path: Path) -> None:
    settings, content = written("maskdit-lmdb", tmp_path / "set")
    (tmp_path / "link").symlink_to(tmp_path / "set" / "train")
    both = LatentsData(name="latents", **{**settings, "train": [*settings["train"], str(tmp_path / "link")]})
    labels = open_data(both).train.labels(np.arange(22))
    assert labels.tolist() == [*content.labels, *content.labels]
