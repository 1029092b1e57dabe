"""A third party's plug-ins: each installed from a distribution of its own, and run as ours."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path

import pytest
from hatchling.build import build_wheel

import tread_bench
from tests import command_line
from tests.robustness.warm import Attempt, Warm
from tests.shown_checks import PAGES, PLUG_INS, blocks, checks_of
from tread_bench.model.backbone import build_backbone

CHECKOUT = Path(__file__).parents[1]
SHOWN = {  # by kind, whose folder is called as its page: the files that the page shows
    kind.name: sorted(path for path in kind.rglob("*.py") if path.name != "__init__.py")
    for kind in sorted(PLUG_INS.iterdir())
}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the plug-ins' distributions are installed into, without a network."""
    folder = tmp_path_factory.mktemp("site")
    for plug_in in SHOWN:
        with chdir(PLUG_INS / plug_in):
            wheel = folder / build_wheel(str(folder))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder


def run_beside(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """A Python command that finds what is installed in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, *map(str, command)], env=environment, capture_output=True, text=True)


def run_with(installed: Path, *command: object) -> None:
    done = run_beside(installed, *command)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def ended(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Attempt]]:
    """Gives the ends of commands that find the plug-ins, in forks of a process that has torch."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(installed))
        warm = Warm(with_torch=True)
    yield partial(warm, cwd=tmp_path_factory.mktemp("commands"), limit_s=300)
    warm.close()


@pytest.fixture(scope="session")
def told(ended: Callable[..., Attempt]) -> Callable[..., str]:
    """Gives the standard output of such commands."""

    def output(*arguments: object) -> str:
        done = ended(*arguments)
        assert done.status == 0, done.stderr
        return done.stdout

    return output


@pytest.mark.parametrize(
    ("plural", "name", "shown"),
    [
        ("backbones", "Snake-S/2", ["Snake", "sequence"]),
        ("methods", "mean_fill", ["Tokens are dropped", "mean-fill 0.1.0"]),
        ("objectives", "trig", ["trig-flow 0.1.0"]),
        ("samplers", "two_step", ["Adams-Bashforth", "two-step 0.1.0"]),
        ("selectors", "checkerboard", ['["grid", "sequence", "set"]', "checkerboard 0.1.0"]),
        ("mixers", "retention", ["fades by the same factor", "retention 0.1.0"]),
        ("datasets", "shapes", ["Discs, squares", "drawn-shapes 0.1.0"]),
        ("metrics", "coverage", ["Share of real images", "feature-coverage 0.1.0"]),
        ("guidance", "thinned", ["thinned 0.1.0"]),
        ("losses", "edges", ["edge-loss 0.1.0"]),
        ("extractors", "random-convolution", ["random-convolution 0.1.0"]),
        ("text_encoders", "spelling", ["A token for each character", "spelling 0.1.0"]),
    ],
)
def test_a_kind_is_listed(told: Callable[..., str], plural: str, name: str, shown: list[str]) -> None:
    listed = json.loads(told("list", plural, "--json"))
    (found,) = [one for one in listed if one["name"] == name]
    assert all(text in json.dumps(found) for text in shown)


def listed_beside(folder: Path, group: str, body: str, kind: str) -> subprocess.CompletedProcess[str]:
    """What `list KIND` does where a distribution announces `odd:ODD` in a group, from a module of this body."""
    (folder / "odd.py").write_text(body)
    about = folder / "odd-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[{group}]\nOdd = odd:ODD\n")
    done = run_beside(folder, "-m", "tread_bench", "list", kind, "--json")
    assert done.returncode == 0, done.stderr
    return done


ODD = "ODD = SamplerFamily(name='odd', about='', builder='a:B', order=1, takes_churn=True)"
LEFT_OUT = {
    "raise SystemExit(0)": "",
    "raise KeyError('\x1b[2J' + 'long' * 10**6)": "",
    f"from tread_bench import SamplerFamily\n{ODD}": "missing 1 required keyword-only argument: 'call_times'",
}


@pytest.mark.parametrize("body", LEFT_OUT)
def test_whatever_a_plugin_does_at_import_it_is_named_and_takes_no_other_with_it(body: str, tmp_path: Path) -> None:
    done = listed_beside(tmp_path, "tread_bench.samplers", body, "samplers")
    listed = {one["name"] for one in json.loads(done.stdout)}
    assert "euler" in listed and "odd" not in listed
    assert "sampler plug-in Odd = odd:ODD of odd" in done.stderr and LEFT_OUT[body] in done.stderr
    assert "Traceback" not in done.stderr and "\x1b" not in done.stderr and len(done.stderr) < 2000


@pytest.mark.parametrize("kind", SHOWN)
def test_the_document_shows_the_files_as_they_are(kind: str) -> None:
    shown = blocks(kind)
    assert [path for path in SHOWN[kind] if path.read_text(encoding="utf-8") not in shown] == []

    # Of its distribution and its suite, which are shown once for all, the page has the lines that name the plug-in.
    page = (PAGES / f"{kind}.md").read_text(encoding="utf-8")
    ((group, name, value),) = re.findall(r"in `([\w.]+)` is `(\S+) = (.+)`\.", page)
    distribution = (PLUG_INS / kind / "pyproject.toml").read_text(encoding="utf-8")
    assert tomllib.loads(distribution)["project"]["entry-points"] == {group: {name: value.strip('"')}}
    for suite in (PLUG_INS / kind).glob("*.yaml"):
        text = suite.read_text(encoding="utf-8")
        ((line, part),) = re.findall(rf"\[{suite.name}\].*\n`(.+)` under `(.+)`\.", page) or [(text, "")]
        assert line in text.split(f"\n{part}:\n")[-1] and (line != text or text in shown)


def test_the_checks_that_the_document_shows_find_nothing(installed: Path, tmp_path: Path) -> None:
    for kind in SHOWN:
        (tmp_path / f"test_{kind.replace('-', '_')}.py").write_text(checks_of(kind), encoding="utf-8")
    run_with(installed, "-m", "pytest", "-p", "no:cacheprovider", tmp_path)


def test_the_document_names_every_kind_and_what_is_torch_free() -> None:
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    groups = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert set(re.findall(r"\| `(tread_bench\.\w+)` \|", text)) == groups.keys()
    (listed,) = re.findall(r"need no torch, and `family.py` may\nimport them:\n\n(.*?)\.\n", text, re.DOTALL)
    of_core = {name for name, module in tread_bench._modules().items() if module.startswith("tread_bench.core.")}
    assert {*re.findall(r"`(\w+)`", listed)} == of_core | {"draws"}
    assert (PLUG_INS / "method" / "pyproject.toml").read_text(encoding="utf-8") in blocks("README")


def test_the_document_s_init_module_draws_weights_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUG_INS / "backbone"))
    family, network = (importlib.import_module(f"snake_backbone.{name}") for name in ("family", "network"))
    (shown,) = (block for block in blocks("backbone") if block.startswith("    def init_module"))
    built = {"Snake": network.Snake, "nn": network.nn}
    exec(f"class Named(Snake):\n{shown}", built)
    monkeypatch.setattr(network, "Snake", built["Named"])
    small, large = (build_backbone(family.SNAKE, family.SNAKE.spec(depth=depth, hidden=16), seed=0) for depth in (3, 5))
    assert not large.out.weight.any() and large.join.weight.any()
    assert (large.blocks[2].mlp[1].weight == small.blocks[2].mlp[1].weight).all()


@pytest.mark.parametrize(
    ("suite", "written", "typed", "found"),
    [
        ("method/mean_fill.yaml", "keep_own", "keep_won", "typed.yaml:12:.*did you mean 'keep_own'"),
        ("data/shapes.yaml", "count: 400", "count: 4", "typed.yaml:6:.*data.count"),
        ("metric/coverage.yaml", "neighbours: 3", "neighbours: 64", "typed.yaml:10:.*which needs 65 or more"),
    ],
)
def test_a_mistake_in_an_option_is_reported_as_any_other(ended, tmp_path, suite, written, typed, found) -> None:
    (tmp_path / "typed.yaml").write_text((PLUG_INS / suite).read_text(encoding="utf-8").replace(written, typed))
    done = ended("plan", tmp_path / "typed.yaml")
    assert done.status == 2 and re.search(found, done.stderr), done.stderr


def test_a_metric_runs_as_our_own_and_its_export_is_drawn_where_it_is_not_installed(told, tmp_path) -> None:
    run, there = tmp_path / "run", tmp_path / "there"
    told("run", PLUG_INS / "metric" / "coverage.yaml", "--out", run)
    with (run / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 and {row["status"] for row in rows} == {"done"} and list(rows[0])[-1] == "coverage"
    assert all(0 <= float(row["coverage"]) <= 1 and float(row["fid"]) > 0 for row in rows)
    page = (run / "index.html").read_text(encoding="utf-8")
    assert "Δ Coverage" in page and "share of real images with a generated one" in page

    told("report", run, "--export", tmp_path / "export.zip")
    assert command_line.tread_bench("report", tmp_path / "export.zip", "--out", there).returncode == 0
    assert (there / "results.csv").read_bytes() == (run / "results.csv").read_bytes()
    assert "of a metric that is not installed" in (there / "index.html").read_text(encoding="utf-8")


@pytest.mark.full
@pytest.mark.parametrize(
    ("suite", "column", "values", "differs", "same", "page"),
    [
        ("backbone/snake.yaml", "tokens_kept", ["", "9"], "forward_macs", "params", ""),  # half of 16, and the prefix
        ("method/mean_fill.yaml", "tokens_kept", ["", "8"], "forward_macs", "params", "<small>mean_fill 1:2@0.5"),
        ("objective/trig.yaml", "seed", ["0", "0"], "validation_loss", "params", "objective=trig"),
        ("sampler/two_step.yaml", "guidance", ["none", "none"], "fid", "sampling_macs", "sampler=two_step"),
        ("selector/checkerboard.yaml", "selector", ["checkerboard", "random"], "fid", "forward_macs", "checkerboard"),
        ("data/shapes.yaml", "data", ["shapes", "shapes"], "fid", "params", "The data are drawn shapes"),
        ("guidance/thinned.yaml", "guidance", ["none", "thinned 0.5"], "fid", "params", "thinned"),
        ("loss/edges.yaml", "auxiliary", ["", "edges"], "fid", "params", "edges"),
        ("feature-network/random.yaml", "inception_score", ["", ""], "fid", "params", ""),  # it has no logits
        ("text-encoder/spelling.yaml", "data", ["glyphs", "glyphs"], "validation_loss", "params", ""),
    ],
)
def test_a_kind_runs_as_our_own(told, tmp_path, suite, column, values, differs, same, page) -> None:
    told("run", PLUG_INS / suite, "--out", tmp_path, "--set", "timing.pairs=0")
    with (tmp_path / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["done", "done"] and [row[column] for row in rows] == values
    assert rows[0][differs] != rows[1][differs] and rows[0][same] == rows[1][same]
    assert page in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_a_run_goes_on_with_the_code_of_a_plug_in_that_it_began_with_alone(installed: Path, tmp_path: Path) -> None:
    plugins = shutil.copytree(installed, tmp_path / "site")
    suite = PLUG_INS / "method" / "mean_fill.yaml"
    shortened = ("--set", "timing.pairs=0", "--set", "training.iterations=2", "--out", tmp_path / "run", "--rows")
    command = ("-m", "tread_bench", "run", suite, *shortened)
    run_with(plugins, *command, "dense")
    edited = plugins / "mean_fill" / "network.py"
    before = edited.read_text(encoding="utf-8")
    edited.write_text(f"{before}# edited\n", encoding="utf-8")
    done = run_beside(plugins, *command, "filled")
    assert done.returncode == 2
    assert "plug-in mean-fill was '0.1.0 sha256:" in done.stderr and "--accept-other-numerics" in done.stderr
    edited.write_text(before, encoding="utf-8")
    run_with(plugins, *command, "filled")
