"""Suites that are small to write and large to unfold: each as large as its limit lets it be, and beyond."""

from __future__ import annotations

HEAD = """\
name: study
base:
  backbone: {name: DiT, depth: 12, hidden: 64, heads: 4, patch: 2}
  training: {iterations: 1000000}
"""


def _numbers(count: int) -> str:
    return ", ".join(map(str, range(1, count + 1)))


def _rows(count: int, row: str) -> str:
    return "rows:\n" + "".join(f"  r{i}: {row.format(i=i + 1)}\n" for i in range(count))


def _axes(first: int, second: int, **more: int) -> str:
    lines = [f"  {key}: [{_numbers(count)}]\n" for key, count in more.items()]
    return f"matrix:\n  training.batch: [{_numbers(first)}]\n  metrics.batch: [{_numbers(second)}]\n" + "".join(lines)


def _rules(name: str, count: int, rule: str) -> str:
    return f"  {name}:\n" + "".join(f"    - {rule.format(i=i + 1)}\n" for i in range(count))


def _base(text: str) -> str:
    return HEAD + f"  {text}\n"


def _sizes(text: str) -> str:
    return HEAD.replace("depth: 12, hidden: 64, heads: 4, patch: 2", text)


def _data(text: str) -> str:
    return _base(f"data: {{name: parquet, held_out: [b], num_classes: 2, {text}}}")


_GRID = _sizes("depth: 13, hidden: 64, patch: 1, q_shift: grid").replace("DiT", "DRWKV")

LARGE = {
    "a long comment": HEAD + "# " + "x" * 249_000,
    "a long text": HEAD + "description: " + "x" * 249_000,
    "a long text in quotes": HEAD + 'description: "' + "x y " * 62_000 + '"',
    "a literal of many lines": HEAD + "description: |\n" + "  x\n" * 62_000,
    "empty lines": HEAD + "\n" * 249_000,
    "a long key": HEAD + "x" * 249_000 + ": 3",
    "a long key in braces": _base("{" + "x" * 249_000 + ": 3}"),
    "far too long": HEAD + "#" * 10_000_000,
    "unknown keys": HEAD + "".join(f"key{i}: 1\n" for i in range(2400)),
    "unknown keys in base": HEAD + "".join(f"  key{i}: 1\n" for i in range(2400)),
    "unknown keys of training": HEAD.replace("{iter", "\n    iter").replace("0}", "0")
    + "".join(f"    iteration{i}: 1\n" for i in range(2400)),
    "unknown keys times rows": HEAD
    + "".join(f"  key{i}: 1\n" for i in range(400))
    + _rows(900, "{{training.batch: {i}}}"),
    "rows": HEAD + _rows(1200, "{{training.batch: {i}}}"),
    "rows with a mistake each": HEAD + _rows(1200, "{{training.batch: x{i}}}"),
    "rows with an unknown key each": HEAD + _rows(1200, "{{training.batches: {i}}}"),
    "rows that are the same": HEAD + _rows(1200, "{{training.batch: 3}}"),
    "rows with a mistake of the base": HEAD.replace("hidden: 64", "hidden: 66")
    + _rows(1200, "{{training.batch: {i}}}"),
    "rows and seeds": HEAD + "seeds: 1000\n" + _rows(100, "{{training.batch: {i}}}"),
    "four thousand rows": HEAD + _axes(63, 63),
    "a matrix beyond": HEAD + _axes(317, 317),
    "a thousand million cells": HEAD + _axes(1000, 1000, **{"sampling.steps": 1000}),
    "two to the thousand cells": HEAD + "matrix:\n" + "".join(f"  k{i}: [1, 2]\n" for i in range(1000)),
    "exclude": HEAD + _axes(30, 30) + _rules("exclude", 350, "{{training.batch: {i}, metrics.batch: {i}}}"),
    "exclude beyond": HEAD + _axes(60, 60) + _rules("exclude", 800, "{{training.batch: {i}, metrics.batch: {i}}}"),
    "include": HEAD + _axes(30, 30) + _rules("include", 170, "{{training.batch: {i}, sampling.steps: {i}}}"),
    "include beyond": HEAD + _axes(60, 60) + _rules("include", 800, "{{training.batch: {i}, sampling.steps: {i}}}"),
    "a long label": HEAD + _axes(60, 60) + '  data.image_column: ["' + "x" * 200_000 + '"]\n',
    "a long list times a matrix": _base(f"metrics: {{at: [{_numbers(900)}]}}") + _axes(1000, 1),
    "seeds": HEAD + "seeds: 1000000000\n",
    "a list of seeds": HEAD + f"seeds: [{_numbers(4900)}]\n",
    "depth": _sizes(f"depth: 1{'0' * 30}, hidden: 64, heads: 4, patch: 2"),
    "depth that a list could hold": _sizes("depth: 999999999, hidden: 64, heads: 4, patch: 2"),
    "width": _sizes(f"depth: 12, hidden: 1{'0' * 12}, heads: 4, patch: 2"),
    "a ratio": _sizes("depth: 12, hidden: 64, heads: 4, patch: 2, mlp_ratio: 1e308"),
    "an image": _data(f"train: [a], image_size: 1{'0' * 290}"),
    "a grid of tokens": _GRID
    + f"  data: {{name: parquet, train: [a], held_out: [b], num_classes: 2, image_size: 1{'0' * 200}}}\n"
    + "  method: tread\n  routes: 2:8@0.5\n",
    "iterations": HEAD.replace("1000000", "1" + "0" * 300),
    "a number too long": HEAD.replace("1000000", "9" * 200_000),
    "a rate of digits": _base(f"routes: '1:2@{'1' * 200_000}x'"),
    "positions of digits": _base(f"routes: '{'1' * 100_000}:{'1' * 100_000}@0.5'"),
    "a fraction of digits": _base(f"routes: '1/{'1' * 4000}:1/2@0.5'"),
    "spaces in a route": _base(f"routes: '{' ' * 200_000}'"),
    "routes": _base("method: tread") + "  routes: '" + ",".join(["1:2@0.5"] * 30_000) + "'\n",
    "a list of routes": _base("method: tread") + "  routes: [" + ", ".join(["'1:2@0.5'"] * 4900) + "]\n",
    "dots in a key": _base("." * 1000 + ": 3"),
    "parts of a key": _base("backbone." + "a." * 400 + "a: 3"),
    "parts of a key in a row": HEAD + "rows: {a: {" + "a." * 400 + "a: 3}}",
    "parts of a key of the matrix": HEAD + "matrix: {" + "a." * 400 + "a: [3]}",
    "iterations to measure at": _base(f"metrics: {{at: [{_numbers(4900)}]}}"),
    "times that are none": _base(f"metrics: {{similarity_times: [{', '.join(['5'] * 4900)}]}}"),
    "a long wrong name": HEAD.replace("DiT", "D" * 200_000),
    "a long wrong selector": _base(f"selector: {'r' * 200_000}"),
    "files that are not there": _data(f"train: [{_numbers(4900).replace('1', 'a')}], image_size: 8"),
    "a file whose name is too long": _data(f"train: [{'a' * 5000}], image_size: 8"),
    "a file at home": _data("train: [~, '~nobody/x'], image_size: 8"),
}
