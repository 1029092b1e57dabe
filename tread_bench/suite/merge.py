"""A suite's layers (base, matrix, rows, overrides) merged, keeping the location that wrote each value."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from tread_bench.core.config.suite import Suite
from tread_bench.core.errors import printable
from tread_bench.core.problems import Loc, Problem, all_problems, dotted

MAX_CELLS = 100_000
LAYERS = ("base", "matrix", "rows", "overrides")
# keys whose value is a mapping with a name, or just the name
CHOICES = ("backbone", "data", "method", "objective", "sampling.guidance")


Combination = dict[str, tuple[Any, Loc]]  # dotted key -> its value and the location that wrote it


@dataclass
class Draft:
    """The values of a cell while layers are merged, and for each path the location that wrote it.

    `twice` are keys that one layer sets twice, of this draft and of all copies.
    """

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Loc, Loc] = field(default_factory=dict)
    twice: list[Problem] = field(default_factory=list)

    def copy(self) -> Draft:
        return Draft(copy.deepcopy(self.values), dict(self.origins), self.twice)

    def lay(self, layer: Mapping[str, Any], loc: Loc) -> Draft:
        """Set the nested or dotted keys of a layer written at `loc`; return the draft itself."""
        return self.choose({key: (value, (*loc, key)) for key, value in layer.items()})

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
        moved = []
        for problem in problems:
            # Of a part that several layers wrote, the place of the last one.
            path = problem.loc
            parts = [part for part in self.origins if path and part[: len(path)] == path]
            path = self.latest(*parts) if parts else path
            written = path
            while written and written not in self.origins:
                written = written[:-1]
            loc, rest = self.origins.get(written, ("base",)), path[len(written) :]
            if all(isinstance(part, int) for part in rest):
                moved.append(Problem(problem.message, (*loc, *rest), problem.at_key))
            else:
                moved.append(Problem(problem.message, loc, at_key=True))
        return moved

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
        before = self.origins.get(path, ())
        layer = ("base",) if loc[0] == "base" else loc[:2]  # a row; what --set and a matrix set is set again
        if before[: len(layer)] == layer and not (_sets_again(before) or _sets_again(loc)):
            self.twice.append(Problem(f"{dotted(path)} is set twice here: keep one of the two", loc, at_key=True))
        holder: Any = self.values
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
        self.origins[path] = loc


def _sets_again(loc: Loc) -> bool:
    """Whether a value is of `--set` or of a matrix, that of the suite or of a row."""
    return loc[0] in ("matrix", "overrides") or loc[2:3] == ("matrix",)


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


class Matrix(BaseModel):
    """Values of dotted keys; `include` as in GitHub Actions."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[list[Any], Field(min_length=1)]]

    include: list[Annotated[dict[str, Any], Field(min_length=1)]] = []

    @property
    def axes(self) -> dict[str, list[Any]]:
        return self.__pydantic_extra__

    @property
    def most(self) -> int:
        """An upper bound of the number of combinations."""
        return math.prod(len(values) for values in self.axes.values()) + len(self.include)


def draft_rows(suite: Suite, problems: list[Problem]) -> Iterator[DraftRow]:
    """Yield matrix combinations x rows, each with its own combinations; append the layers' mistakes to `problems`."""
    # Read the matrices.
    shared_matrix = _matrix(suite.matrix, ("matrix",), problems)
    rows: list[tuple[str, dict[str, Any], Matrix]] = []
    for name, row in suite.rows.items():
        keys = dict(row or {})
        own_matrix = _matrix(keys.pop("matrix", {}), ("rows", name, "matrix"), problems)
        if own_matrix is not None:
            rows.append((name, keys, own_matrix))
    if shared_matrix is None:
        return
    cells = shared_matrix.most * (sum(matrix.most for *_, matrix in rows) or 1) * len(suite.seeds)
    if cells > MAX_CELLS:
        message = f"the suite has {cells:,} cells, more than {MAX_CELLS:,}: split it"
        problems.append(Problem(message, ("matrix",), at_key=True))
        return

    # Merge them.
    combined = [(name, keys, _combinations(matrix, ("rows", name, "matrix"))) for name, keys, matrix in rows]
    base = Draft().lay(suite.base, ("base",))
    for label, combination in _combinations(shared_matrix, ("matrix",)):
        shared = base.copy().choose(combination)
        if not suite.rows:
            yield DraftRow(label or suite.name, ("matrix",), shared.lay(suite.overrides, ("overrides",)))
        for name, keys, combinations in combined:
            for own, chosen in combinations:
                draft = shared.copy().lay(keys, ("rows", name)).choose(chosen).lay(suite.overrides, ("overrides",))
                yield DraftRow(" ".join(filter(None, (name, own, label))), ("rows", name), draft, label, own)
    problems += base.twice


def _matrix(written: Any, loc: Loc, problems: list[Problem]) -> Matrix | None:
    """The matrix that is written at a location; None if it is wrong."""
    if wrong := all_problems(written, Matrix, loc):
        problems += wrong
        return None
    return Matrix.model_validate(written)


def _combinations(matrix: Matrix, at: Loc) -> list[tuple[str, Combination]]:
    """The labelled combinations of a matrix written at `at`."""
    # Those of its axes.
    spots = []
    for key, values in matrix.axes.items():
        spots.append([(key, (value, (*at, key, i))) for i, value in enumerate(values)])
    combinations: list[Combination] = []
    if matrix.axes or not matrix.include:
        combinations += map(dict, itertools.product(*spots))

    # An entry extends the combinations that it matches, or else is added as a combination.
    added: list[Combination] = []
    for j, entry in enumerate(matrix.include):
        written: Combination = {key: (value, (*at, "include", j, key)) for key, value in entry.items()}
        axes = entry.keys() & matrix.axes.keys()
        matched = [c for c in combinations if all(c[key][0] == entry[key] for key in axes)]
        for combination in matched:
            combination.update(written)
        if not matched:
            added.append(written)
    combinations += added

    # Values that are choices with unique names are called by them.
    named = set()
    for key, values in matrix.axes.items():
        names = [value.get("name") if isinstance(value, dict) else None for value in values]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            named.add(key)
    return [(_label(combination, named), combination) for combination in combinations]


def _label(combination: Combination, named: set[str]) -> str:
    """Such as "DiT routes=2:8@0.5 batch=32": the name for `named` keys; the last part of other keys if unique."""
    short = {key: key.rpartition(".")[2] for key in combination}
    is_unique = len(set(short.values())) == len(short)
    parts = []
    for key, (value, _) in combination.items():
        shown = short[key] if is_unique else key
        is_named = key in named and isinstance(value, dict) and "name" in value  # not where `include` writes it shorter
        parts.append(str(value["name"]) if is_named else f"{shown}={_shown(value)}")
    return printable(" ".join(parts))


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "+".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return "+".join(_shown(v) if k == "name" else f"{k}={_shown(v)}" for k, v in value.items())
    return str(value)
