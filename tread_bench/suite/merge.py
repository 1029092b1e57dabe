"""A suite's layers (base, matrix, rows, overrides) merged, keeping the location that wrote each value."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tread_bench.core.config.suite import Suite
from tread_bench.core.errors import printable
from tread_bench.core.names import unknown
from tread_bench.core.problems import Loc, Problem, dotted, shortened

MAX_CELLS = 100_000
LONGEST_LABEL = 200
LAYERS = ("base", "matrix", "rows", "overrides")
# keys whose value is a mapping with a name, or just the name
CHOICES = ("backbone", "data", "method", "objective", "sampling.guidance")


Combination = dict[str, tuple[Any, Loc]]  # dotted key -> its value and the location that wrote it
Labelled = list[tuple[str, Combination]]


@dataclass
class Draft:
    """The values of a cell while layers are merged, and for each path the location that wrote it."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Loc, Loc] = field(default_factory=dict)

    def copy(self) -> Draft:
        return Draft(_copied(self.values), dict(self.origins))

    def lay(self, layer: Mapping[str, Any], loc: Loc) -> Draft:
        """Set the nested or dotted keys of a layer written at `loc`; return the draft itself."""
        for key, value in layer.items():
            self.set(tuple(key.split(".")), value, (*loc, key))
        return self

    def choose(self, combination: Combination) -> Draft:
        """Set the values of a matrix combination; return the draft itself."""
        for key, (value, loc) in combination.items():
            self.set(tuple(key.split(".")), value, loc)
        return self

    def set(self, path: tuple[str, ...], value: object, loc: Loc) -> None:
        """Set a value: a mapping extends what is there; any other value, or a choice giving its name, replaces it."""
        is_choice = ".".join(path) in CHOICES
        if is_choice and isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping):
            self._replace(path, value, loc)
            return
        if not isinstance(self._at(path), dict) or (is_choice and "name" in value):
            self._replace(path, {}, loc)
        for key, item in value.items():
            self.set((*path, *key.split(".")), item, (*loc, key))

    def moved(self, problems: Iterable[Problem]) -> list[Problem]:
        """Move a cell's problems to the locations in the suite that wrote the values."""
        problems = list(problems)
        if not problems:
            return []
        last_parts = {path: path for path in self.origins}
        for path in self.origins:
            for above in (path[:n] for n in range(1, len(path))):
                last_parts[above] = self.latest(last_parts.get(above, above), path)
        return [self._moved(problem, last_parts.get(problem.loc, problem.loc)) for problem in problems]

    def _moved(self, problem: Problem, path: Loc) -> Problem:
        length = next((n for n in range(len(path), 0, -1) if path[:n] in self.origins), 0)
        loc, rest = self.origins.get(path[:length], ("base",)), path[length:]
        if all(isinstance(part, int) for part in rest):
            return Problem(problem.message, (*loc, *rest), problem.at_key)
        return Problem(problem.message, loc, at_key=True)

    def latest(self, *paths: Loc) -> Loc:
        """Return which of these paths was written by the last layer."""
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
    """A row before validation: its name, the location of its name, its merged values, and its combinations of the
    suite's matrix and of its own."""

    name: str
    loc: Loc
    draft: Draft
    label: str = ""
    own: str = ""

    def meant(self, name: str) -> Iterator[str]:
        """Yield the full names of the rows that this one may mean by `name`, that of its own combination first."""
        for labels in (self.own, self.label), (self.label,), ():
            yield " ".join(filter(None, (name, *labels)))


def draft_rows(suite: Suite, problems: list[Problem]) -> Iterator[DraftRow]:
    """Yield matrix combinations x rows, each with its own combinations; append the layers' mistakes to `problems`."""
    problems += _set_twice(suite.base, ("base",))
    too_many = list(_too_many(suite))
    problems += too_many
    shared_combinations = [] if too_many else _combinations(suite.matrix, ("matrix",), problems)
    rows = [] if too_many else [_row_layer(name, row or {}, problems) for name, row in suite.rows.items()]
    base = Draft().lay(suite.base, ("base",))
    for label, combination in shared_combinations:
        shared = base.copy().choose(combination)
        if not suite.rows:
            yield DraftRow(label or suite.name, ("matrix",), shared.lay(suite.overrides, ("overrides",)))
        for name, keys, combinations in rows:
            for own, chosen in combinations:
                draft = shared.copy().lay(keys, ("rows", name)).choose(chosen).lay(suite.overrides, ("overrides",))
                yield DraftRow(" ".join(filter(None, (name, own, label))), ("rows", name), draft, label, own)


def _row_layer(name: str, row: Mapping[str, Any], problems: list[Problem]) -> tuple[str, dict[str, Any], Labelled]:
    """A row's name, its keys, and the combinations of its own matrix."""
    keys = {key: value for key, value in row.items() if key != "matrix"}
    problems += _set_twice(keys, ("rows", name))
    return name, keys, _combinations(row.get("matrix", {}), ("rows", name, "matrix"), problems)


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


def _combinations(matrix: Mapping[str, Any], at: Loc, problems: list[Problem]) -> Labelled:
    """The labelled combinations of a matrix written at `at`; none if the matrix itself is wrong."""
    wrong = list(_matrix_problems(matrix, at))
    problems += wrong
    if wrong:
        return []
    axes = _axes(matrix)
    include, exclude = matrix.get("include", []), matrix.get("exclude", [])
    spots = [[(key, (value, (*at, key, i))) for i, value in enumerate(values)] for key, values in axes.items()]
    made: list[Combination] = [dict(chosen) for chosen in itertools.product(*spots)] if axes or not include else []
    kept = [c for c in made if not any(all(c[key][0] == v for key, v in rule.items()) for rule in exclude)]
    combinations = _included(kept, include, set(axes), at)
    if not combinations:
        problems.append(Problem("matrix: exclude leaves no combination; remove a rule", (*at, "exclude"), True))
    named = {key for key, values in axes.items() if _names_differ(values)}
    return [(_label({key: value for key, (value, _) in c.items()}, named), c) for c in combinations]


def _included(kept: list[Combination], include: list[dict[str, Any]], axes: set[str], at: Loc) -> list[Combination]:
    """As in GitHub Actions, an entry extends the combinations it matches, or else is added as a combination."""
    extended, added = [dict(c) for c in kept], []
    for j, entry in enumerate(include):
        spots: Combination = {key: (value, (*at, "include", j, key)) for key, value in entry.items()}
        matched = [c for c in extended if all(c[key][0] == value for key, value in entry.items() if key in axes)]
        for combination in matched:
            combination.update(spots)
        if not matched:
            added.append(spots)
    return extended + added


def _axes(matrix: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values for key, values in matrix.items() if key not in ("include", "exclude")}


def _matrix_problems(matrix: Mapping[str, Any], at: Loc) -> Iterator[Problem]:
    if not isinstance(matrix, Mapping):
        yield Problem(f"matrix {shortened(matrix)}: must map dotted keys to lists of values", at)
        return
    axes = _axes(matrix)
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            message = f"matrix.{key} {shortened(values)}: must be a list with at least one value"
            yield Problem(message, (*at, key))
    for name in ("include", "exclude"):
        yield from _rule_problems(matrix.get(name, []), name, axes, at)


def _too_many(suite: Suite) -> Iterator[Problem]:
    rows = sum(_extent((row or {}).get("matrix", {})) for row in suite.rows.values()) or 1
    tuning = suite.tune.cells_per_row if suite.tune else 0
    cells = _extent(suite.matrix) * rows * (len(suite.seeds) + tuning)
    if cells > MAX_CELLS:
        yield Problem(f"the suite has {cells:,} cells, more than {MAX_CELLS:,}: split it", ("matrix",), at_key=True)


def _extent(matrix: object) -> int:
    """An upper bound of a matrix's number of combinations, whether it is valid or not."""
    if not isinstance(matrix, Mapping):
        return 0
    include = matrix.get("include")
    sizes = [len(values) for values in _axes(matrix).values() if isinstance(values, list)]
    return math.prod(sizes) + (len(include) if isinstance(include, list) else 0)


def _rule_problems(rules: object, name: str, axes: Mapping[str, object], at: Loc) -> Iterator[Problem]:
    loc: Loc = (*at, name)
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
    """Whether every value is a choice with a unique name, so that the name is enough as a label."""
    names = {name for value in values if isinstance(value, dict) and isinstance(name := value.get("name"), str)}
    return len(names) == len(values)


def _label(combination: Mapping[str, Any], named: set[str]) -> str:
    """Such as "DiT routes=2:8@0.5 batch=32": the name for `named` keys; the last part of other keys if unique."""
    short = [key.rpartition(".")[2] for key in combination]
    keys = short if len(set(short)) == len(short) else list(combination)
    label = " ".join(
        str(value["name"]) if key in named else f"{shown}={_shown(value)}"
        for key, shown, value in zip(combination, keys, combination.values(), strict=True)
    )
    label = printable(label)
    if len(label) <= LONGEST_LABEL:
        return label
    return f"{label[:LONGEST_LABEL]}… {hashlib.sha256(label.encode()).hexdigest()[:8]}"  # still unique


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "+".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return "+".join(_shown(v) if k == "name" else f"{k}={_shown(v)}" for k, v in value.items())
    return str(value)
