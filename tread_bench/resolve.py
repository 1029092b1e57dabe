"""From a merged row to a resolved cell: validated against its backbone's sizes and route rules. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from tread_bench.config import Cell, ParquetData
from tread_bench.layers import Draft
from tread_bench.names import unknown
from tread_bench.registry import SELECTORS, BackboneSpec, Family
from tread_bench.routes import Route, format_routes, resolve_routes
from tread_bench.suite_errors import Loc, Problem, validation_problems


class Resolved(NamedTuple):
    """A cell with nothing left open (routes in block numbers, `metrics.at` filled), its family and its sizes."""

    cell: Cell
    family: Family
    spec: BackboneSpec


class Resolver:
    """Resolves drafts; what depends on sizes or routes alone is worked out once.

    Args:
        check_files: data and weight files that are not there are mistakes.
    """

    def __init__(self, check_files: bool) -> None:
        self.check_files = check_files
        self._backbones: dict[str, tuple[Family, BackboneSpec] | list[Problem]] = {}
        self._routes: dict[tuple[object, ...], tuple[Route, ...] | list[Problem]] = {}

    def resolve(self, draft: Draft) -> Resolved | list[Problem]:
        """The cell, or all that is wrong with it, located in the suite."""
        cell, problems = _validated(draft.values)
        wrong = {problem.loc[0] for problem in problems}
        problems += [*_cell_problems(cell, draft), *(_missing_files(cell) if self.check_files else ())]
        backbone = [] if wrong & {"backbone", "data"} else self._backbone(cell)
        routes = self._resolve_routes(cell, *backbone) if isinstance(backbone, tuple) else ()
        problems += [problem for part in (backbone, routes) if isinstance(part, list) for problem in part]
        if problems or isinstance(backbone, list) or isinstance(routes, list):
            return [draft.moved(problem) for problem in problems]
        metrics = cell.metrics.model_copy(update={"at": cell.metrics.at or (cell.training.iterations,)})
        return Resolved(cell.model_copy(update={"routes": routes, "metrics": metrics}), *backbone)

    def _backbone(self, cell: Cell) -> tuple[Family, BackboneSpec] | list[Problem]:
        key = cell.model_dump_json(include={"backbone", "data"})
        if key not in self._backbones:
            self._backbones[key] = _find_backbone(cell)
        return self._backbones[key]

    def _resolve_routes(self, cell: Cell, family: Family, spec: BackboneSpec) -> tuple[Route, ...] | list[Problem]:
        key = (cell.routes, cell.selector, id(spec))  # the cache above keeps every spec alive
        if key not in self._routes:
            self._routes[key] = _resolve_routes(cell, family, spec)
        return self._routes[key]


def _validated(values: dict[str, Any]) -> tuple[Cell, list[Problem]]:
    """The cell and its mistakes; where there are some, what is sound of it, so that the rest is checked as well."""
    try:
        return Cell.model_validate(values), []
    except ValidationError as error:
        problems = list(validation_problems(error, Cell))
    wrong = {problem.loc[0] for problem in problems}
    sound = {key: value for key, value in values.items() if key not in wrong}
    if "backbone" in wrong:
        sound["backbone"] = "unknown"
    if "training" in wrong:
        sound["training"] = {"iterations": 1}
        sound.pop("metrics", None)
    if wrong & {"method", "routes"}:
        sound["method"] = "tread" if sound.get("routes") else "dense"
    return Cell.model_validate(sound), problems


def _find_backbone(cell: Cell) -> tuple[Family, BackboneSpec] | list[Problem]:
    """The family and its sizes for the cell's data, or what is wrong with them."""
    try:
        family = cell.backbone.family()
    except ValueError as error:
        return [Problem(str(error), ("backbone", "name"))]
    shape = {key: getattr(cell.data, key) for key in ("image_size", "channels", "num_classes")}
    problems = [
        Problem(f"backbone.{key} {value!r}: the data has {shape[key]}; leave the key out", ("backbone", key))
        for key, value in cell.backbone.sizes.items()
        if key in shape and value != shape[key]
    ]
    try:
        spec = cell.backbone.spec(cell.data)
    except ValidationError as error:
        return [*problems, *validation_problems(error, family.spec, ("backbone",))]
    return problems or (family, spec)


def _resolve_routes(cell: Cell, family: Family, spec: BackboneSpec) -> tuple[Route, ...] | list[Problem]:
    problems = list(_broken(("routes",), resolve_routes, cell.routes, family.num_blocks(spec)))
    if cell.routes:
        problems += _broken(("selector",), family.check_selector, cell.selector)
    problems = problems or list(_broken(("routes",), family.resolve, spec, cell.routes, cell.selector))
    return problems or family.resolve(spec, cell.routes, cell.selector)


def _broken(loc: Loc, rule: Callable[..., object], *values: object) -> Iterator[Problem]:
    try:
        rule(*values)
    except ValueError as error:
        yield Problem(str(error), loc)


def _cell_problems(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """Rules that join several keys of a cell."""
    last, at = cell.training.iterations, cell.metrics.at or ()
    if list(at) != sorted(set(at)) or not all(1 <= iteration <= last for iteration in at):
        message = f"metrics.at {list(at)}: must ascend and lie in 1..{last} (training.iterations)"
        yield Problem(message, draft.latest(("metrics", "at"), ("training", "iterations")))
    method = cell.method.name
    if method == "dense" and cell.routes:
        message = f"method dense takes no routes, here {format_routes(cell.routes)}: set routes: [] or method: tread"
        yield Problem(message, draft.latest(("method",), ("routes",)))
    if method != "dense" and not cell.routes:
        message = f"method {method} needs routes: add them (routes: 2:8@0.5) or set method: dense"
        yield Problem(message, draft.latest(("method",), ("routes",)))
    if cell.selector not in SELECTORS:
        yield Problem(unknown("selector", cell.selector, SELECTORS), ("selector",))
    for key, least in (("kid_subset_size", cell.metrics.kid_subset_size), ("neighbours", cell.metrics.neighbours + 1)):
        if cell.metrics.num_samples < least:
            message = f"metrics.num_samples {cell.metrics.num_samples}: metrics.{key} needs {least} or more; change one"
            yield Problem(message, draft.latest(("metrics", "num_samples"), ("metrics", key)))


def _missing_files(cell: Cell) -> Iterator[Problem]:
    named: list[tuple[Loc, str | None]] = [
        (("metrics", key), getattr(cell.metrics, key)) for key in ("extractor_weights", "inception_weights")
    ]
    if isinstance(cell.data, ParquetData):
        for key, files in (("train", cell.data.train), ("held_out", cell.data.held_out)):
            named += [(("data", key, i), file) for i, file in enumerate(files)]
    for loc, file in named:
        if file is not None and not Path(file).is_file():
            yield Problem(f"no such file: {file}; correct the path, or --set {loc[0]}.{loc[1]}=...", loc)
