"""A suite's layers: base, matrix, rows and overrides, laid on each other with the spot that wrote each value."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tread_bench.config import Suite
from tread_bench.names import unknown
from tread_bench.suite_errors import Loc, Problem, dotted, shortened

MAX_CELLS = 100_000
LAYERS = ("base", "matrix", "rows", "overrides")
CHOICES = ("backbone", "data", "method", "objective")  # a mapping with a name, or the name alone


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
        is_choice = len(path) == 1 and path[0] in CHOICES
        if is_choice and isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping):
            self._replace(path, value, loc)
            return
        if not isinstance(self._at(path), dict) or (is_choice and "name" in value):
            self._replace(path, {}, loc)
        for key, item in value.items():
            self.set((*path, *key.split(".")), item, (*loc, key))

    def moved(self, problem: Problem) -> Problem:
        """A problem of the cell, at the spot of the suite that wrote the value, or the last part of it."""
        path = problem.loc
        path = self.latest(path, *(known for known in self.origins if known[: len(path)] == path))
        length = next((n for n in range(len(path), 0, -1) if path[:n] in self.origins), 0)
        loc, rest = self.origins.get(path[:length], ("base",)), path[length:]
        if all(isinstance(part, int) for part in rest):
            return Problem(problem.message, (*loc, *rest), problem.at_key)
        return Problem(problem.message, loc, at_key=True)

    def latest(self, *paths: Loc) -> Loc:
        """Of these paths, the one that the last layer wrote."""
        return max(paths, key=lambda path: LAYERS.index(str(self.origins.get(path, ("base",))[0])))

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


class DraftRow(NamedTuple):
    """A row before validation: its name, the spot that names it, and its merged values."""

    name: str
    loc: Loc
    draft: Draft


def draft_rows(suite: Suite, problems: list[Problem]) -> Iterator[DraftRow]:
    """Matrix combinations x rows. Mistakes of the layers themselves are added to `problems`."""
    problems += _set_twice(suite.base, ("base",))
    for name, row in suite.rows.items():
        problems += _set_twice(row or {}, ("rows", name))
    base = Draft().lay(suite.base, ("base",))
    for label, combination in _combinations(suite, problems):
        shared = base.copy()
        for key, (value, loc) in combination.items():
            shared.set(tuple(key.split(".")), value, loc)
        if not suite.rows:
            yield DraftRow(label or suite.name, ("matrix",), shared.lay(suite.overrides, ("overrides",)))
        for name, row in suite.rows.items():
            draft = shared.copy().lay(row or {}, ("rows", name)).lay(suite.overrides, ("overrides",))
            yield DraftRow(f"{name} {label}".rstrip(), ("rows", name), draft)


def _set_twice(layer: Mapping[str, Any], loc: Loc) -> Iterator[Problem]:
    seen: set[Loc] = set()
    for path, spot in _leaves(layer, loc):
        if path in seen:
            yield Problem(f"{dotted(path)} is set twice here: keep one of the two", spot, at_key=True)
        seen.add(path)


def _leaves(layer: Mapping[str, Any], loc: Loc, above: Loc = ()) -> Iterator[tuple[Loc, Loc]]:
    for key, value in layer.items():
        path, spot = (*above, *key.split(".")), (*loc, key)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, spot, path)
        else:
            yield path, spot


Combination = dict[str, tuple[Any, Loc]]  # dotted key -> its value and the spot that wrote it


def _combinations(suite: Suite, problems: list[Problem]) -> list[tuple[str, Combination]]:
    """The matrix's combinations with their labels; none where the matrix itself is wrong."""
    wrong = list(_matrix_problems(suite))
    problems += wrong
    if wrong:
        return []
    axes = _axes(suite)
    include, exclude = suite.matrix.get("include", []), suite.matrix.get("exclude", [])
    spots = [[(key, (value, ("matrix", key, i))) for i, value in enumerate(values)] for key, values in axes.items()]
    made: list[Combination] = [dict(chosen) for chosen in itertools.product(*spots)] if axes or not include else []
    kept = [c for c in made if not any(all(c[key][0] == v for key, v in rule.items()) for rule in exclude)]
    combinations = _included(kept, include, set(axes))
    if not combinations:
        problems.append(Problem("matrix: exclude leaves no combination; remove a rule", ("matrix", "exclude"), True))
    named = {key for key, values in axes.items() if _names_differ(values)}
    return [(_label({key: value for key, (value, _) in c.items()}, named), c) for c in combinations]


def _included(kept: list[Combination], include: list[dict[str, Any]], axes: set[str]) -> list[Combination]:
    """As in GitHub Actions: an entry extends the combinations whose matrix values it matches, or else is one itself."""
    extended, added = [dict(c) for c in kept], []
    for j, entry in enumerate(include):
        spots: Combination = {key: (value, ("matrix", "include", j, key)) for key, value in entry.items()}
        matched = [c for c in extended if all(c[key][0] == value for key, value in entry.items() if key in axes)]
        for combination in matched:
            combination.update(spots)
        if not matched:
            added.append(spots)
    return extended + added


def _axes(suite: Suite) -> dict[str, Any]:
    return {key: values for key, values in suite.matrix.items() if key not in ("include", "exclude")}


def _matrix_problems(suite: Suite) -> Iterator[Problem]:
    axes = _axes(suite)
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            message = f"matrix.{key} {shortened(values)}: must be a list with at least one value"
            yield Problem(message, ("matrix", key))
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
            for key in [key for key in rule if key not in axes]:
                yield Problem(unknown("key in matrix.exclude", key, axes), (*loc, j, key), at_key=True)


def _names_differ(values: list[Any]) -> bool:
    """Whether every value is a choice with a name that no other value has, so that the name says it all."""
    names = [value.get("name") for value in values if isinstance(value, dict)]
    return len(names) == len(values) == len(set(names)) and None not in names


def _label(combination: Mapping[str, Any], named: set[str]) -> str:
    """Such as "DiT routes=2:8@0.5 batch=32": of `named` keys the name; of others the last part where parts differ."""
    short = [key.rpartition(".")[2] for key in combination]
    keys = short if len(set(short)) == len(short) else list(combination)
    return " ".join(
        str(value["name"]) if key in named else f"{shown}={_shown(value)}"
        for key, shown, value in zip(combination, keys, combination.values(), strict=True)
    )


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "+".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return "+".join(_shown(v) if k == "name" else f"{k}={_shown(v)}" for k, v in value.items())
    return str(value)
