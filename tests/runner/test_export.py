"""An export holds what a report reads, with file names in place of paths."""

from __future__ import annotations

import platform
import re
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.run_folders import COST, end, put, ready
from tread_bench.cli.app import app
from tread_bench.core.errors import UserError
from tread_bench.core.stored.records import SCHEMA_VERSION, CostFigures, DataFile, Evaluation
from tread_bench.runner import sources
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.sources import export_of, read_export, write_export
from tread_bench.services.report import write_report
from tread_bench.suite.load import load_plan

MARK = "Zzyzx"  # in the name of everything that must not leave the machine
SUITE = """\
name: study
base:
  backbone: {name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}
  data: {name: parquet, train: [train/0.parquet], held_out: [held out/0.parquet], image_size: 8, channels: 1,
         num_classes: 2}
  training: {iterations: 4, batch: 4}
  metrics: {extractor: trained-classifier}
rows:
  dense: {metrics.extractor_weights: a/features.safetensors}
  routed: {method: tread, routes: 1:2@0.5, metrics.extractor_weights: b/features.safetensors}
"""
SAID = "OSError: [Errno 2] No such file or directory: '/elsewhere/train/0.parquet'"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    """A run on a machine whose every name is marked: two cells have samples, one has failed, and one has no record."""
    here = tmp_path_factory.mktemp("machine") / f"{MARK} user"
    for name in ("train/0.parquet", "held out/0.parquet", "a/features.safetensors", "b/features.safetensors"):
        put(here / name, name)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("USER", f"{MARK}login")
        patched.setattr(platform, "node", lambda: f"{MARK}host.cluster")
        put(here / "study.yaml", SUITE)
        plan = load_plan(here / "study.yaml", ["seeds=2"])
        files = {str(path): DataFile(bytes=1, sha256=path.name) for path in sorted(here.rglob("*.parquet"))}
        folder = ready(here / f"{MARK}run", plan, SUITE, files=files)
        for cell, reason in zip(plan.cells[:3], ["", SAID, ""], strict=True):
            (folder.cell(cell.id) / "samples").mkdir(parents=True)
            evaluation = Evaluation(
                iteration=4, train_seconds=1, validation_loss=1, validation_loss_per_time={"0.5": 1.0, "0.25": 2.0},
                fid=9 + cell.seed, samples="samples/4.png", samples_sha256="0" * 64,
            )  # fmt: skip
            left = {"status": "failed", "reason": reason} if reason else {"evaluations": [evaluation]}
            end(folder, cell.id, cost=CostFigures(**COST), data_files=files, **left)
        write_report([folder.root])
    return folder


def written(folder: RunFolder, path: Path) -> bytes:
    write_export(path, export_of(folder)[0])
    return path.read_bytes()


@pytest.fixture
def exported(run, tmp_path) -> Path:
    written(run, tmp_path / "run.zip")
    return tmp_path / "run.zip"


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_names_no_folder_and_no_file_that_stays_there_and_no_two_files_alike(exported):
    members = members_of(exported)
    assert sorted(members) == ["plan.json", "records.jsonl"]
    text = b"".join(members.values()).decode()
    assert MARK not in text and "4.png" not in text and not re.findall(r'"/[^"]*"', text)
    assert all(f'"{name}"' in text for name in ("features.safetensors", "features (2).safetensors"))
    assert all(f'"{name}"' in members["plan.json"].decode() for name in ("0.parquet", "0 (2).parquet"))


def test_it_is_read_as_it_was_written_and_twice_the_same(run, exported, tmp_path):
    found, own = read_export(exported), export_of(run)[0]
    assert (found.plan, found.records) == (own.plan, own.records)
    assert [record.reason for record in found.records] == ["", SAID, ""]
    assert written(run, tmp_path / "again.zip") == exported.read_bytes()


def test_the_command_writes_it_and_says_what_is_missing_and_what_failed_cells_said(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ["report", str(run.root), "--export", "run.zip"]
    done = CliRunner().invoke(app, asked)
    assert (done.exit_code, done.stdout) == (0, "run.zip\n")
    said, missing = done.stderr.splitlines()
    assert said.startswith("what cells said when they failed is in it as they said it: look for paths and hosts")
    assert missing == "1 of 4 cells have no record yet and are not in it"
    assert [path.name for path in tmp_path.iterdir()] == ["run.zip"]
    (tmp_path / "run.zip").write_text("mine")
    assert CliRunner().invoke(app, asked).exit_code and (tmp_path / "run.zip").read_text() == "mine"
    assert CliRunner().invoke(app, [*asked, "--overwrite"]).exit_code == 0
    assert len(read_export(tmp_path / "run.zip").records) == 3


def test_it_is_drawn_as_the_run_is_without_samples(run, exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write_report([exported]).page == "run/index.html"
    assert (tmp_path / "run" / "results.csv").read_bytes() == (run.root / "results.csv").read_bytes()
    drawn = (tmp_path / "run" / "index.html").read_text()
    assert "sample images, logs and weights stay in the run folder" in drawn and 'id="samples"' not in drawn
    assert len({*(tmp_path / "run" / "figures").iterdir()}) == len({*(run.root / "figures").iterdir()}) > 0
    write_report([exported])  # into a folder of its own


def test_it_is_written_alone_and_of_a_run_folder_with_a_record(run, exported, tmp_path):
    put(tmp_path / "new" / "plan.json", run.plan_path.read_text())
    for source, options, told in (
        (run.root, ["--out", str(tmp_path / "page")], "writes one file, and no report into .*page; give one of them"),
        (exported, [], "is a file; give a run folder"),
        (tmp_path / "new", [], "has no readable record, so there is nothing to export"),
    ):
        arguments = ["report", str(source), "--export", str(tmp_path / "again.zip"), *options]
        assert re.search(told, str(CliRunner().invoke(app, arguments).exception))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "run.zip"]


# Files that are not what they should be


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


VERSION = b'"schema_version": %d' % SCHEMA_VERSION


@pytest.mark.parametrize(
    ("member", "harm", "told"),
    [
        ("plan.json", None, "is not an export of tread-bench"),
        ("../more", lambda text: b"", "is not an export of tread-bench"),
        ("plan.json", lambda text: b"{", "cannot be read as JSON"),
        ("plan.json", lambda text: b"[" * 10**6, "cannot be read as JSON"),
        ("plan.json", lambda text: text.replace(VERSION, b'"schema_version": 99'), "version 99, and this version of"),
        ("records.jsonl", lambda text: text * 2, "must be of cells of the plan"),
        ("records.jsonl", lambda text: b"", "must be of cells of the plan"),
        ("records.jsonl", lambda text: re.sub(b'"cell":"', b'"cell":"x', text, count=1), "of cells of the plan"),
        ("records.jsonl", lambda text: re.sub(b'"reference":"', b'"reference":"x', text), "with its reference"),
    ],
)
def test_what_is_no_export_is_refused_in_one_message(exported, member, harm, told):
    members = members_of(exported)
    if harm:
        members[member] = harm(members.get(member))
    else:
        del members[member]
    zipped(exported, members)
    with pytest.raises(UserError, match=told) as caught:
        read_export(exported)
    assert str(exported) in str(caught.value) and "\n" not in str(caught.value)


def test_a_damaged_zip_and_one_that_unpacks_without_end_are_refused(exported, monkeypatch):
    content = exported.read_bytes()
    exported.write_bytes(content[:60] + bytes([content[60] ^ 255]) + content[61:])
    with pytest.raises(UserError, match=r"run\.zip cannot be read"):
        read_export(exported)
    zipped(exported, {"plan.json": b"0" * 1000, "records.jsonl": b""})
    monkeypatch.setattr(sources, "_MOST_BYTES", 999)
    with pytest.raises(UserError, match="its members have 1,000 bytes, and may have 999 together"):
        read_export(exported)
