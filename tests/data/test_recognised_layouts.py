"""Files of every layout are refused under the name of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.data.latent_layouts import CHANNELS, CLASSES, PEERS, SHAPE, SIDE, written
from tread_bench.core.stored.data_paths import is_missing
from tread_bench.data.check import data_problems
from tread_bench.data.latents.family import LATENTS
from tread_bench.data.latents.layouts import LAYOUTS
from tread_bench.data.latents.options import LatentsData

ALIKE = [{"repa", "edm2"}]  # the same files, of pixels in another range


def problems(settings: dict[str, Any]) -> list[str]:
    return data_problems([(LatentsData(name="latents", **settings), False)])


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


def own(folder: Path, *names: str) -> dict[str, Any]:
    """Settings of files of this project with these tensors."""
    folder.mkdir()
    values = torch.randn(11, *SHAPE) / 0.18215
    save_file({**{name: values.clone() for name in names}, "labels": torch.arange(11) % 3}, folder / "a.safetensors")
    paths = {"train": [str(folder)], "held_out": [str(folder)]}
    return {**paths, "image_size": SIDE, "channels": CHANNELS, "num_classes": CLASSES}


def test_files_of_this_project_need_no_layout(tmp_path: Path) -> None:
    assert problems(own(tmp_path / "samples", "latents")) == []
    pairs = own(tmp_path / "pairs", "latents", "latents_flip")
    assert problems({**pairs, "flips": "pair"}) == []


def test_mirrored_latents_are_never_ignored(tmp_path: Path) -> None:
    (found,) = problems(own(tmp_path / "set", "latents", "latents_flip"))
    told = "latents_flip is not read with data.flips none; set data.layout: lightningdit, or data.flips: pair"
    assert found == f"{tmp_path}/set/a.safetensors: {told}"
    moments = own(tmp_path / "moments", "moments", "moments_flip")
    (found,) = problems({**moments, "quantity": "mean_logvar", "channels": CHANNELS // 2})
    assert "moments_flip is not read with data.flips none; set data" in found


def test_held_out_files_of_lightningdit_need_no_statistics_of_their_own(tmp_path: Path) -> None:
    train, _ = written("lightningdit", tmp_path / "train")
    held_out, _ = written("lightningdit", tmp_path / "held_out", seed=1)
    (tmp_path / "held_out" / "latents_stats.pt").unlink()
    both = {**train, "held_out": held_out["train"]}
    assert problems(both) == []
    found = problems(named(both, None))
    assert found and all("set data.layout: lightningdit" in message for message in found)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_missing_stays_missing(layout: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    settings, _ = written("repa", tmp_path / "set")
    for entry in ("nothing", "nothing.zip", "empty", "set/*/nothing"):
        settings["train"] = [str(tmp_path / entry)]
        options = LatentsData(name="latents", **named(settings, layout))
        places = [place for place, path in LATENTS.files(options, False) if is_missing(path)]
        assert (("train", 0) in places) == (entry != "empty" or not LAYOUTS[layout].is_folder)


def test_files_of_other_kinds_beside_those_of_the_layout_do_not_matter(tmp_path: Path) -> None:
    settings = own(tmp_path / "set", "latents")
    (tmp_path / "set" / "0").mkdir()
    np.save(tmp_path / "set" / "0" / "a.npy", np.zeros(SHAPE))
    assert problems(settings) == []
