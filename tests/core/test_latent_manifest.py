"""The manifest beside latents: what it may say, where it is looked for, and all of its mistakes at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tread_bench.core.errors import UserError
from tread_bench.data.latents.manifest import LatentManifest, manifest_path, manifests_of, read_manifest

FACTS: dict[str, Any] = {
    "quantity": "mean_logvar",
    "encoder_input": [-1, 1],
    "already_scaled": False,
    "scale": [0.5, 2],
    "shape": [2, 4, 4],
    "count": 11,
    "num_classes": 3,
}


def written(folder: Path, text: str) -> Path:
    path = folder / "manifest.json"
    path.write_text(text)
    return path


def test_paths_start_at_the_manifest_and_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({**FACTS, "scale": "scale.npy", "shift": "sub/shift.npy"}))
    found = read_manifest(path)
    assert (found.scale, found.shift) == (str(tmp_path / "scale.npy"), str(tmp_path / "sub/shift.npy"))
    assert (found.version, found.flips, found.files, found.encoder) == (1, "none", {}, "")
    assert LatentManifest.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", ["not JSON"]),
        ("[]", ["must be"]),
        (json.dumps({**FACTS, "scale": -1, "quantity": "moments"}), ["scale: -1: must be positive", "quantity"]),
        (json.dumps({**FACTS, "scale": True, "latents": 3}), ["must be a number, not true", "unknown key 'latents'"]),
        (json.dumps({**FACTS, "already_scaled": True}), ["moments are scaled when they are drawn"]),
        (json.dumps({**FACTS, "already_scaled": True, "quantity": "mean_std"}), ["already_scaled with quantity"]),
        (json.dumps({**FACTS, "scale": [1, 2, 3]}), ["scale has 3 numbers for 2 channels"]),
        (json.dumps({**FACTS, "shift": [1.0]}), ["shift has 1 numbers for 2 channels"]),
        (json.dumps({**FACTS, "scale": []}), ["one number for each channel"]),
        (json.dumps({**FACTS, "version": 2}), ["version"]),
        (json.dumps({**FACTS, "scale": float("nan")}), ["scale: nan: must be a finite number"]),
        (json.dumps({**FACTS, "scale": 10**400}), ["must be a finite number"]),
        (json.dumps({**FACTS, "scale": [1, 0]}), ["0: must be positive and finite"]),
        (json.dumps({**FACTS, "encoder_input": [-1, True]}), ["must be a number, not true"]),
        (json.dumps({k: v for k, v in FACTS.items() if k != "count"}), ["count is missing"]),
    ],
)
def test_every_mistake_is_reported_with_the_file(text: str, told: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError) as raised:
        read_manifest(path)
    assert all(part in str(raised.value) for part in told)
    assert all(line.startswith(str(path)) for line in str(raised.value).splitlines())


def test_it_is_looked_for_in_a_folder_and_beside_files_and_globs(tmp_path: Path) -> None:
    here = tmp_path / "latents"
    here.mkdir()
    (here / "a.safetensors").touch()
    missing = here / "b.safetensors"
    for entry in (here, here / "a.safetensors", missing, here / "*", here / "*.safetensors", here / "**" / "[ab].tar"):
        assert manifest_path(str(entry)) == here / "manifest.json"
    assert manifest_path(str(here / "missing")) == here / "missing" / "manifest.json"
    assert manifests_of([str(here)]) == []
    path = written(here, json.dumps(FACTS))
    assert manifests_of([str(here), str(here / "*.tar"), str(tmp_path / "none.tar")]) == [path]
