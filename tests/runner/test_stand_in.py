"""Smoke runs of suites whose files are missing: random data of the same shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import tread_bench
from tests.run_folders import new_folder
from tread_bench.core.errors import UserError
from tread_bench.data.stand_in.family import StandInData
from tread_bench.measure.quality.networks.classifier.network import open_classifier
from tread_bench.runner.stand_in import smoke_with_stand_ins
from tread_bench.suite.files import Look
from tread_bench.suite.load import load_plan
from tread_bench.suite.plan import Plan

SUITE = """\
name: mine
base:
  backbone: {name: DiT, depth: 2, hidden: 8, heads: 1, patch: 2}
  data: {name: parquet, train: [gone.parquet], held_out: [gone.parquet], image_size: 8, num_classes: 3}
  training: {iterations: 10, batch: 2}
rows:
  missing: {}
  judged: {evaluate: missing, sampling.steps: 3}
  there: {data: digits}
"""


@pytest.fixture
def whole(tmp_path: Path) -> Plan:
    (tmp_path / "mine.yaml").write_text(SUITE)
    return load_plan(tmp_path / "mine.yaml", look=Look.CONTENTS, allows_missing=True)


def test_what_is_missing_is_replaced_and_the_rest_is_kept(whole: Plan, tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "run")
    plan = smoke_with_stand_ins(whole, folder)
    assert plan.stand_ins == ("data parquet", "feature network")
    cells = {row: cells[0].cell for row, cells in plan.rows.items()}
    assert cells["missing"].data == StandInData(image_size=8, num_classes=3)
    assert cells["judged"].data == cells["missing"].data and cells["there"].data.name == "digits"
    assert open_classifier(cells["missing"].metrics.extractor_weights, (3, 8)).dims == 16
    assert cells["there"].metrics.extractor_weights is None
    assert not plan.missing

    # The same command again finds the same files.
    before = {path: path.stat().st_mtime_ns for path in folder.stand_ins.iterdir()}
    assert smoke_with_stand_ins(whole, folder).cells == plan.cells
    assert {path: path.stat().st_mtime_ns for path in folder.stand_ins.iterdir()} == before != {}


def test_a_smoke_run_without_files_ends_with_a_page_that_says_what_is_random(tmp_path: Path) -> None:
    small = "backbone={name: DiT, depth: 12, hidden: 8, heads: 1, patch: 8}"
    settings = ["--set", small, "--set", "timing.pairs=0", "--rows", "tread-2:8", "--set", "seeds=1"]
    done = tread_bench("run", "cifar10/route_placement", "--smoke", *settings, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"no such file: {tmp_path.resolve()}/cifar10/train.parquet" in done.stderr
    page = (tmp_path / "run/index.html").read_text()
    assert "what stands in for them is random: data parquet, feature network" in page
    done = tread_bench("run", "cifar10/route_placement", "--smoke", *settings, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0 and "nothing to do" in done.stdout


def test_what_nothing_stands_in_for_is_told_at_once(tmp_path: Path) -> None:
    aligned = "  repa: {auxiliary: [{name: repa, model: resnet18, weights: gone.st}]}\n"
    (tmp_path / "mine.yaml").write_text(f"{SUITE}{aligned}  other: {{evaluate: {{row: a, run: b}}}}\n")
    plan = load_plan(tmp_path / "mine.yaml", look=Look.HEADERS, allows_missing=True)
    with pytest.raises(UserError) as caught:
        smoke_with_stand_ins(plan, new_folder(tmp_path / "run"))
    for name in ("gone.st", "b"):
        message = f"no such file: {tmp_path.resolve() / name}: nothing stands in for it in a smoke run"
        assert message in str(caught.value)
    assert not (tmp_path / "run" / "stand-in").exists()


LATENTS = """\
name: mine
base:
  backbone: {name: MMDiT, depth: 2, hidden: 16, heads: 2, patch: 2}
  data:
    name: latents
    layout: u-vit-coco
    train: [gone/train]
    held_out: [gone/val]
    image_size: 8
    captions: {tokens: 6, width: 10}
    decoder: gone
    images: [gone/images]
    decoded_size: 32
  training: {iterations: 10, batch: 2}
"""


def test_latents_with_captions_have_a_stand_in_with_a_decoder(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(LATENTS)
    plan = load_plan(tmp_path / "mine.yaml", look=Look.CONTENTS, allows_missing=True)
    folder = new_folder(tmp_path / "run")
    smoke = smoke_with_stand_ins(plan, folder)
    (data,) = (cell.cell.data for cell in smoke.cells)
    assert (data.channels, data.image_size, data.text_shape, data.picture_shape) == (4, 8, (6, 10), (3, 32))
    assert data.is_decoded and data.picture_shape == (3, 32)
    assert [path.name for path in folder.stand_ins.iterdir()] == ["network-3x32x2.safetensors"]
