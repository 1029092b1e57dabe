"""From a suite to its cells: matrix x rows x seeds, merged, validated, resolved and named. No torch, no training."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tread_bench.config import SELECTORS, Cell, ParquetData, Suite
from tread_bench.names import unknown
from tread_bench.registry import BackboneSpec, Cost, Family
from tread_bench.routes import Route, format_routes, tokens_per_block
from tread_bench.suite_errors import Loc, Problem, SuiteError, dotted, shortened, validation_problems

MAX_CELLS = 100_000
CHECKPOINTS_KEPT = 2
_CHOICES = ("backbone", "data", "method", "objective")  # a mapping with a name, or the name alone
_LAYERS = ("base", "matrix", "rows", "overrides")
Counter = Callable[[Family, BackboneSpec, Sequence[int]], Cost]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """One training of a plan.

    `routes` are block numbers. `reference` is the id of the dense cell of the same seed that differs in method, routes
    and selector alone ("" where the suite has none; a dense cell is its own). Cells that share `architecture_key` and
    seed start from the same weights; cells that share `row_key` differ in their seed alone.
    """

    id: str
    row: str
    seed: int
    cell: Cell
    family: Family
    spec: BackboneSpec
    routes: tuple[Route, ...]
    reference: str
    architecture_key: str
    row_key: str


@dataclass(frozen=True)
class Plan:
    """A suite and its cells, seed by seed within each row, rows in the order of the suite."""

    suite: Suite
    cells: tuple[PlannedCell, ...]

    @cached_property
    def by_id(self) -> dict[str, PlannedCell]:
        return {cell.id: cell for cell in self.cells}

    @cached_property
    def rows(self) -> dict[str, list[PlannedCell]]:
        """The cells of each row, by the row's name."""
        rows: dict[str, list[PlannedCell]] = {}
        for cell in self.cells:
            rows.setdefault(cell.row, []).append(cell)
        return rows


def canonical_json(value: object) -> str:
    """The one text of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: object) -> str:
    """Ten hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:10]


def expand(suite: Suite, *, check_files: bool = True) -> Plan:
    """Every cell of a suite, validated against its backbone.

    Args:
        check_files: data and weight files that are not there are mistakes.

    Raises:
        SuiteError: all mistakes of all cells, each once.
    """
    problems: list[Problem] = []
    resolver = _Resolver(check_files, suite.compute.model_dump(mode="json"))
    rows = [resolver.row(name, draft, problems) for name, draft in _drafts(suite, problems)]
    found = [row for row in rows if row]
    problems += _repeated(found)
    if problems:
        raise SuiteError(problems)
    references = {row.comparison_key: row for row in reversed(found) if row.cell.method.name == "dense"}
    return Plan(suite, tuple(row.planned(seed, references) for row in found for seed in suite.seeds))


@dataclass
class Draft:
    """The values of a cell while layers are laid on each other, and for each path the spot that wrote it."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Loc, Loc] = field(default_factory=dict)

    def copy(self) -> Draft:
        return Draft(_copied(self.values), dict(self.origins))

    def lay(self, layer: Mapping[str, Any], loc: Loc) -> Draft:
        """Set the keys, nested or dotted, of a layer written at `loc`; returns itself."""
        for key, value in layer.items():
            self.set(tuple(key.split(".")), value, (*loc, key))
        return self

    def set(self, path: tuple[str, ...], value: object, loc: Loc) -> None:
        """A mapping extends what is there; any other value, and a choice that gives its name, replaces it."""
        is_choice = len(path) == 1 and path[0] in _CHOICES
        if is_choice and isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping):
            self._replace(path, value, loc)
            return
        if not isinstance(self._at(path), dict) or (is_choice and "name" in value):
            self._replace(path, {}, loc)
        for key, item in value.items():
            self.set((*path, *key.split(".")), item, (*loc, key))

    def origin(self, path: Loc) -> Loc:
        """The spot that wrote the value at `path`, or the nearest one above it."""
        spots = (self.origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.origins)
        return next(spots, ("base",))

    def latest(self, *paths: Loc) -> Loc:
        """Of the spots that wrote these paths, the one in the last layer."""
        return max((self.origin(path) for path in paths), key=lambda loc: _LAYERS.index(str(loc[0])))

    def _at(self, path: tuple[str, ...]) -> object:
        here: Any = self.values
        for key in path:
            here = here.get(key) if isinstance(here, dict) else None
        return here

    def _replace(self, path: tuple[str, ...], value: object, loc: Loc) -> None:
        for n in range(1, len(path)):
            if not isinstance(self._at(path[:n]), dict):
                self._replace(path[:n], {}, loc)
        if isinstance(self._at(path), dict):
            self.origins = {old: spot for old, spot in self.origins.items() if old[: len(path)] != path}
        holder: Any = self.values
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]], self.origins[path] = value, loc


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in values.items()}


def _drafts(suite: Suite, problems: list[Problem]) -> Iterator[tuple[str, Draft]]:
    """The name and the merged values of each row of each combination."""
    problems += _set_twice(suite.base, ("base",))
    for name, row in suite.rows.items():
        problems += _set_twice(row or {}, ("rows", name))
    base = Draft().lay(suite.base, ("base",))
    for label, combination in _combinations(suite, problems):
        shared = base.copy()
        for path, (value, loc) in combination.items():
            shared.set(tuple(path.split(".")), value, loc)
        for name, row in (suite.rows or {"": {}}).items():
            draft = shared.copy().lay(row or {}, ("rows", name)).lay(suite.overrides, ("overrides",))
            yield " ".join(part for part in (name, label) if part) or suite.name, draft


def _set_twice(layer: Mapping[str, Any], loc: Loc) -> list[Problem]:
    seen: set[Loc] = set()
    problems = []
    for path, spot in _leaves(layer, loc):
        if path in seen:
            problems.append(Problem(f"{dotted(path)} is set twice here: keep one of the two", spot, at_key=True))
        seen.add(path)
    return problems


def _leaves(layer: Mapping[str, Any], loc: Loc, above: Loc = ()) -> Iterator[tuple[Loc, Loc]]:
    for key, value in layer.items():
        path, spot = (*above, *key.split(".")), (*loc, key)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, spot, path)
        else:
            yield path, spot


Combination = dict[str, tuple[Any, Loc]]  # dotted key -> its value and where that was written


def _combinations(suite: Suite, problems: list[Problem]) -> list[tuple[str, Combination]]:
    """The matrix's combinations with their labels; none where the matrix itself is wrong."""
    wrong = list(_matrix_problems(suite))
    problems += wrong
    if wrong:
        return []
    axes = {key: values for key, values in suite.matrix.items() if key not in ("include", "exclude")}
    include, exclude = suite.matrix.get("include", []), suite.matrix.get("exclude", [])
    spots = [[(key, (value, ("matrix", key, i))) for i, value in enumerate(axes[key])] for key in axes]
    made = [dict(chosen) for chosen in itertools.product(*spots)] if axes or not include else []
    kept = [c for c in made if not any(all(c[key][0] == v for key, v in rule.items()) for rule in exclude)]
    combinations = _included(kept, include, set(axes))
    if not combinations:
        problems.append(Problem("matrix: exclude leaves no combination; remove a rule", ("matrix", "exclude"), True))
    return [(_label({key: value for key, (value, _) in c.items()}), c) for c in combinations]


def _included(kept: list[Combination], include: list[dict[str, Any]], axes: set[str]) -> list[Combination]:
    """As in GitHub Actions: an entry extends the combinations whose matrix values it matches, or else is one itself."""
    extended, added = [dict(c) for c in kept], []
    for j, entry in enumerate(include):
        spots = {key: (value, ("matrix", "include", j, key)) for key, value in entry.items()}
        matched = [new for new in extended if all(new[key][0] == v for key, v in entry.items() if key in axes)]
        for combination in matched:
            combination.update(spots)
        if not matched:
            added.append(spots)
    return extended + added


def _matrix_problems(suite: Suite) -> Iterator[Problem]:
    axes = {key: values for key, values in suite.matrix.items() if key not in ("include", "exclude")}
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            yield Problem(f"matrix.{key} {shortened(values)}: must be a list of values with at least one", ("matrix", key))
    for name in ("include", "exclude"):
        yield from _rule_problems(suite.matrix.get(name, []), name, axes)
    sizes = [len(values) for values in axes.values() if isinstance(values, list)]
    cells = math.prod(sizes) * max(len(suite.rows), 1) * len(suite.seeds)
    if cells > MAX_CELLS:
        yield Problem(f"the suite has {cells} cells, more than {MAX_CELLS}: split it", ("matrix",), at_key=True)


def _rule_problems(rules: object, name: str, axes: Mapping[str, object]) -> Iterator[Problem]:
    loc: Loc = ("matrix", name)
    if not isinstance(rules, list):
        yield Problem(f"matrix.{name} {shortened(rules)}: must be a list of mappings of dotted keys to values", loc)
        return
    for j, rule in enumerate(rules):
        if not isinstance(rule, dict) or not rule:
            yield Problem(f"matrix.{name} {shortened(rule)}: must map dotted keys to values", (*loc, j))
        elif name == "exclude":
            for key in rule.keys() - axes.keys():
                yield Problem(unknown("matrix key in exclude", key, axes), (*loc, j, key), at_key=True)


def _label(combination: Mapping[str, Any]) -> str:
    """Such as "routes=2:8@0.5 batch=32": the last parts of the keys where they differ, else the whole keys."""
    short = [key.rpartition(".")[2] for key in combination]
    keys = short if len(set(short)) == len(short) else list(combination)
    return " ".join(f"{key}={_shown(value)}" for key, value in zip(keys, combination.values(), strict=True))


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "+".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return "+".join(_shown(v) if k == "name" else f"{k}={_shown(v)}" for k, v in value.items())
    return str(value)


@dataclass(frozen=True)
class _Row:
    """All cells of one row: everything but the seed."""

    name: str
    draft: Draft
    cell: Cell
    family: Family
    spec: BackboneSpec
    config: dict[str, Any]
    key: str

    @cached_property
    def comparison_key(self) -> str:
        rest = {key: value for key, value in self.config.items() if key not in ("method", "routes", "selector")}
        return canonical_json(rest)

    def id(self, seed: int) -> str:
        slug = re.sub(r"[^a-z0-9_.]+", "-", self.name.lower())[:48].strip("-_.")
        return f"{slug}-s{seed}-{self.key}"

    def planned(self, seed: int, references: Mapping[str, _Row]) -> PlannedCell:
        reference = references.get(self.comparison_key)
        return PlannedCell(
            id=self.id(seed),
            row=self.name,
            seed=seed,
            cell=self.cell,
            family=self.family,
            spec=self.spec,
            routes=self.cell.routes,
            reference=reference.id(seed) if reference else "",
            architecture_key=digest([self.family.name, self.spec.model_dump(mode="json")]),
            row_key=self.key,
        )


def _repeated(rows: Iterable[_Row]) -> Iterator[Problem]:
    """Rows that would train the same cell again, or that share a name."""
    by_key: dict[str, _Row] = {}
    names: set[str] = set()
    for row in rows:
        loc = max(row.draft.origins.values(), key=lambda loc: _LAYERS.index(str(loc[0])), default=("base",))
        loc = loc[:2] if loc[0] == "rows" else loc
        first = by_key.setdefault(row.key, row)
        if first is not row:
            message = f"row {row.name!r} is the same cell as row {first.name!r}: change one of them or remove it"
            yield Problem(message, loc, at_key=True)
        elif row.name in names:
            yield Problem(f"two rows are called {row.name!r}: rename one", loc, at_key=True)
        names.add(row.name)


class _Resolver:
    """Drafts to rows; what depends on sizes or routes alone is worked out once."""

    def __init__(self, check_files: bool, compute: dict[str, Any]) -> None:
        self.check_files = check_files
        self.compute = compute
        self._specs: dict[str, tuple[Family, BackboneSpec] | list[Problem]] = {}
        self._routes: dict[tuple[str, str, str], tuple[Route, ...] | str] = {}

    def row(self, name: str, draft: Draft, problems: list[Problem]) -> _Row | None:
        """The row of a draft, or None, its mistakes being told in `problems`."""
        found: list[Problem] = []
        row = self._row(name, draft, found)
        problems += [_moved(problem, draft) for problem in found]
        return None if found else row

    def _row(self, name: str, draft: Draft, found: list[Problem]) -> _Row | None:
        try:
            cell = Cell.model_validate(draft.values)
        except ValidationError as error:
            found += validation_problems(error, Cell)
            return None
        found += _cell_problems(cell, draft)
        if self.check_files:
            found += _missing_files(cell)
        announced = self._spec(cell)
        if isinstance(announced, list):
            found += announced
            return None
        family, spec = announced
        routes = self._resolve(cell, family, spec)
        if isinstance(routes, str):
            found.append(Problem(routes, ("routes",)))
            return None
        metrics = cell.metrics.model_copy(update={"at": cell.metrics.at or (cell.training.iterations,)})
        cell = cell.model_copy(update={"routes": routes, "metrics": metrics})
        config = cell.model_dump(mode="json")
        return _Row(name, draft, cell, family, spec, config, digest([config, self.compute]))

    def _spec(self, cell: Cell) -> tuple[Family, BackboneSpec] | list[Problem]:
        key = canonical_json([cell.backbone.model_dump(), cell.data.model_dump()])
        if key not in self._specs:
            self._specs[key] = _announced(cell)
        return self._specs[key]

    def _resolve(self, cell: Cell, family: Family, spec: BackboneSpec) -> tuple[Route, ...] | str:
        key = (format_routes(cell.routes), cell.selector, repr((family.name, spec)))
        if key not in self._routes:
            try:
                self._routes[key] = family.resolve(spec, cell.routes, cell.selector)
            except ValueError as error:
                self._routes[key] = f"routes: {error}"
        return self._routes[key]


def _moved(problem: Problem, draft: Draft) -> Problem:
    """A problem of a cell, at the spot of the suite that wrote the value."""
    path = problem.loc
    if path and path[0] in _LAYERS:
        return problem
    loc = draft.origin(path)
    whole = path in draft.origins
    return Problem(problem.message, loc, problem.at_key or not whole)
