"""Loading of suite files, by path or name, with `--set` applied; all mistakes are reported together, with places."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tread_bench.core.config.base import Model
from tread_bench.core.config.choices import DataChoice
from tread_bench.core.config.suite import Cell, Suite
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.errors import UserError
from tread_bench.core.names import unknown
from tread_bench.core.problems import Place, Places, Problem, SuiteError, all_problems, at, dotted, refuse, shortened
from tread_bench.suite.files import Files, Look
from tread_bench.suite.merge import LAYERS
from tread_bench.suite.plan import Plan, expand
from tread_bench.suite.resolve import told_where
from tread_bench.suite.yaml import MAX_DEPTH, TOO_DEEP, read_value, read_yaml

DATA_ROOT = "$data_root"  # first part of a path: the folder of --data-root, by default the working directory
_MAX_BYTES = 2**20
_FILES = (  # ends of paths in a suite: a cell's keys are at several places
    *(".data.train", ".data.held_out", ".data.train_images", ".data.decoder", ".data.images", ".data.scale"),
    *(".data.shift", ".data.captions.files", ".data.captions.encoder.weights"),
    *(".metrics.extractor_weights", ".metrics.inception_weights", ".metrics.reference"),
    *(".metrics.extractor.weights", ".metrics.also.weights", ".auxiliary.weights", ".evaluate.run"),
    ".training.start.run",
)


class Roots(NamedTuple):
    """Where file names start: relative ones, and those that begin with `$data_root`."""

    relative: Path
    data: Path

    def absolute(self, name: str) -> str:
        """Return the absolute name of a file. Raises ValueError if no file can have it."""
        first, _, rest = name.partition("/")
        try:
            path = os.path.realpath(self.data / rest if first == DATA_ROOT else self.relative / name)  # may be a loop
            path.encode()
        except UnicodeEncodeError as error:
            rule = "its name is not UTF-8, in which records name their files"
            raise ValueError(f"{error.object!r}: {rule}; rename what is escaped here") from None
        except ValueError as error:
            raise ValueError(f"{name!r}: no file can have this name ({error})") from None
        return path


def load_plan(
    suite: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    data_root: Path | None = None,
    look: Look = Look.EXISTENCE,
    allows_missing: bool = False,
) -> Plan:
    """Load and validate a suite and expand it; the data files that its cells need must exist.

    Args:
        suite: a file, or what a file would hold, whose mistakes have places by keys and whose relative paths begin in
            the working directory.
        overrides: `KEY=VALUE` as for `--set`, the value in YAML. A key of the suite (`seeds=2`, `timing.pairs=0`) is
            replaced; a key of a cell (`training.iterations=100`) is set in every cell, after matrix and rows.
        data_root: folder that `$data_root` stands for; None: the working directory.
        look: how far these files are looked at.
        allows_missing: missing files are listed in the plan; otherwise they are mistakes.
    """
    # Read the suite and the overrides, with absolute file names.
    data: Any = suite
    folder, data_folder = Path.cwd(), data_root or Path.cwd()
    places, problems = Places(), list[Problem]()
    if not isinstance(suite, Mapping):
        path = Path(suite)
        folder = path.parent
        data, places, problems = read_yaml(_read_text(path), str(path))
    plan = None
    try:
        if not isinstance(data, Mapping):
            raise SuiteError([Problem("a suite is a mapping: write name: ... and base: ... at the left margin")])
        data = absolute_value((), dict(data), Roots(folder, data_folder))
        for override in overrides:
            problems += _apply(override, data, places, Roots(Path.cwd(), data_folder))

        # Validate and expand them; what is found missing has its place in the file, too.
        valid, wrong = _validated(data)
        problems += wrong
        plan = expand(valid, Files(look, allows_missing)) if valid else None
    except SuiteError as error:
        problems += error.problems
    if problems or plan is None:
        raise SuiteError(_located(problems, places))
    return replace(plan, missing=tuple(dict.fromkeys(_located(plan.missing, places))))


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


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise SuiteError([Problem(f"larger than {_MAX_BYTES:,} bytes, so it is no suite", place=Place(str(path)))])
        return content.decode("utf-8-sig")
    except OSError as error:
        raise SuiteError([Problem(f"cannot be read: {error.strerror}", place=Place(str(path)))]) from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8-sig")
        place = Place(str(path), before.count("\n") + 1, len(before) - before.rfind("\n"))
        byte = error.object[error.start]
        raise SuiteError([Problem(f"byte 0x{byte:02x} is not UTF-8: save the file as UTF-8", place=place)]) from None


def _located(problems: Sequence[Problem], places: Places) -> list[Problem]:
    """Problems with their places, sorted: those of the file from top to bottom, then those of `--set`.

    In a suite without places, which is no file, they keep their keys.
    """
    placed = []
    for problem in problems:
        if place := problem.place or places.find(problem):
            problem = Problem(problem.message, place=place)  # reported once, however many cells share it
        placed.append(problem)
    return sorted(placed, key=lambda p: (not p.place.line, p.place.line, p.place.column) if p.place else (True, 0, 0))


def _validated(data: Mapping[str, Any]) -> tuple[Suite | None, list[Problem]]:
    """The suite and its mistakes; with mistakes, its cells alone, or None where they are wrong as well."""
    rule = "is a key of cells: write it under base, or in a row"
    problems = [*told_where(all_problems(data, Suite), Cell.model_fields, rule)]
    if not problems:
        return Suite.model_validate(data), []
    sections = {"name": "unnamed", **{key: data[key] for key in LAYERS if key in data}}
    if all_problems(sections, Suite):
        return None, problems
    return Suite.model_validate(sections), problems


def _apply(override: str, data: dict[str, Any], places: Places, roots: Roots) -> list[Problem]:
    """Set the key in the suite's data; return what is wrong with the override."""
    place = Place(f"--set {override}")
    key, equals, text = override.partition("=")
    path = tuple(key.strip().split("."))
    if not equals or not all(path):
        return [Problem("must be KEY=VALUE, such as training.iterations=100", place=place)]
    if path[0] in LAYERS:  # they contain a cell's keys
        return [Problem(f"{path[0]} cannot be set: give the cell's key without it, for every cell", place=place)]
    if path[0] not in Suite.model_fields and path[0] not in Cell.model_fields:
        known = [name for name in (*Suite.model_fields, *Cell.model_fields) if name not in LAYERS]
        return [Problem(unknown("key", path[0], known), place=place)]
    try:
        value = absolute_value(path, read_value(text, place.source), roots)
    except SuiteError as error:
        return [replace(problem, loc=(), place=place) for problem in error.problems]
    loc = path if path[0] in Suite.model_fields else ("overrides", dotted(path))
    for part in loc[:-1]:
        if not isinstance(data.get(part), dict):
            data[part] = {}
        data = data[part]
    data[loc[-1]] = value
    places.replace(loc, place)
    return []


def absolute_value(path: tuple[str, ...], value: object, roots: Roots) -> Any:
    """Return the value at `path` in a suite or a cell, with absolute file names in it."""
    if len(path) > MAX_DEPTH:  # by a key of many dots
        raise SuiteError([Problem(f"{shortened(dotted(path))}: {TOO_DEEP}", path, at_key=True)])
    if isinstance(value, dict):
        return {key: absolute_value((*path, *key.split(".")), item, roots) for key, item in value.items()}
    if isinstance(value, list):
        return [absolute_value(path, item, roots) for item in value]
    if not isinstance(value, str) or not f".{dotted(path)}".endswith(_FILES):
        return value
    with at(*path):
        return roots.absolute(value)


# The one data source that a command works on


class _Settings(Model):
    data: DataChoice


def data_of(source: str, overrides: Sequence[str] = (), data_root: Path | None = None) -> DataOptions:
    """Return the data of a suite, or those that `source` itself describes: "{name: parquet, ...}". Raises UserError."""
    if not is_settings(source):
        return data_of_suite(source, overrides, data_root)
    if overrides:
        raise UserError(f"--set {overrides[0]}: changes a suite; write the value into the settings {source}")
    value = read_value(source, source)
    if DATA_ROOT in source:
        value = absolute_value(("data",), value, Roots(Path.cwd(), data_root or Path.cwd()))
    refuse(replace(one, loc=(), place=Place(source)) for one in all_problems({"data": value}, _Settings))
    return _Settings(data=value).data


def is_settings(source: str) -> bool:
    """Return whether a text is settings as a suite writes them, not the name of something."""
    return source.lstrip().startswith("{")


def data_of_suite(suite: str, overrides: Sequence[str], data_root: Path | None = None) -> DataOptions:
    """Return the data of a suite's cells, without what its metrics need. Raises UserError where they differ."""
    without_network = [*overrides, "metrics.generate=false"]
    plan = load_plan(find_suite(suite), without_network, data_root=data_root, look=Look.HEADERS)
    choices = {cell.cell.data.model_dump_json(): cell.cell.data for cell in plan.cells}
    if len(choices) > 1:
        raise UserError(f"{suite} uses {len(choices)} data sources, and this takes one: choose it with --set")
    return next(iter(choices.values()))
