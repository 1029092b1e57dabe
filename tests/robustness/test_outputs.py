"""No command replaces a file that this program did not write, or writes through a link."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from marked_tree import mark, tree
from matplotlib.figure import Figure

from tests.command_line import tread_bench
from tread_bench.cli.check import Outputs
from tread_bench.cli.export import export_run
from tread_bench.cli.features import train_features
from tread_bench.cli.page_folder import make_page_folder
from tread_bench.cli.report import render_report
from tread_bench.cli.sample import SampleRequest, sample
from tread_bench.core.documents import EXPORT_VERSION, EXPORTED
from tread_bench.core.evaluations import EVALUATED
from tread_bench.core.files import write_atomically
from tread_bench.core.outputs import OutputError, is_own, open_plain, refuse_foreign
from tread_bench.measure.quality.networks.classifier.network import Classifier, ClassifierSpec, classifier_file
from tread_bench.measure.quality.png import grid_png, image_png
from tread_bench.measure.sets.write import write_samples_npz
from tread_bench.regression.baseline.outputs import junit, markdown
from tread_bench.reports.document import write_pictures
from tread_bench.reports.figures import style
from tread_bench.reports.figures.pictures import NAMES
from tread_bench.reports.tables import FORMATS, Entry, Table, results_frame

CHECKOUT = Path(__file__).parents[2]
PLAN = CHECKOUT / "tests" / "stored" / "plan.json"


@pytest.fixture
def mine(tmp_path) -> Path:
    return mark(tmp_path / "mine")


# What is known as this program's own


def feature_network() -> bytes:
    about = {"name": "a", "command": "tread-bench features SUITE --out a.safetensors"}
    return classifier_file(Classifier(ClassifierSpec(image_size=8, channels=1, num_classes=2, widths=(4, 4))), about)


def picture(kind: str) -> bytes:
    """As large a file as pictures of many rows are: what says who made it is not always in front."""
    figure = Figure()
    figure.subplots().plot(np.random.default_rng(0).normal(size=20_000))
    with style.theme(style.FURTHER):
        svg, further = style.save(figure)
    return {"svg": svg, **further}[kind]


def table_text(ending: str) -> bytes:
    return FORMATS[ending](Table("a", "A table", ("row", "FID"), [[Entry("dense"), Entry("1.50")]])).encode()


def samples() -> bytes:
    """More than what is read of a file's head and end together."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npz"
        write_samples_npz(path, [torch.zeros(40, 3, 64, 64, dtype=torch.uint8)], 40, (3, 64, 64))
        return path.read_bytes()


WRITTEN = {
    "samples": samples,
    "a picture as SVG": lambda: picture("svg"),
    "a picture as PNG": lambda: picture("png"),
    "a picture as PDF": lambda: picture("pdf"),
    **{f"a table as {ending}": partial(table_text, ending) for ending in FORMATS},
    "an image": lambda: image_png(torch.zeros(3, 8, 8, dtype=torch.uint8)),
    "a grid": lambda: grid_png(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)),
    "JUnit XML": lambda: junit([], "tread-bench check: toy").encode(),
    "Markdown": lambda: markdown([], "tread-bench regress: toy against main").encode(),
    "a feature network": feature_network,
    "a table of results": lambda: results_frame([]).to_csv(index=False).encode(),
    "an evaluation": lambda: json.dumps({"generator": EVALUATED, "schema_version": 1}, indent=1).encode(),
    "an export": lambda: json.dumps({"generator": EXPORTED, "schema_version": EXPORT_VERSION}, indent=1).encode(),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_this_program_writes_says_so_and_may_be_replaced(tmp_path, kind):
    path = tmp_path / "file"
    path.write_bytes(WRITTEN[kind]())
    assert is_own(path)
    refuse_foreign("--out", [path])


@pytest.mark.parametrize("template", ["page.html.j2", "history.html.j2", "compare.html.j2", "evaluation.html.j2"])
def test_every_page_says_so(template):
    assert '{% extends "layout.html.j2" %}' in (CHECKOUT / "reports" / "templates" / template).read_text()
    layout = (CHECKOUT / "reports" / "templates" / "layout.html.j2").read_bytes()
    assert b'<meta name="generator" content="tread-bench">' in layout and layout.startswith(b"<!doctype html>")


def test_a_file_that_only_speaks_of_this_program_is_not_its_own(tmp_path):
    for text in ("# tread-bench check: my notes", "<!doctype html><p>tread-bench</p>", "<?xml?><a>tread-bench</a>"):
        (tmp_path / "file").write_text(text)
        assert not is_own(tmp_path / "file")


def test_an_empty_file_may_be_filled(tmp_path):
    (tmp_path / "summary.md").touch()
    refuse_foreign("--markdown", [tmp_path / "summary.md"])


# What nobody writes over


def link(path: Path, mine: Path) -> None:
    path.symlink_to(mine / "notes.txt")


def dangling(path: Path, mine: Path) -> None:
    path.symlink_to(mine / "later")


def pipe(path: Path, mine: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, mine: Path) -> None:
    path.mkdir()


def text(path: Path, mine: Path) -> None:
    path.write_text("mine")


THERE = (link, dangling, pipe, folder)


@pytest.mark.parametrize("there", THERE)
def test_a_writer_replaces_plain_files_only(tmp_path, mine, there):
    path = tmp_path / "out"
    there(path, mine)
    before, kind = tree(mine), path.lstat().st_mode
    for write in (write_atomically, lambda path, content: open_plain(path, "a").close()):
        with pytest.raises(OutputError, match="cannot be written"):
            write(path, "new")
    assert (tree(mine), path.lstat().st_mode) == (before, kind)


def images(out: Path | None, npz: Path | None = None) -> None:
    sample(SampleRequest(Path("no-run"), "a", None, {}, 3, None, None, None, out, npz), as_json=False)


COMMANDS = {
    "check --junit": ("out.xml", lambda path: Outputs(path, None, False).try_paths()),
    "check --markdown": ("out.md", lambda path: Outputs(None, path, False).try_paths()),
    "features --out": ("out.safetensors", lambda path: train_features("smoke", [], path, 1, 0)),
    "sample --out": ("00002.png", lambda path: images(path.parent)),
    "sample --out, grid": ("grid.png", lambda path: images(path.parent)),
    "sample --npz": ("samples.npz", lambda path: images(None, path)),
    "export --out": ("sent.json", lambda path: export_run(Path("no-run"), path)),
    "report --out": ("results.csv", lambda path: make_page_folder(path.parent, path.name)),
    "history --out": ("index.html", lambda path: make_page_folder(path.parent)),
}


@pytest.mark.parametrize("there", [*THERE, text])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_before_any_work(tmp_path, mine, command, there):
    name, start = COMMANDS[command]
    (tmp_path / "out").mkdir()
    there(tmp_path / "out" / name, mine)
    before = tree(tmp_path)
    with pytest.raises(OutputError, match=rf"^{command.split()[1].rstrip(',')} .*{name}"):
        start(tmp_path / "out" / name)
    assert tree(tmp_path) == before


def test_the_commands_say_it_in_one_message(tmp_path):
    (tmp_path / "index.html").write_text("mine")
    (tmp_path / "run").mkdir()
    shutil.copy(PLAN, tmp_path / "run")
    for arguments in (
        ("check", tmp_path / "run", "--baseline", tmp_path / "b.json", "--junit", tmp_path / "index.html"),
        ("features", "smoke", "--out", tmp_path / "index.html"),
    ):
        done = tread_bench(*arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "was not written by tread-bench and would be overwritten" in done.stderr
    assert (tmp_path / "index.html").read_text() == "mine"


@pytest.mark.parametrize("place", ["figures", "cells", "samples"])
def test_a_report_writes_through_no_link(tmp_path, mine, place):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(PLAN, run)
    (run / place).symlink_to(mine, target_is_directory=True)
    before = tree(tmp_path)
    with pytest.raises(OutputError, match="is a link to"):
        render_report(run)
    assert tree(tmp_path) == before


def test_a_history_writes_through_no_link(tmp_path, mine):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "figures").symlink_to(mine, target_is_directory=True)
    with pytest.raises(OutputError, match="is a link to"):
        make_page_folder(tmp_path / "out")


def test_pictures_of_others_stay_and_own_ones_that_are_no_longer_drawn_go(tmp_path):
    with style.theme(style.FURTHER):
        svg, _ = style.save(Figure())
    (tmp_path / "gap-2.svg").write_bytes(svg)
    (tmp_path / "gap-of-mine.svg").write_text("mine")
    (tmp_path / "rates.svg").symlink_to(tmp_path / "gap-of-mine.svg")
    write_pictures([], tmp_path, NAMES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gap-of-mine.svg", "rates.svg"]


# Who writes and removes at all


MOVING = {"rmtree", "remove", "rename", "replace", "removedirs", "move", "copy", "copyfile", "copytree"}  # os, shutil


def calls(path: Path) -> set[str]:
    """What a module calls that writes or moves files; `open` counts with a mode that writes."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        given = [a.value for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Constant)]
        opens = name == "open" and any(isinstance(mode, str) and re.fullmatch("[wax][bt+]*", mode) for mode in given)
        if opens or name in ("write_text", "write_bytes") or (name in MOVING and owner in ("os", "shutil")):
            found.add(called)
    return found


def test_files_are_written_in_one_place():
    """Whoever needs another: it goes through `files` and `outputs`, which know links, devices and files of others."""
    packages = ("tread_bench", "backbones", "reports")
    modules = [path for package in packages for path in CHECKOUT.glob(f"{package}/**/*.py")]
    found = {path.relative_to(CHECKOUT).as_posix(): calls(path) for path in modules}
    assert {name: made for name, made in found.items() if made} == {
        "tread_bench/core/files.py": {"os.replace", "temporary.write_bytes"},
        "tread_bench/data/contract.py": {
            "shutil.copyfile",
            "shutil.copytree",
            "shutil.rmtree",
        },  # in a temporary folder
        "tread_bench/data/images/stand_in.py": {  # in a folder that a smoke run has just made
            "(folder / split / 'state.json').write_text",
            "(folder / split / names[label] / f'{number:05d}.png').write_bytes",
        },
        "tread_bench/data/latents/stand_in.py": {"path.write_bytes", "tarfile.open"},  # likewise
        "tread_bench/measure/sets/write.py": {"archive.open"},  # of a temporary file of `files`
        "tread_bench/runner/heartbeat.py": {"os.replace"},
        "tread_bench/regression/versions/environments.py": {"(Path(inside.stdout.strip()) / 'shared.pth').write_text"},
    }
