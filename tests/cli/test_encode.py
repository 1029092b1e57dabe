"""`encode` as people call it: what it takes, what it prints, and what it says on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from tests.data.test_encode import HELD_OUT, TRAIN, write_images
from tests.data.tiny_vae import SIDE, write_vae
from tread_bench.cli.app import app
from tread_bench.core.describe.data_sources import data_sources
from tread_bench.core.errors import UserError
from tread_bench.core.problems import SuiteError
from tread_bench.suite.load import data_of

SETTINGS = f"{{name: parquet, train: [a.parquet], held_out: [b.parquet], image_size: {SIDE}, num_classes: 3}}"


SUITE = f"""\
name: mine
base:
  backbone: {{name: DiT, depth: 2, hidden: 8, heads: 1, patch: 2}}
  data: {SETTINGS.replace("[", "[$data_root/")}
  training: {{iterations: 1, batch: 2}}
  metrics: {{generate: false, validation_samples: 2, similarity_samples: 2}}
rows: {{dense: {{}}}}
"""


def test_data_are_those_of_a_suite_or_settings_as_a_suite_writes_them() -> None:
    settings = {"train": ["a.parquet"], "held_out": ["b.parquet"], "image_size": SIDE, "num_classes": 3}
    assert data_of(SETTINGS, []) == data_sources.find("parquet").options.model_validate(settings)
    assert data_of("smoke", []).name == "digits"


@pytest.mark.parametrize(
    ("source", "overrides", "told"),
    [
        ("{name: parkuet}", [], r"^\{name: parkuet\}: .*parquet"),
        ("{name: parquet, image_size: 0, num_clases: 3}", [], r"num_clases(.|\n)*num_classes"),
        (SETTINGS, ["data.image_size=8"], r"^--set data\.image_size=8: .* write the value into the settings"),
        ("smoke", ["matrix={data: [digits, random_latents]}"], "matrix cannot be set"),
        ("mine.yaml", [], "uses 2 data sources, and this takes one"),
    ],
)
def test_what_is_not_one_data_source_is_refused(source, overrides, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(SUITE + "matrix: {data: [digits, random_latents]}\n")
    with pytest.raises((UserError, SuiteError), match=told):
        data_of(source, overrides)


def test_the_command_writes_latents_and_prints_the_data_of_a_suite(tmp_path, monkeypatch, capsys):
    write_vae(tmp_path / "vae")
    write_images(tmp_path / "a.parquet", TRAIN, seed=0)
    write_images(tmp_path / "b.parquet", HELD_OUT, seed=1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SUITE)
    command = ["encode", "mine.yaml", "--data-root", ".", "--vae", "vae", "--out", "latents"]
    app(command, standalone_mode=False)
    told = capsys.readouterr()
    splits = {split: [str(tmp_path / "latents" / split)] for split in ("train", "held_out")}
    decoder = {"decoder": str(tmp_path / "vae"), "decoded_size": SIDE}
    assert yaml.safe_load(told.out) == {"data": {"name": "latents", **splits, **decoder}}
    assert "train on c" in told.err and f"train: {TRAIN} of {TRAIN}" in told.err
    assert (tmp_path / "latents" / "held_out" / "manifest.json").exists()
    with pytest.raises(UserError, match="belongs to another encoding"):
        app([*command, "--dtype", "float16"], standalone_mode=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="torch sees no CUDA device here"):
        app([*command, "--device", "cuda"], standalone_mode=False)


def test_all_images_that_cannot_be_read_are_named_before_any_is_encoded(tmp_path, monkeypatch):
    write_images(tmp_path / "a.parquet", TRAIN, seed=0, damaged=(7, 11))
    write_images(tmp_path / "b.parquet", HELD_OUT, seed=1, damaged=(3,))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"a\.parquet, row 7(.|\n)*a\.parquet, row 11(.|\n)*b\.parquet, row 3"):
        app(["encode", SETTINGS, "--vae", "vae", "--out", "latents"], standalone_mode=False)
    assert not (tmp_path / "latents").exists()


def test_ctrl_c_says_how_to_resume(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tread_bench.data.encode.encode.encode", interrupted)
    assert app(["encode", "smoke", "--vae", "vae", "--out", "latents"], standalone_mode=False) == 130
    assert capsys.readouterr() == ("", "interrupted; run the same command again to resume\n")
