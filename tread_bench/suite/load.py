"""Loading of suite files, by path or name, with `--set` applied; all mistakes are reported together, with places."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tread_bench.core.config.suite import Cell, Suite
from tread_bench.core.names import unknown
from tread_bench.core.problems import Loc, Place, Places, Problem, SuiteError, dotted, validation_problems
from tread_bench.suite.plan import Plan, expand
from tread_bench.suite.yaml import MAX_CHARACTERS, MAX_DEPTH, read_yaml

_SECTIONS = ("base", "matrix", "rows", "overrides")  # contain a cell's keys; `--set` takes the keys alone
_FILES = (
    *("data.train", "data.held_out", "data.decoder", "data.images"),
    *("metrics.extractor_weights", "metrics.inception_weights", "evaluate.run"),
    *("metrics.extractor.weights", "metrics.also.weights", "auxiliary.weights"),
)


def load_suite(path: str | Path, overrides: Sequence[str] = ()) -> Suite:
    """Load and validate a suite from a YAML file; the data files that it names need not exist.

    Args:
        overrides: `KEY=VALUE` as for `--set`, the value in YAML. A key of the suite (`seeds=2`, `timing.pairs=0`) is
            replaced; a key of a cell (`training.iterations=100`) is set in every cell, after matrix and rows.

    Raises:
        SuiteError: all mistakes in the file, its cells and the overrides.
    """
    return _load(Path(path), overrides, check_files=False).suite


def load_plan(path: str | Path, overrides: Sequence[str] = (), *, is_smoke: bool = False) -> Plan:
    """Load a suite like `load_suite` and expand it; the data files that its cells need must exist.

    Args:
        is_smoke: the overrides shorten it to show that everything works.
    """
    return _load(Path(path), overrides, check_files=True, is_smoke=is_smoke)


def shipped_suites() -> dict[str, Path]:
    """Return the suites that come with the package, by name, such as `cifar10/route_placement`."""
    folder = (Path(__file__).parents[1] / "suites").resolve()  # a link in a checkout
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))}


def find_suite(name_or_path: str | Path) -> Path:
    """Return the path of an existing file, or of the shipped suite of that name. Raises SuiteError."""
    path, shipped = Path(name_or_path), shipped_suites()
    if path.is_file():
        return path
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    raise SuiteError([Problem(f"no such file, and {unknown('suite', str(name_or_path), shipped)}")])


def _load(path: Path, overrides: Sequence[str], check_files: bool, is_smoke: bool = False) -> Plan:
    data, places, problems = read_yaml(_read_text(path), str(path))
    if not isinstance(data, dict):
        problems.append(Problem("a suite is a mapping: write name: ... and base: ... at the left margin"))
        raise SuiteError(_located(problems, places))
    data = _absolute(data, path.parent)
    for override in overrides:
        problems += _apply(override, data, places)
    suite, wrong = _validated(data)
    problems += wrong
    plan = None
    try:
        plan = expand(suite, check_files=check_files, is_smoke=is_smoke) if suite else None
    except SuiteError as error:
        problems += error.problems
    if problems or plan is None:
        raise SuiteError(_located(problems, places))
    return plan


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4 * MAX_CHARACTERS + 8).decode(
                "utf-8-sig"
            )  # one more than allowed, to notice that a file is too long
    except OSError as error:
        raise SuiteError([Problem(f"cannot be read: {error.strerror}", place=Place(str(path)))]) from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8-sig")
        place = Place(str(path), before.count("\n") + 1, len(before) - before.rfind("\n"))
        byte = error.object[error.start]
        raise SuiteError([Problem(f"byte 0x{byte:02x} is not UTF-8: save the file as UTF-8", place=place)]) from None


def _located(problems: Sequence[Problem], places: Places) -> list[Problem]:
    """Problems with their places, sorted: those of the file from top to bottom, then those of `--set`."""
    placed = [problem if problem.place else replace(problem, place=places.find(problem)) for problem in problems]
    bare = [replace(problem, loc=(), at_key=False) for problem in placed]  # reported once, however many cells share it
    return sorted(bare, key=lambda p: (not p.place.line, p.place.line, p.place.column) if p.place else (True, 0, 0))


def _validated(data: Mapping[str, Any]) -> tuple[Suite | None, list[Problem]]:
    """The suite and its mistakes; with mistakes, the part of it that can still be expanded, or None."""
    try:
        return Suite.model_validate(data), []
    except ValidationError as error:
        problems = list(validation_problems(error, Suite))
    wrong = {problem.loc[:2] if problem.loc[:1] == ("rows",) else problem.loc[:1] for problem in problems}
    if wrong & {(), ("base",), ("matrix",), ("rows",), ("overrides",)}:
        return None, problems
    sound = {key: value for key, value in data.items() if (key,) not in wrong}
    rows = {name: row for name, row in data.get("rows", {}).items() if ("rows", name) not in wrong}
    if rows or not data.get("rows"):
        return Suite.model_validate({"name": "unnamed", **sound, "rows": rows}), problems
    return None, problems


def _apply(override: str, data: dict[str, Any], places: Places) -> list[Problem]:
    """Set the key in the suite's data; return what is wrong with the override."""
    place = Place(f"--set {override}")
    key, equals, text = override.partition("=")
    path = tuple(key.strip().split("."))
    if not equals or not all(path) or len(path) > MAX_DEPTH:
        return [Problem("must be KEY=VALUE, such as training.iterations=100", place=place)]
    if path[0] in _SECTIONS:
        return [Problem(f"{path[0]} cannot be set: give the cell's key without it, for every cell", place=place)]
    if path[0] not in Suite.model_fields and path[0] not in Cell.model_fields:
        known = [name for name in (*Suite.model_fields, *Cell.model_fields) if name not in _SECTIONS]
        return [Problem(unknown("key", path[0], known), place=place)]
    try:
        value, _, problems = read_yaml(text, place.source, whole=place)
    except SuiteError as error:
        return list(error.problems)
    loc: Loc = path if path[0] in Suite.model_fields else ("overrides", dotted(path))
    _assign(data, loc, _absolute_value(path, value, Path.cwd()))
    places.replace(loc, place)
    return problems


def _assign(data: dict[str, Any], loc: Loc, value: object) -> None:
    for key in loc[:-1]:
        if not isinstance(data.get(str(key)), dict):
            data[str(key)] = {}
        data = data[str(key)]
    data[str(loc[-1])] = value


def _absolute(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The suite with relative file names resolved against the suite's folder."""
    layers: dict[str, Any] = {
        key: _absolute_value((), data[key], folder) for key in ("base", "overrides") if key in data
    }
    if isinstance(data.get("rows"), dict):
        layers["rows"] = {name: _absolute_row(row, folder) for name, row in data["rows"].items()}
    if isinstance(data.get("matrix"), dict):
        layers["matrix"] = _absolute_matrix(data["matrix"], folder)
    return {**data, **layers}


def _absolute_row(row: object, folder: Path) -> object:
    absolute = _absolute_value((), row, folder)
    if isinstance(absolute, dict) and isinstance(absolute.get("matrix"), dict):
        absolute["matrix"] = _absolute_matrix(absolute["matrix"], folder)
    return absolute


def _absolute_matrix(matrix: dict[str, Any], folder: Path) -> dict[str, Any]:
    return {key: _absolute_axis(key, values, folder) for key, values in matrix.items()}


def _absolute_axis(key: str, values: object, folder: Path) -> object:
    path = () if key in ("include", "exclude") else tuple(key.split("."))
    return [_absolute_value(path, value, folder) for value in values] if isinstance(values, list) else values


def _absolute_value(path: tuple[str, ...], value: object, folder: Path) -> object:
    if isinstance(value, dict):
        return {key: _absolute_value((*path, *key.split(".")), item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_absolute_value(path, item, folder) for item in value]
    if ".".join(path) not in _FILES:
        return value
    return os.path.realpath(folder / value) if isinstance(value, str) else value  # unlike Path.resolve, allows loops
