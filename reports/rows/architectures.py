"""Several architectures or objectives in one run: what they and their rows are called, and what stands side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from tread_bench.core.config.methods import PLAINLY_DENSE
from tread_bench.reports.rows import requested

if TYPE_CHECKING:
    from tread_bench.reports.rows.row import Row


def with_labels(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with what tells them apart in this run: architecture, method, routes, selector, name, and so
    on.
    """
    settings = _settings(rows)
    architectures = _architectures({_unit(row) for row in rows})

    # Rows of one architecture without schedule, guidance or losses to tell apart: the setting, with the row's name.
    losses = {requested.auxiliary(row.first) for row in rows}
    if (
        len(architectures) == 1 and len(losses) == 1 and not any((*_varied(rows), _tokens_vary(rows)))
    ):  # else names only repeat settings
        return [replace(row, short_label=_with_name(row, setting)) for row, setting in zip(rows, settings, strict=True)]

    # Else the architecture, and the setting, with the row's name where another row has the same.
    times = Counter((row.group, setting) for row, setting in zip(rows, settings, strict=True))
    labelled = []
    for row, setting in zip(rows, settings, strict=True):
        is_unique = times[row.group, setting] == 1 or row.name == setting
        label = setting if is_unique else f"{row.name} ({setting})"
        labelled.append(replace(row, architecture=architectures[_unit(row)], short_label=label))
    return labelled


def side_by_side(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows by data, metric protocol and iteration, whatever their architecture and objective; order is kept.

    A group without a finished cell has neither protocol nor iteration and stands with the first of its data. Rows that
    were only timed stand side by side, by number of tokens: each was timed in turn with its own dense twin.
    """
    timed = [row for row in rows if requested.is_timed_only(row.first)]
    if timed:
        others = side_by_side([row for row in rows if not requested.is_timed_only(row.first)])
        return [*others, sorted(timed, key=lambda row: (_natural(row), row.cost("dense_tokens") or 0))]
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


def short_names(backbones: Iterable[str]) -> dict[str, str]:
    """Without the sizes that all of a name share: "DiT", or "DiT (depth 12)" beside "DiT (depth 6)"."""
    # Name and sizes of each.
    sizes_by_name: dict[str, dict[str, list[str]]] = {}
    for backbone in backbones:
        name, _, text = backbone.partition(" (")
        sizes_by_name.setdefault(name, {})[backbone] = text.removesuffix(")").split(", ") if text else []

    # Sizes that others of the name do not have.
    short = {}
    for name, sizes_by_backbone in sizes_by_name.items():
        shared = set.intersection(*map(set, sizes_by_backbone.values()))
        for backbone, sizes in sizes_by_backbone.items():
            own = ", ".join(size for size in sizes if size not in shared)
            short[backbone] = f"{name} ({own})" if own else name
    return short


def _settings(rows: Sequence[Row]) -> list[str]:
    """What each row requested, as far as it tells some of them apart: "dense", "2:8@0.5 rows, cfg at 2"."""
    selectors = {row.first.selector for row in rows if row.spans}
    routed = [row.first for row in rows if row.first.routes]
    is_one_plain_method = len({record.method for record in routed}) == 1 and requested.is_plain_routing(routed[0])
    schedules_vary, guidance_varies = _varied(rows)
    tokens_vary = _tokens_vary(rows)
    settings = []
    for row in rows:
        parts = [_trained(row, with_selector=len(selectors) > 1, with_method=not is_one_plain_method)]
        if schedules_vary:
            parts.append(requested.scheduled(row.first))
        if guidance_varies:
            parts.append(requested.guided(row.first))
        tokens = row.cost("dense_tokens")
        if tokens_vary and tokens:
            parts.append(f"{tokens:,} tokens")
        settings.append(", ".join([parts[0], *filter(None, parts[1:])]))
    return settings


def _varied(rows: Sequence[Row]) -> tuple[bool, bool]:
    """Whether rows differ in their schedule, and in their guidance."""
    schedules = {requested.scheduled(row.first) for row in rows}
    guidances = {requested.guided(row.first) for row in rows}
    return len(schedules) > 1, len(guidances) > 1


def _tokens_vary(rows: Sequence[Row]) -> bool:
    """Whether rows that were only timed have different numbers of tokens."""
    are_timed = all(requested.is_timed_only(row.first) for row in rows)
    return are_timed and len({row.cost("dense_tokens") for row in rows} - {None}) > 1


def _trained(row: Row, with_selector: bool, with_method: bool) -> str:
    """Method and routes, with the losses that are added."""
    parts = []
    if with_method or not row.spans:
        parts.append(row.first.method)
    if row.first.routes:
        parts.append(row.first.routes)
    if with_selector and row.spans:
        parts.append(row.first.selector)
    losses = requested.auxiliary(row.first)
    return " ".join(parts) + (f" + {losses}" if losses else "")


def _with_name(row: Row, setting: str) -> str:
    """The row's setting, with the name it goes by where that says more."""
    # A name that says no more than the setting.
    name_parts = re.split(r"[-_+ ]+", row.name.removeprefix(f"{row.first.method}-"))
    if setting != PLAINLY_DENSE.name and all(part in f"{row.first.method} {setting}" for part in name_parts):
        return setting

    # A name that says all of the setting but the rates.
    setting_parts = re.findall(r"[^\s,+]+", re.sub(r"@[\d.]+", "", setting))
    if setting == PLAINLY_DENSE.name or all(part in row.name for part in setting_parts):
        return row.name
    return f"{row.name} ({setting})"
