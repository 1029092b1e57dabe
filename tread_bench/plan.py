"""From a suite to its cells: validated against their backbones, resolved and named. No torch, no training."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tread_bench.config import Cell, Suite
from tread_bench.layers import draft_rows
from tread_bench.records import CostFigures
from tread_bench.registry import BackboneSpec, Family
from tread_bench.resolve import Resolved, Resolver
from tread_bench.routes import Route, format_routes
from tread_bench.suite_errors import Loc, Problem, SuiteError

CHECKPOINTS_KEPT = 2


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
    """A suite and its cells: rows in the order of the suite, the seeds of a row side by side."""

    suite: Suite
    cells: tuple[PlannedCell, ...]

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


def digest(text: str) -> str:
    """The first ten hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def expand(suite: Suite, *, check_files: bool = True) -> Plan:
    """Every cell of a suite, validated against its backbone.

    Args:
        check_files: data and weight files that are not there are mistakes.

    Raises:
        SuiteError: all mistakes of all cells, each once, with their location in the suite.
    """
    problems: list[Problem] = []
    resolver = Resolver(check_files)
    compute = suite.compute.model_dump(mode="json")
    rows = []
    for name, loc, draft in draft_rows(suite, problems):
        resolved = resolver.resolve(draft)
        if isinstance(resolved, list):
            problems += resolved
        else:
            rows.append(_Row.of(name, loc, resolved, compute))
    problems += _repeated(rows)
    if problems:
        raise SuiteError(problems)
    references = {row.comparison_key: row for row in reversed(rows) if row.resolved.cell.method.name == "dense"}
    return Plan(suite, tuple(cell for row in rows for cell in row.planned(suite.seeds, references)))


@dataclass(frozen=True)
class _Row:
    """All cells of one row: everything but the seed."""

    name: str
    loc: Loc
    resolved: Resolved
    key: str  # of the resolved cell and the numerical choices
    architecture_key: str
    comparison_key: tuple[str, str]  # of all but method, routes and selector

    @classmethod
    def of(cls, name: str, loc: Loc, resolved: Resolved, compute: Mapping[str, Any]) -> _Row:
        key = digest(canonical_json([resolved.cell.model_dump(mode="json"), compute]))
        architecture = digest(f"{resolved.family.name} {resolved.spec.model_dump_json()}")
        shared = resolved.cell.model_dump_json(exclude={"backbone", "method", "routes", "selector"})
        return cls(name, loc, resolved, key, architecture, (architecture, shared))

    def id(self, seed: int) -> str:
        slug = re.sub(r"[^a-z0-9_.]+", "-", self.name.lower())[:48].strip("-_.")
        return f"{slug}-s{seed}-{self.key}"

    def planned(self, seeds: Iterable[int], references: Mapping[tuple[str, str], _Row]) -> Iterator[PlannedCell]:
        reference = references.get(self.comparison_key)
        cell, family, spec = self.resolved
        for seed in seeds:
            yield PlannedCell(
                id=self.id(seed),
                row=self.name,
                seed=seed,
                cell=cell,
                family=family,
                spec=spec,
                routes=cell.routes,
                reference=reference.id(seed) if reference else "",
                architecture_key=self.architecture_key,
                row_key=self.key,
            )


def _repeated(rows: Iterable[_Row]) -> Iterator[Problem]:
    """Rows that would train the same cells again, or that share a name."""
    by_key: dict[str, _Row] = {}
    names: set[str] = set()
    for row in rows:
        first = by_key.setdefault(row.key, row)
        if first is not row:
            message = f"row {row.name!r} has the same cells as row {first.name!r}: change one of them or remove it"
            yield Problem(message, row.loc, at_key=True)
        elif row.name in names:
            yield Problem(f"two rows are called {row.name!r}: rename one", row.loc, at_key=True)
        names.add(row.name)


def plan_table(plan: Plan, cost_figures: Callable[..., CostFigures]) -> list[dict[str, Any]]:
    """What each row of a plan costs, without training: one JSON-able mapping per row.

    MACs are those of one image, `train_step_macs` of forward and backward; `ideal_speedup` is dense over routed forward
    MACs; `disk_bytes` is the most that the row's cells keep: two checkpoints (weights, average and both Adam moments
    in float32) and the 8-bit samples of every evaluation.

    Args:
        cost_figures: (family, spec, routes, selector) -> CostFigures, as `costs.cost_figures`, which stands above.
    """
    return [_costs(cells, cost_figures) for cells in plan.rows.values()]


def _costs(cells: list[PlannedCell], cost_figures: Callable[..., CostFigures]) -> dict[str, Any]:
    first = cells[0]
    cost = cost_figures(first.family, first.spec, first.routes, first.cell.selector)
    return {
        "row": first.row,
        "cells": len(cells),
        "backbone": first.cell.backbone.label,
        "method": first.cell.method.name,
        "routes": format_routes(first.routes),
        "params": cost.params,
        "forward_macs": cost.forward_macs,
        "train_step_macs": cost.train_step_macs,
        "tokens_per_block": cost.tokens_per_block,
        "ideal_speedup": cost.ideal_speedup,
        "disk_bytes": len(cells) * _disk_bytes(first, cost.params),
    }


def _disk_bytes(planned: PlannedCell, params: int) -> int:
    metrics, spec = planned.cell.metrics, planned.spec
    samples = len(metrics.at or ()) * metrics.num_samples * spec.channels * spec.image_size**2
    return CHECKPOINTS_KEPT * 4 * params * 4 + samples
