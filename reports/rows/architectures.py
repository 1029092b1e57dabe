"""Several architectures or objectives in one run: what they and their rows are called, and what stands side by side."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from tread_bench.reports.rows import requested

if TYPE_CHECKING:
    from tread_bench.reports.rows.row import Group, Row


def with_labels(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with what each is called beside others of its architecture: its name in the suite.

    Where several architectures stand side by side it is the name without the settings of a matrix, as far as these only
    name the architecture.
    """
    labelled: dict[int, Row] = {}
    for members in side_by_side(rows):
        architectures = _architectures({_unit(row) for row in members})
        is_one = len(architectures) == 1
        times = Counter((_unit(row), row.stem) for row in members)
        for row in members:
            label = row.name if is_one or times[_unit(row), row.stem] > 1 else row.stem
            labelled[id(row)] = replace(row, architecture=architectures[_unit(row)], short_label=label)
    return [labelled[id(row)] for row in rows]


def side_by_side(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows by data, start, metric protocol and iteration, whatever their architecture and objective; order
    is kept, except that rows with no other of their architecture beside them come last.

    A group without a finished cell has neither protocol nor iteration and stands with the first of its data. Rows that
    were only timed stand side by side, by number of tokens: each was timed in turn with its own dense twin.
    """
    timed = [row for row in rows if requested.is_timed_only(row.first)]
    if timed:
        others = side_by_side([row for row in rows if not requested.is_timed_only(row.first)])
        return [*others, sorted(timed, key=lambda row: (_natural(row), row.cost("dense_tokens") or 0))]
    sets: dict[tuple[tuple[str, str], str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: not row.group.iteration):
        key = ((row.group.data, row.group.start), row.group.protocol, row.group.iteration)
        alike = (other for other in sets if other[0] == key[0])
        sets.setdefault(key if row.group.iteration else next(alike, key), []).append(row)
    found = [sorted(members, key=_natural) for members in sets.values()]
    return sorted(found, key=lambda members: len({_unit(row) for row in members}) == len(members))


def told_apart(groups: Sequence[Group]) -> list[str]:
    """Return what each group is called beside the others: "" alone, else by as few facts as tell all of them apart."""
    backbones, objectives, data = (
        short_names(texts)
        for texts in (
            {group.backbone for group in groups},
            {group.objective for group in groups},
            {_data_text(group.data) for group in groups},
        )
    )
    facts = (
        [backbones[group.backbone] for group in groups],
        [objectives[group.objective] for group in groups],
        [data[_data_text(group.data)] for group in groups],
        [f"from {group.start}" if group.start else "from drawn weights" for group in groups],
        [f"iteration {group.iteration:,}" if group.iteration else "without an evaluation" for group in groups],
        [f"protocol {group.protocol}" for group in groups],
    )
    names = [""] * len(groups)
    for of_each in facts:
        if len({*names}) < len(groups) and len({*of_each}) > 1:
            names = [f"{name}, {fact}" if name else fact for name, fact in zip(names, of_each, strict=True)]
    return names


def _data_text(data: str) -> str:
    """A data source's settings as those of an architecture are written: "glyphs (image_size 32)"."""
    settings = json.loads(data)
    name = settings.pop("name", "")
    each = []
    for key, value in settings.items():
        shown = " ".join(map(str, value)) if isinstance(value, list) else f"{value}".replace(", ", " ")
        each.append(f"{key} {shown}")
    return f"{name} ({', '.join(each)})" if each else name


def by_architecture(rows: Iterable[Row]) -> list[list[Row]]:
    """Consecutive rows of one architecture and objective together: what has a dense row of its own."""
    return [list(members) for _, members in groupby(rows, _unit)]


def name_of(row: Row) -> str:
    """Return what its architecture is called, also where it is the only one."""
    return row.architecture or row.group.backbone


def what_differs(rows: Iterable[Row]) -> str:
    """Return whether the rows are of several architectures, else of several objectives, else of one: then ""."""
    units = {_unit(row) for row in rows}
    if len({backbone for backbone, _ in units}) > 1:
        return "architecture"
    return "objective" if len(units) > 1 else ""


def _unit(row: Row) -> tuple[str, str]:
    return row.group.backbone, row.group.objective


def _natural(row: Row) -> list[tuple[int, str]]:
    """Numbers in names by their size: a depth of 6 comes before one of 12."""
    parts = re.split(r"(\d+)", " ".join(_unit(row)))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _architectures(units: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """What each unit is called: of backbone and objective that which differs."""
    backbones = short_names({backbone for backbone, _ in units})
    objectives = short_names({objective for _, objective in units})
    named = {}
    for backbone, objective in units:
        parts = []
        if len(backbones) > 1:
            parts.append(backbones[backbone])
        if len(objectives) > 1:
            parts.append(objectives[objective])
        named[backbone, objective] = " ".join(parts)
    return named


def name_and_sizes(backbone: str) -> tuple[str, list[str]]:
    """Take "DiT (depth 12, attention linear)" apart: the family or published name, and the settings beside it."""
    name, _, text = backbone.partition(" (")
    return name, text.removesuffix(")").split(", ") if text else []


def short_names(backbones: Iterable[str]) -> dict[str, str]:
    """Without the sizes that all of a name share: "DiT", or "DiT (depth 12)" beside "DiT (depth 6)"."""
    # Name and sizes of each.
    sizes_by_name: dict[str, dict[str, list[str]]] = {}
    for backbone in backbones:
        name, sizes = name_and_sizes(backbone)
        sizes_by_name.setdefault(name, {})[backbone] = sizes

    # Sizes that others of the name do not have.
    short = {}
    for name, sizes_by_backbone in sizes_by_name.items():
        shared = set.intersection(*map(set, sizes_by_backbone.values()))
        for backbone, sizes in sizes_by_backbone.items():
            own = ", ".join(size for size in sizes if size not in shared)
            short[backbone] = f"{name} ({own})" if own else name
    return short
