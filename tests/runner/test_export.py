"""An export holds what a report reads, with file names in place of paths."""

from __future__ import annotations

import json
import platform
import re
import zipfile
from pathlib import Path, PurePath

import pytest
from typer.testing import CliRunner

from tests.run_folders import CHOICES, COST, new_folder, put
from tests.toy_suite import toy_suite, write_suite
from tread_bench.cli.app import app
from tread_bench.core.errors import UserError
from tread_bench.core.stored.documents import initial_record
from tread_bench.core.stored.records import SCHEMA_VERSION, CostFigures, DataFile, Evaluation
from tread_bench.runner import export
from tread_bench.runner.export import _named, export_of, read_export, write_export
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.prepare import write_plan
from tread_bench.services.report import write_report
from tread_bench.suite.load import load_plan

MARK = "Zzyzx"  # in the name of everything that must not leave the machine
SUITE = f"""\
name: study
description: Rows of https://arxiv.org/abs/2501.04765, from /data/{MARK}/notes.txt
base:
  backbone: {{name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}}
  data: {{name: parquet, train: [train/0.parquet, train/1.parquet], held_out: [held out/0.parquet], image_size: 8,
         channels: 1, num_classes: 2}}
  training: {{iterations: 4, batch: 4}}
  metrics: {{extractor: trained-classifier}}
matrix:
  metrics.extractor_weights: [a/features.safetensors, b/features.safetensors]
"""
PROGRESS = {
    "phase": "training", "done": 1, "of": 4, "loss": None, "rate": None, "host": f"{MARK}node2.cluster", "pid": 1,
    "device": "", "updated": 0.0,
}  # fmt: skip


# A run on a machine whose every name is marked


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Path:
    """A folder of the user's on it."""
    home = tmp_path / "home" / f"{MARK} user"
    here = home / "work"
    here.mkdir(parents=True)
    for name in ("USER", "LOGNAME"):
        monkeypatch.setenv(name, f"{MARK}login")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(platform, "node", lambda: f"{MARK}host.cluster")
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def folder(machine) -> RunFolder:
    """A run of two rows that only folders tell apart; one has failed, and one record cannot be read."""
    # Data, a suite, and the plan.
    for name in ("train/0.parquet", "train/1.parquet", "held out/0.parquet"):
        put(machine / name, name)
    for name in "ab":
        put(machine / name / "features.safetensors", name)
    (machine / "study.yaml").write_text(SUITE)
    plan, folder = load_plan(machine / "study.yaml", ["seeds=2"]), new_folder(machine / f"{MARK}run")
    files = {str(path): DataFile(bytes=1, sha256=path.name) for path in sorted(machine.rglob("*.parquet"))}
    write_plan(plan, plan.cells, SUITE, folder, CHOICES, files=files)

    # What its cells have left.
    reasons = [
        "",
        f"OSError: [Errno 2] No such file or directory: '{machine}/train/0.parquet'",
        f"on host '{MARK}elsewhere', threads was 1; {MARK}run/cells/x/log of {MARK}login on {MARK}node2, "
        f"{MARK}host.cluster, ~{MARK}one/.cache",
    ]
    for cell, reason in zip(plan.cells, reasons, strict=False):
        status = "failed" if reason else "done"
        found = {"status": status, "reason": reason, "attempts": [reason or "done"], "cost": CostFigures(**COST)}
        evaluations = [Evaluation(iteration=4, train_seconds=1, validation_loss=1, validation_loss_per_time={}, fid=9)]
        written = initial_record(folder.existing_request(cell.id), folder.plan())
        own = {"data_files": files, "evaluations": evaluations if not reason else []}
        folder.write_record(written.model_copy(update=found | own))
        put(folder.cell(cell.id) / "progress.json", json.dumps({**PROGRESS, "cell": cell.id}))
    put(folder.cell(plan.cells[3].id) / "record.json", "{")
    return folder


def texts(value):
    """Every text of a JSON value, keys too."""
    if isinstance(value, dict):
        yield from value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(part)
    if isinstance(value, str):
        yield value


def written(folder: RunFolder, path: Path) -> bytes:
    write_export(path, export_of(folder)[0])
    return path.read_bytes()


def test_no_setting_names_a_folder(folder, tmp_path):
    written(folder, tmp_path / "export.zip")
    with zipfile.ZipFile(tmp_path / "export.zip") as archive:
        assert sorted(archive.namelist()) == ["plan.json", "records.jsonl"]
        documents = [
            json.loads(archive.read("plan.json")),
            *map(json.loads, archive.read("records.jsonl").splitlines()),
        ]
    assert [text for text in texts(documents) if PurePath(text).is_absolute()] == []
    fields = [{key: value for key, value in one.items() if key not in SAID} for one in documents]
    assert MARK not in json.dumps(fields)


SAID = ("reason", "attempts", "suite", "row", "rows", "cell", "cells", "reference", "references")  # as it was written


def test_no_two_paths_get_one_name():
    paths = ["/x/a.txt", "/y/a.txt", "/z/a (2).txt"]
    assert len({*_named(paths, {})}) == 3


def test_what_a_failed_cell_said_is_kept_and_told(folder, tmp_path):
    done = CliRunner().invoke(app, ["report", str(folder.root), "--export", str(tmp_path / "run.zip")])
    said = "what cells said when they failed is in it as they said it: look for paths and hosts before you publish it"
    assert done.exit_code == 0 and done.stderr.startswith(said)
    own, _ = folder.readable_records(folder.existing_plan().references)
    assert [record.reason for record in read_export(tmp_path / "run.zip").records] == [one.reason for one in own]


# A run whose names say nothing


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> RunFolder:
    suite = write_suite(tmp_path_factory.mktemp("plain"), toy_suite(iterations=4, checkpoint_every=2, pairs=0))
    plan, folder = load_plan(suite), new_folder(suite.parent / "run")
    write_plan(plan, plan.cells, suite.read_text(), folder, CHOICES)
    for cell in plan.cells[:3]:
        (folder.cell(cell.id) / "samples").mkdir(parents=True)
        evaluation = Evaluation(
            iteration=4, train_seconds=1, validation_loss=1, validation_loss_per_time={"0.5": 1.0, "0.25": 2.0},
            fid=9 + cell.seed, samples="samples/4.png", samples_sha256="0" * 64,
        )  # fmt: skip
        found = {"status": "done", "cost": CostFigures(**COST), "evaluations": [evaluation]}
        folder.write_record(initial_record(folder.existing_request(cell.id), folder.plan()).model_copy(update=found))
    write_report([folder.root])
    return folder


@pytest.fixture
def exported(plain, tmp_path) -> Path:
    written(plain, tmp_path / "run.zip")
    return tmp_path / "run.zip"


def test_it_is_read_as_it_was_written_and_twice_the_same(plain, exported, tmp_path):
    found, own = read_export(exported), export_of(plain)[0]
    assert (found.plan, found.records) == (own.plan, own.records)
    assert written(plain, tmp_path / "again.zip") == exported.read_bytes()


def test_it_names_no_file_that_stays_in_the_run_folder(plain, exported):
    assert "samples/4.png" in (plain.cell(plain.plan().cells[0]) / "record.json").read_text()
    with zipfile.ZipFile(exported) as archive:
        assert b"4.png" not in archive.read("records.jsonl")


def test_the_command_writes_it_and_says_what_is_missing(plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--overwrite"]):
        done = CliRunner().invoke(app, ["report", str(plain.root), "--export", "run.zip", *options])
        assert (done.exit_code, done.stdout) == (0, "run.zip\n")
        assert done.stderr == "1 of 4 cells have no record yet and are not in it\n"
    assert len(read_export(tmp_path / "run.zip").records) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run.zip"]


def test_it_is_drawn_as_the_run_is_without_samples(plain, exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write_report([exported]).page == "run/index.html"
    assert (tmp_path / "run" / "results.csv").read_bytes() == (plain.root / "results.csv").read_bytes()
    own, drawn = ((place / "index.html").read_text() for place in (plain.root, tmp_path / "run"))
    samples = re.search(r'<section aria-labelledby="samples">.*?</section>\n', own, re.DOTALL)[0]
    note = re.search(r'<p class="note">Drawn from an export.*?</p>\n', drawn)[0]
    assert "sample images, logs and weights stay in the run folder" in note
    link = '<li><a href="#samples">Samples</a></li>\n'
    assert own.replace(samples, "").replace(link, "").split() == drawn.replace(note, "").split()
    assert {p.name for p in (tmp_path / "run" / "figures").iterdir()} == {
        p.name for p in (plain.root / "figures").iterdir()
    }
    write_report([exported])  # into a folder of its own


def test_a_run_without_a_record_is_not_exported(plain, tmp_path):
    put(tmp_path / "run" / "plan.json", plain.plan_path.read_text())
    with pytest.raises(UserError, match="has no readable record, so there is nothing to export"):
        export_of(RunFolder(tmp_path / "run"))


def test_it_is_written_alone_and_of_a_run_folder(plain, exported, tmp_path):
    for source, options, told in (
        (plain.root, ["--out", str(tmp_path / "page")], "writes one file, and no report into .*page; give one of them"),
        (exported, [], "is a file; give a run folder"),
    ):
        arguments = ["report", str(source), "--export", str(tmp_path / "again.zip"), *options]
        assert re.search(told, str(CliRunner().invoke(app, arguments).exception))
    assert [path.name for path in tmp_path.iterdir()] == ["run.zip"]


# Files that are not what they should be


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda members: {"plan.json": members["plan.json"]}, "is not an export of tread-bench"),
        (lambda members: {**members, "../more": b""}, "is not an export of tread-bench"),
        (lambda members: {**members, "plan.json": b"{"}, "cannot be read as JSON"),
        (lambda members: {**members, "records.jsonl": members["records.jsonl"] * 2}, "each at most once"),
        (lambda members: {**members, "records.jsonl": b""}, "records"),
        (lambda members: {**members, "plan.json": b"[" * 10**6}, "cannot be read as JSON"),
    ],
)
def test_a_zip_of_something_else_is_refused_in_one_message(exported, harm, told):
    with zipfile.ZipFile(exported) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    zipped(exported, harm(members))
    with pytest.raises(UserError, match=told) as caught:
        read_export(exported)
    assert str(exported) in str(caught.value) and "\n" not in str(caught.value)


def test_a_damaged_zip_and_one_that_unpacks_without_end_are_refused(exported, monkeypatch):
    content = exported.read_bytes()
    exported.write_bytes(content[:60] + bytes([content[60] ^ 255]) + content[61:])
    with pytest.raises(UserError, match=r"run\.zip cannot be read"):
        read_export(exported)
    zipped(exported, {"plan.json": b"0" * 1000, "records.jsonl": b""})
    monkeypatch.setattr(export, "_MOST_BYTES", 999)
    with pytest.raises(UserError, match="its members have 1,000 bytes, and may have 999 together"):
        read_export(exported)


def of_another_run(plan, records):
    records[0]["cell"] = "stranger"


def with_another_reference(plan, records):
    records[1]["reference"] = records[1]["cell"]
    plan["references"][records[1]["cell"]] = records[0]["cell"]


def of_another_version(plan, records):
    plan["schema_version"] = SCHEMA_VERSION + 1


RULES = {
    of_another_run: "records must be of cells that plan.cells names",
    with_another_reference: "reference must be that of plan.references",
    of_another_version: f"version {SCHEMA_VERSION + 1}, and this version of tread-bench reads {SCHEMA_VERSION}",
}


@pytest.mark.parametrize("harm", RULES)
def test_parts_that_contradict_each_other_are_refused(exported, harm):
    with zipfile.ZipFile(exported) as archive:
        plan = json.loads(archive.read("plan.json"))
        records = [json.loads(line) for line in archive.read("records.jsonl").splitlines()]
    harm(plan, records)
    lines = "\n".join(map(json.dumps, records))
    zipped(exported, {"plan.json": json.dumps(plan).encode(), "records.jsonl": lines.encode()})
    with pytest.raises(UserError, match=re.escape(RULES[harm])) as caught:
        read_export(exported)
    assert str(exported) in str(caught.value)
