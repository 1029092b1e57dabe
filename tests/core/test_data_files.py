"""Data files that change while a run is under way are refused by name; what only looks changed is not."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from pathlib import Path

import pytest
from safetensors.torch import save_file
from torch import randint, randn

from tests.run_folders import begun, new_folder, planned, quiet
from tread_bench.cell.checkpoint import load_latest
from tread_bench.cell.loop import History
from tread_bench.cell.run import run_cell
from tread_bench.core.stored import data_files
from tread_bench.core.stored.data_files import ChangedDataError, check_unchanged, content_sha256, contents_of
from tread_bench.core.stored.data_paths import folder_name
from tread_bench.core.stored.documents import Choices
from tread_bench.runner.prepare import data_files as files_of_run
from tread_bench.runner.prepare import write_plan

BYTES = 2**16
EVERY_SOURCE = """\
name: toy
base:
  backbone: {name: DiT, depth: 2, hidden: 8, heads: 1, patch: 4}
  training: {iterations: 4, batch: 4}
rows:
  latents:
    data: {name: latents, train: [a.st, b.st], held_out: [c.st], decoder: d.st, images: [e.parquet]}
    metrics: {extractor_weights: f.st}
  pixels:
    method: tread
    routes: "0:1@0.5"
    auxiliary: [{name: repa, model: resnet18, weights: g.st}]
    data: {name: parquet, train: [h.parquet], held_out: [i.parquet], image_size: 8, num_classes: 2}
    metrics: {inception_weights: j.pth, reference: k.npz}
"""
SMALL = """\
name: toy
base:
  backbone: {name: DiT, depth: 2, hidden: 8, heads: 1, patch: 4}
  data: {name: latents, train: [train.st], held_out: [held_out.st], image_size: 8, num_classes: 2}
  training: {iterations: 4, batch: 4, checkpoint_every: 2}
  metrics: {at: [4], generate: false, validation_samples: 8, similarity_samples: 4}
timing: {pairs: 0}
rows:
  dense: {}
  again: {evaluate: dense}
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data_files, "SETTLED_S", -1.0)  # what was just written is remembered as well
    return tmp_path / "cache"


def flip(path: Path, place: int) -> None:
    """One bit; the file keeps its size, and gets back the time that it had."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_run_refuses_to_go_on_with_any_file_that_changed_and_names_it(tmp_path):
    # A plan of cells with every kind of file, and the folder of a run that began with them.
    names = ("a.st", "b.st", "c.st", "d.st", "e.parquet", "f.st", "g.st", "h.parquet", "i.parquet", "j.pth", "k.npz")
    for name in names:
        (tmp_path / name).write_bytes(random.Random(name).randbytes(3 * BYTES))
    plan, folder = planned(tmp_path, EVERY_SOURCE), new_folder(tmp_path / "run")
    files = files_of_run(plan.cells, folder.plan(), quiet)
    choices = Choices(numerics={"device": "cpu", "threads": 1}, versions={})
    write_plan(plan, plan.cells, EVERY_SOURCE, folder, choices, files=files)

    # Each of them.
    for path in (tmp_path / name for name in names):
        flip(path, BYTES)
        with pytest.raises(ChangedDataError, match=f"^{path} has changed since the run began: .*Put back the data"):
            files_of_run(plan.cells, folder.plan(), quiet)
        assert files_of_run(plan.cells, None, quiet)
        flip(path, BYTES)
    assert files_of_run(plan.cells, folder.plan(), quiet)

    # Those that are about to be read count.
    latents = next(cell for cell in plan.cells if cell.row == "latents")
    flip(tmp_path / "h.parquet", BYTES)
    assert files_of_run([latents], folder.plan(), quiet)


@pytest.fixture
def large(tmp_path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(random.Random(0).randbytes(4 * BYTES))
    os.utime(path, (1e9, 1e9))
    return path


@pytest.fixture
def pictures(tmp_path) -> str:
    """A folder of small files, read as a whole."""
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        path = tmp_path / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(name).randbytes(3 * BYTES))
        os.utime(path, (1e9, 1e9))
    return folder_name(str(tmp_path / "pictures"))


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_content_is_hashed_once_for_all_processes_and_again_when_it_was_written_to(
    is_folder, large, pictures, monkeypatch
):
    path, content = (pictures, Path(pictures) / "cat" / "2.png") if is_folder else (str(large), large)
    hashed = []
    name = "_folder_sha256" if path.endswith("/") else "_file_sha256"
    whole = getattr(data_files, name)
    monkeypatch.setattr(data_files, name, lambda path: (hashed.append(path), whole(path))[1])
    first = content_sha256(path)
    assert content_sha256(path) == contents_of([path])[path].sha256 == first
    assert len(hashed) == 1
    os.utime(content, (1e9, 1e9 + 1))
    assert content_sha256(path) == first and len(hashed) == 2
    flip(content, BYTES + 5)
    assert content_sha256(path) != first and len(hashed) == 3


def test_without_a_cache_contents_are_hashed(large, cache):
    cache.write_text("not a folder")
    (now,) = contents_of([str(large)]).values()
    assert now.sha256 == hashlib.sha256(large.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "harm",
    [
        lambda cat: (cat / "3.png").touch(),
        lambda cat: (cat / "2.png").write_bytes(bytes(3 * BYTES + 1)),
        lambda cat: (cat / "2.png").rename(cat / "../dog/2.png"),
    ],
)
def test_a_folder_that_changed_is_named(harm, pictures):
    before = contents_of([pictures])
    assert before == contents_of([pictures]) and before[pictures].bytes == 9 * BYTES
    harm(Path(pictures) / "cat")
    with pytest.raises(ChangedDataError, match=f"{pictures} has changed since then"):
        check_unchanged(before, contents_of([pictures]), "then")


def test_a_cell_refuses_to_go_on_with_other_contents_and_goes_on_once_they_are_back(tmp_path):
    # A run whose first cell has a checkpoint of half its training.
    data = {name: tmp_path / f"{name}.st" for name in ("train", "held_out")}
    for path in data.values():
        rows = BYTES // 64
        save_file({"latents": randn(rows, 4, 8, 8), "labels": randint(2, (rows,))}, path)
    plan = planned(tmp_path, SMALL)
    folder = begun(tmp_path / "run", plan, SMALL)
    cell = plan.rows["dense"][0].id
    outcome = run_cell(folder.root, cell, 1, quiet)
    assert outcome.status == "done", outcome.reason
    assert outcome.data_files == contents_of(map(str, data.values()))
    checkpoints = folder.cell(cell) / "checkpoints"
    for suffix in (".safetensors", ".sha256"):
        (checkpoints / f"step-000000004{suffix}").unlink()
    state = load_latest(checkpoints, cell).state
    of_older_version = {"files": state.pop("data_files"), **state}
    assert History.model_validate(of_older_version).data_files == outcome.data_files

    def attempt(change=quiet):
        (folder.cell(cell) / "record.json").unlink()
        return run_cell(folder.root, cell, 1, change)

    # Its data change, and come back with another time.
    shutil.copy2(data["train"], tmp_path / "kept")
    flip(data["train"], 2 * BYTES)
    before = sorted(checkpoints.iterdir())
    assert "train.st has changed since its last checkpoint" in attempt().reason
    assert sorted(checkpoints.iterdir()) == before
    shutil.copy(tmp_path / "kept", data["train"])

    # They change while it trains, and come back.
    def change(*news):
        shutil.copy2(tmp_path / "kept", data["train"])
        flip(data["train"], 2 * BYTES)

    assert "train.st has changed since its run began" in attempt(change).reason
    shutil.copy(tmp_path / "kept", data["train"])
    resumed = attempt()
    assert (resumed.status, resumed.final_weights_sha256) == ("done", outcome.final_weights_sha256)
    assert resumed.data_files == outcome.data_files

    # Its weights are not judged on other data.
    flip(data["held_out"], 2 * BYTES)
    record = run_cell(folder.root, plan.rows["again"][0].id, 1, quiet)
    assert record.status == "failed"
    assert f"held_out.st has changed since cell {cell}, whose weights this one reads, was trained" in record.reason
