"""Several architectures or objectives in one run: what they and their rows are called, and what stands side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from tread_bench.reports import asked

if TYPE_CHECKING:
    from tread_bench.reports.comparison import Row


def with_labels(rows: Sequence[Row]) -> list[Row]:
    """The rows with what tells them apart in this run: architecture, method, routes, selector, name, and so on."""
    called = _called({_unit(row) for row in rows})
    settings = {id(row): setting for row, setting in zip(rows, _settings(rows), strict=True)}
    times = Counter((row.group, settings[id(row)]) for row in rows)
    added = {asked.auxiliary(row.first) for row in rows}
    has_traits = len(added) > 1 or any(len(set(column)) > 1 for column in zip(*map(_traits, rows), strict=True))
    if len(called) == 1 and not has_traits:  # else names only repeat settings
        return [replace(row, short_label=_with_name(row, settings[id(row)])) for row in rows]
    return [
        replace(
            row,
            architecture=called[_unit(row)],
            short_label=setting if times[row.group, setting] == 1 or row.name == setting else f"{row.name} ({setting})",
        )
        for row in rows
        for setting in (settings[id(row)],)
    ]


def side_by_side(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows by data, metric protocol and iteration, whatever their architecture and objective; order is kept.

    A group without a finished cell has neither protocol nor iteration and stands with the first of its data.
    """
    sets: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: not row.group.iteration):
        key = (row.group.data, row.group.protocol, row.group.iteration)
        alike = (other for other in sets if other[0] == key[0])
        sets.setdefault(key if row.group.iteration else next(alike, key), []).append(row)
    return [sorted(members, key=_natural) for members in sets.values()]


def by_architecture(rows: Iterable[Row]) -> list[list[Row]]:
    """Consecutive rows of one architecture and objective together: what has a dense row of its own."""
    return [list(members) for _, members in groupby(rows, _unit)]


def what_differs(rows: Iterable[Row]) -> str:
    """Whether the rows are of several architectures, else of several objectives, else of one: then ""."""
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


def _called(units: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Of backbone and objective that which differs."""
    backbones, objectives = (short_names(set(names)) for names in zip(*units, strict=True)) if units else ({}, {})
    return {
        unit: " ".join(
            called[name] for called, name in zip((backbones, objectives), unit, strict=True) if len(called) > 1
        )
        for unit in units
    }


def short_names(backbones: Iterable[str]) -> dict[str, str]:
    """Without the sizes that all of a name share: "DiT", or "DiT (depth 12)" beside "DiT (depth 6)"."""
    named: dict[str, dict[str, list[str]]] = {}
    for backbone in backbones:
        name, _, sizes = backbone.partition(" (")
        named.setdefault(name, {})[backbone] = sizes.removesuffix(")").split(", ") if sizes else []
    return {backbone: short for name, sized in named.items() for backbone, short in _with_sizes(name, sized)}


def _with_sizes(name: str, sized: dict[str, list[str]]) -> Iterable[tuple[str, str]]:
    shared = set.intersection(*map(set, sized.values()))
    for backbone, sizes in sized.items():
        own = ", ".join(size for size in sizes if size not in shared)
        yield backbone, f"{name} ({own})" if own else name


def _settings(rows: Sequence[Row]) -> list[str]:
    """What was asked of every row, of which only what tells some of them apart: "dense", "2:8@0.5 rows, cfg at 2"."""
    selectors = {row.first.selector for row in rows if row.spans}
    methods = {row.first.method for row in rows if row.first.method != "dense"}
    traits = [_traits(row) for row in rows]
    varied = [len(set(column)) > 1 for column in zip(*traits, strict=True)]
    told = [[trait for trait, differs in zip(own, varied, strict=True) if differs and trait] for own in traits]
    return [
        ", ".join([_trained(row, len(selectors) > 1, methods != {"tread"}), *own])
        for row, own in zip(rows, told, strict=True)
    ]


def _traits(row: Row) -> tuple[str, ...]:
    """What is told where rows differ in it."""
    return asked.scheduled(row.first), asked.guided(row.first)


def _trained(row: Row, with_selector: bool, with_method: bool) -> str:
    """Method and routes, with the losses that are added."""
    is_named = with_method or not row.spans
    parts = (
        row.first.method if is_named or row.first.method != "tread" else "",
        row.first.routes,
        row.first.selector if with_selector and row.spans else "",
    )
    added = asked.auxiliary(row.first)
    return " ".join(filter(None, parts)) + (f" + {added}" if added else "")


def _with_name(row: Row, setting: str) -> str:
    """The row's setting, with the name it goes by where that says more."""
    said = re.split(r"[-_+ ]+", row.name.removeprefix(f"{row.first.method}-"))
    if setting != "dense" and all(part in f"{row.first.method} {setting}" for part in said):
        return setting
    asked_for = re.findall(r"[^\s,+]+", re.sub(r"@[\d.]+", "", setting))
    is_told = setting == "dense" or all(word in row.name for word in asked_for)
    return row.name if is_told else f"{row.name} ({setting})"
