"""Files that others made, through every door: what cannot be used is one message and status 2, without waiting."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from tests.command_line import tread_bench
from tests.data.latent_layouts import written
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.sources import export_of, write_export

PIPE = "it is not a file"
BRACKET = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8, 8, 8), }("


def plan_of(folder: Path, data: dict[str, Any]) -> list[object]:
    suite = {
        "name": "foreign",
        "base": {
            "backbone": {"name": "DiT", "depth": 2, "hidden": 8, "heads": 1, "patch": 4},
            "training": {"iterations": 4, "batch": 4},
            "metrics": {"generate": False, "validation_samples": 4, "similarity_samples": 4},
            "data": data,
        },
        "rows": {"dense": {}},
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    return ["plan", folder / "suite.yaml"]


def latents(folder: Path, layout: str, harm: Callable[[Path], object], archive: bool = False) -> list[object]:
    """The plan of a study of latents, something in which is harmed."""
    settings, _ = written(layout, folder / "set")
    harm(folder / "set")
    if archive:
        settings["train"] = [str(folder / "set.zip")]
    return plan_of(folder, {"name": "latents", **settings})


def images(folder: Path) -> Path:
    for name in ("a/1.png", "a/2.png", "a/3.png", "b/1.png"):
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)
    return folder / "images"


def a_run(folder: Path) -> Path:
    from synthetic_records import study  # of tests/reports
    from synthetic_runs import write_run

    return write_run(folder / "run", study(2))


def instead(path: Path) -> Path:
    """A pipe that nobody writes to, in the place of a file."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def a_pipe_as_archive(folder: Path) -> list[object]:
    _, suite = latents(folder, "repa", lambda root: instead(root.parent / "set.zip"), archive=True)
    return ["run", suite, "--out", folder / "run"]  # a plan lists it as missing


def a_pipe_as_a_member(folder: Path) -> list[object]:
    return latents(folder, "repa", lambda root: instead(min(root.rglob("*.npy"))))


def a_pipe_as_an_image(folder: Path) -> list[object]:
    root = images(folder)
    instead(root / "a" / "1.png")
    folders = {"train": [str(root)], "held_out": [str(root)]}
    return plan_of(folder, {"name": "image_folder", **folders, "image_size": 8, "channels": 3, "num_classes": 2})


def a_pipe_as_a_page(folder: Path) -> list[object]:
    run = a_run(folder)
    instead(run / "index.html")
    return ["report", run]


def a_pipe_as_a_config(folder: Path) -> list[object]:
    return ["profile", "--config", instead(folder / "config.json")]


def a_device_as_a_config(folder: Path) -> list[object]:
    (folder / "config.json").symlink_to("/dev/zero")
    return ["profile", "--config", folder / "config.json"]


def bracketed(path: Path) -> None:
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(BRACKET)) + BRACKET + bytes(4 * 8**3))


def a_header_that_ends_in_a_bracket(folder: Path) -> list[object]:
    return latents(folder, "repa", lambda root: bracketed(min(root.rglob("*.npy"))))


def images_whose_header_ends_in_a_bracket(folder: Path) -> list[object]:
    bracketed(folder / "set.npy")
    return ["evaluate", folder / "set.npy", "--reference", images(folder)]


def with_safetensors(folder: Path, kind: str, bits: int) -> Path:
    """A file of tensors of a type that NumPy does not have."""
    size = 11 * 4 * 8 * 8 * bits // 8
    head = json.dumps({"latents": {"dtype": kind, "shape": [11, 4, 8, 8], "data_offsets": [0, size]}}).encode()
    (folder / "a.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(size))
    return folder / "a.safetensors"


def latents_of_type_f8(folder: Path) -> list[object]:
    path = str(with_safetensors(folder, "F8_E8M0", 8))
    of_the_set = {"train": [path], "held_out": [path], "image_size": 8, "num_classes": 0, "scale": 1.0}
    return plan_of(folder, {"name": "latents", **of_the_set})


def weights_of_type_f4(folder: Path) -> list[object]:
    network = f"{{name: inception, weights: {with_safetensors(folder, 'F4', 4)}}}"
    return ["evaluate", images(folder), "--reference", images(folder), "--network", network]


def a_damaged_lmdb(folder: Path) -> list[object]:
    """Its pages are overwritten, from the third on."""

    def harm(root: Path) -> None:
        path = root / "train" / "data.mdb"
        content = path.read_bytes()
        path.write_bytes(content[: 2 * 4096] + b"\xff" * (len(content) - 2 * 4096))

    return latents(folder, "maskdit-lmdb", harm)


def an_exported_schedule_with_another_key(folder: Path) -> list[object]:
    path = folder / "run.zip"
    write_export(path, export_of(RunFolder(a_run(folder)))[0])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    first, *others = members["records.jsonl"].splitlines()
    record = json.loads(first)
    record["config"]["schedule"] = {"warmth": 1}
    members["records.jsonl"] = "\n".join([json.dumps(record), *others])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return ["report", path, "--out", folder / "page"]


CASES: dict[str, tuple[Callable[[Path], list[object]], str]] = {
    "a pipe as a zip archive": (a_pipe_as_archive, "set.zip"),
    "a pipe as a member": (a_pipe_as_a_member, f".npy cannot be read ({PIPE})"),
    "a pipe as an image": (a_pipe_as_an_image, f"1.png: cannot be read ({PIPE})"),
    "a pipe as a page": (a_pipe_as_a_page, "index.html cannot be written (it is a device or a pipe)"),
    "a pipe as config.json": (a_pipe_as_a_config, f"config.json cannot be read ({PIPE}); name the config.json"),
    "/dev/zero as config.json": (a_device_as_a_config, f"config.json cannot be read ({PIPE}); name the config.json"),
    "a header that ends in a bracket": (a_header_that_ends_in_a_bracket, "not a readable NumPy header"),
    "images whose header does": (images_whose_header_ends_in_a_bracket, "set.npy: no array that can be read"),
    "F8_E8M0": (latents_of_type_f8, "latents are F8_E8M0; store float16 (F16) or float32 (F32)"),
    "weights of type F4": (weights_of_type_f4, "tensors of type 'F4' are not read; store float32"),
    "a damaged LMDB": (a_damaged_lmdb, "data.mdb: not a readable LMDB"),
    "an exported schedule": (an_exported_schedule_with_another_key, "jsonl:1: unknown config.schedule key 'warmth'"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_used_is_one_message(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "reports")
    build, told = CASES[case]
    command = build(tmp_path)
    done = tread_bench(*command, cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 2 and told in done.stderr
    assert command[0] != "run" or not (tmp_path / "run").exists()  # it ends before its first cell, and leaves nothing
    assert "Traceback" not in done.stderr and "bug" not in done.stderr
