"""Suite files: what is read, where mistakes are told, `--set`, the shipped suites and their schema."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import jsonschema
import pytest
from pandas._libs.parsers import STR_NA_VALUES

from tests.yardstick import slowness
from tread_bench.core.config.suite import ROW_NAME
from tread_bench.core.problems import SuiteError
from tread_bench.suite.files import Look
from tread_bench.suite.load import find_suite, load_plan, shipped_suites
from tread_bench.suite.schema import json_schema
from tread_bench.suite.yaml import read_yaml

SUITES = Path(__file__).parents[2] / "suites"

GOOD = """\
name: study
seeds: 2
base:
  backbone: {name: DiT, depth: 12, hidden: 64, heads: 4, patch: 2}
  training:
    iterations: 100
    learning_rate: 1e-3
rows:
  dense: {method: dense}
  tread: {method: tread, routes: 2:8@0.5}
"""

LEVELS = [f"  a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
BOMB = "\n".join(["name: x", "base:", "  a0: &a0 [1, 1, 1]", *LEVELS])  # aliases that multiply


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "study.yaml"
        path.write_bytes(text.encode(errors="surrogateescape"))
        return path

    return write


def problems_of(path, overrides=()):
    with pytest.raises(SuiteError) as caught:
        load_plan(path, overrides, look=Look.NOT_AT_ALL)
    return [str(problem) for problem in caught.value.problems]


def first_lines(path, overrides=()):
    return [problem.splitlines()[0].replace(f"{path}:", "") for problem in problems_of(path, overrides)]


# Reading


def test_mistakes_are_told_in_the_order_of_the_file_and_those_of_overrides_after_them(write):
    text = GOOD.replace("seeds: 2", "seeds: [0, 0]").replace("2:8", "2:12")
    lines = first_lines(write(f"{text}colour: red\n"), ["timing.pairs=-1"])
    assert [line.partition(" ")[0] for line in lines] == ["2:8:", "10:34:", "11:1:", "--set"]


@pytest.mark.parametrize("character", "\0\x07\x1b\x7f")
def test_a_message_cannot_steer_a_terminal(write, character):
    (problem,) = problems_of(write(GOOD.replace("seeds: 2", f"seeds: {character}[31m")))
    assert problem.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("seeds: 2", "seeds: 2\nseeds: 3", "3:1: key 'seeds' is written twice, first in line 2: keep one"),
        ("seeds: 2", "on: 2", "2:1: unknown key 'on'"),
        ("seeds: 2", "seeds:\n\n# how many\ndescription: x", "2:1: seeds: None: must be a number of seeds"),
        ("seeds: 2", "? [a]\n: 2", "2:3: a key must be text"),
        ("seeds: 2", "seeds: true", "2:8: seeds: True: must be a number of seeds, or a list of seeds"),
        ("seeds: 2", "<<: {}", "2:1: merge keys (<<) are not read"),
        ("seeds: 2", "seeds: !!python/object/apply:os.getcwd []", "2:8: seeds []: "),
        ("seeds: 2", "seeds: &a [*a]", "2:8: nested more than 50 levels deep"),
        ("seeds: 2", "seeds: " + "[" * 20_000, "2:57: nested more than 50 levels deep"),
        ("seeds: 2", "seeds: 1e999", "2:8: '1e999' is not a finite number"),
        ("seeds: 2", "seeds: [*a]", "2:9: found undefined alias 'a'"),
        ("name: study", "name: study\n---\nname: study", "2:1: expected a single document in the stream"),
        ("rows:\n", "  auxiliary: {name: repa, foo: 1}\nrows:\n", "8:3: unknown auxiliary.0 key 'foo'"),
        ("seeds: 2", 'description: "\\U99999999"', "not readable as YAML"),
        (GOOD, ":\n%YAML 9.2", "not readable as YAML"),
        ("seeds: 2", "seeds: \x07", "2:8: a control character"),
        ("seeds: 2", "seeds: [1", "expected ',' or ']'"),
        ("name: study", "name: My Study", "1:7: name 'My Study': must match"),
        ("name: study\n", "", "1:1: name is missing: add it"),
        ("dense: {", "a b: {", "9:3: rows.a b 'a b': must match"),
        ("dense: {method: dense}", "dense: 3", "9:10: rows.dense 3: must be a valid dictionary"),
        ("method: dense}", "training: {batch: 1}, training.batch: 2}", "9:33: training.batch is set twice here"),
        ("iterations: 100", "batch: 2", "5:3: training.iterations is missing: add it (optimiser steps; 0: only costs"),
        ("rows:\n", "matrix: {backbone: [{name: [DiT]}]}\nrows:\n", "8:28: backbone.name ['DiT']: must be"),
        (GOOD, "", "1:1: empty: write at least name and base"),
        (GOOD, "just text", "1:1: a suite is a mapping"),
        (GOOD, "name: x\nbase: caf\udce9\n", "2:10: byte 0xe9 is not UTF-8"),
        (GOOD, "#" * 2**21, "larger than 1,048,576 bytes, so it is no suite"),
        (GOOD, BOMB, "more than 100,000 values, with those that aliases repeat"),
    ],
)
def test_mistakes_are_located(write, old, new, told):
    assert old in GOOD
    path = write(GOOD.replace(old, new, 1))
    start = time.process_time()
    assert any(told in line for line in first_lines(path)), first_lines(path)
    assert time.process_time() - start < 5 * slowness()


def test_an_alias_stands_for_its_value(write):
    text = GOOD.replace("{name: DiT", "&sizes {name: DiT").replace("{method: dense}", "{backbone: *sizes}")
    assert load_plan(write(text), look=Look.NOT_AT_ALL).suite.rows["dense"]["backbone"]["depth"] == 12


def test_scalars_are_those_of_yaml_1_2():
    text = "[1e-4, 2:8, 12:30:00, 0777, on, yes, true, ~, -.5, 2026-01-01, '1']"
    data, _, problems = read_yaml(text, "x")
    assert data == [1e-4, "2:8", "12:30:00", 777, "on", "yes", True, None, -0.5, "2026-01-01", "1"]
    assert not problems


# Overrides


def test_overrides_come_last(write):
    path = write(GOOD.replace("method: tread,", "method: tread, training.batch: 5,"))
    plan = load_plan(path, ["training.batch=7", "seeds=[4]", "timing.pairs=0"], look=Look.NOT_AT_ALL)
    assert (plan.suite.seeds, plan.suite.timing.pairs) == ((4,), 0)
    assert [cell.cell.training.batch for cell in plan.cells] == [7, 7]


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("trainig.iterations=5", "unknown key 'trainig'; did you mean 'training'?"),
        ("training.batch=many", "training.batch 'many': must be a valid integer"),
        ("training.batch", "must be KEY=VALUE, such as training.iterations=100"),
        ("backbone.hidden=20000000000", "backbone.hidden 20000000000: must be at most 1000000000"),
        ("training" + ".a" * 900 + "=1", "nested more than 50 levels"),
        ("metrics.at=[1.5]", "a share of the training must lie between 0 and 1"),
        ("base.training.batch=3", "base cannot be set: give the cell's key without it"),
        ("training.batch=[", "expected the node content"),
        ("routes=2:12@0.5", "route 2:12@0.5: the backbone has 12 blocks"),
    ],
)
def test_mistakes_of_an_override_are_told_with_it(write, override, told):
    lines = [line for line in first_lines(write(GOOD), [override]) if told in line]
    assert [line.startswith(f"--set {override}: ") for line in lines] == [True]


# Files named by a suite


PARQUET = GOOD.replace(
    "  training:",
    "  data: {name: parquet, train: [a.parquet], held_out: [../b.parquet], image_size: 8, num_classes: 2}\n  training:",
)


def test_relative_paths_start_at_the_suite_and_those_of_overrides_at_the_working_directory(
    write, tmp_path, monkeypatch
):
    monkeypatch.chdir("/")
    data = load_plan(write(PARQUET), look=Look.NOT_AT_ALL).cells[0].cell.data
    assert data.train == (str(tmp_path.resolve() / "a.parquet"),)
    assert data.held_out == (str(tmp_path.resolve().parent / "b.parquet"),)
    overrides = ["data.train=[c.parquet]", "metrics.inception_weights=w.pth", "metrics.reference=r.npz"]
    cell = load_plan(write(PARQUET), overrides, look=Look.NOT_AT_ALL).cells[0].cell
    assert (cell.data.train, cell.metrics.inception_weights) == (("/c.parquet",), "/w.pth")
    assert cell.metrics.reference == "/r.npz"


@pytest.mark.parametrize(("name", "rule"), [('"a\\0b"', "no file can have this name"), ('"\\uDC80"', "is not UTF-8")])
def test_names_that_no_file_can_have_are_located(write, name, rule):
    lines = first_lines(write(PARQUET.replace("a.parquet", "b").replace("[b]", name)))
    assert lines[0].startswith("5:") and rule in lines[0]


# Shipped suites


def test_shipped_suites_are_found_by_name_and_path(tmp_path):
    assert {"smoke", "route_placement", "cifar10/route_placement"} <= shipped_suites().keys()
    assert find_suite("smoke") == find_suite(SUITES / "smoke.yaml")
    with pytest.raises(SuiteError, match="no such file, and unknown suite 'smoky'; did you mean 'smoke'"):
        find_suite("smoky")
    assert "cannot be read: No such file or directory" in first_lines(tmp_path / "gone.yaml")[0]


@pytest.mark.parametrize("name", shipped_suites())
def test_shipped_suites_are_valid_without_their_files_name_the_schema_and_have_a_smoke_run(name, monkeypatch):
    monkeypatch.chdir("/")
    path = shipped_suites()[name]
    text = path.read_text(encoding="utf-8")
    root = Path("/nowhere") if "$data_root" in text else None
    plan = load_plan(path, data_root=root, look=Look.HEADERS, allows_missing=True)
    files = [problem.message.partition(": ")[2] for problem in plan.missing if "no such file" in problem.message]
    assert plan.cells and all(file.startswith("/nowhere/") for file in files)
    assert bool(files) is ("$data_root" in text)
    first = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / first).resolve() == SUITES / "suite.schema.json"
    jsonschema.Draft202012Validator(json_schema()).validate(read_yaml(text, name)[0])
    for short in (planned.cell for planned in plan.as_smoke().cells):
        assert short.training.iterations <= 50
        assert short.sampling.steps == 2 or short.sampling.guidance.guided_times


def test_the_schema_beside_the_suites_is_up_to_date():
    """After a change: `tread-bench list schema > suites/suite.schema.json`."""
    assert json.loads((SUITES / "suite.schema.json").read_text(encoding="utf-8")) == json_schema()


def test_the_schema_refuses_what_an_editor_should_underline():
    schema = jsonschema.Draft202012Validator(json_schema())
    good = {"name": "x", "base": {"training": {"batch": 3}, "training.warmup": 3}, "rows": {"a": None}}
    assert schema.is_valid(good)
    for wrong in (
        {"colour": "red"},
        {"base": {"data": {"name": "parquet", "trian": []}}},
        {"rows": {"a b": {}}},
        {"rows": {"a": {"selector": "rondom"}}},
    ):
        assert not schema.is_valid({**good, **wrong}), wrong


def test_names_that_pandas_reads_as_missing_are_refused_with_their_place(write):
    for name in filter(re.compile(ROW_NAME).fullmatch, STR_NA_VALUES):
        lines = first_lines(write(GOOD.replace("tread: {method", f'"{name}": {{method')))
        assert any(line.startswith("10:") and f"{name}': is a missing value to whoever reads" in line for line in lines)
    lines = first_lines(write(GOOD.replace("name: study", 'name: "nan"')))
    assert lines[0].startswith("1:7: name: 'nan': is a missing")
