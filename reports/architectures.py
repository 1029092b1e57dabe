"""Several architectures in one run: what they and their rows are called, and which may stand side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.comparison import Row


def with_labels(rows: Sequence[Row]) -> list[Row]:
    """The rows with what tells them apart in this run: architecture, routes, selector, name."""
    called = _short_names({row.group.backbone for row in rows})
    several_selectors = len({row.first.selector for row in rows if row.spans}) > 1
    settings = {id(row): _setting(row, several_selectors) for row in rows}
    times = Counter((row.group, settings[id(row)]) for row in rows)
    if len(called) == 1:
        return [replace(row, short_label=_with_name(row, settings[id(row)], several_selectors)) for row in rows]
    return [
        replace(
            row,
            architecture=called[row.group.backbone],
            short_label=setting if times[row.group, setting] == 1 else f"{row.name} ({setting})",
        )
        for row in rows
        for setting in (settings[id(row)],)
    ]


def side_by_side(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows by data, metric protocol and iteration, whatever their architecture; order is kept.

    A group without a finished cell has neither protocol nor iteration and stands with the first of its data.
    """
    sets: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: not row.group.iteration):
        of_its_data = (key for key in sets if key[0] == row.group.data)
        key = (row.group.data, row.group.protocol, row.group.iteration)
        sets.setdefault(key if row.group.iteration else next(of_its_data, key), []).append(row)
    return [sorted(members, key=lambda row: row.group.backbone) for members in sets.values()]


def by_architecture(rows: Iterable[Row]) -> list[list[Row]]:
    """Consecutive rows of one architecture together."""
    return [list(members) for _, members in groupby(rows, lambda row: row.group.backbone)]


def _short_names(backbones: Iterable[str]) -> dict[str, str]:
    """Without the sizes, "DiT" for "DiT (depth 12, hidden 64)", where that is still unique."""
    short = {backbone: backbone.partition(" (")[0] for backbone in backbones}
    times = Counter(short.values())
    return {backbone: name if times[name] == 1 else backbone for backbone, name in short.items()}


def _setting(row: Row, with_selector: bool) -> str:
    """Method and routes, with the selector where selectors differ: "dense", "2:8@0.5 rows"."""
    if not row.spans:
        return row.first.method
    method = "" if row.first.method == "tread" else row.first.method
    return " ".join(filter(None, (method, row.first.routes, row.first.selector if with_selector else "")))


def _with_name(row: Row, setting: str, with_selector: bool) -> str:
    """The row's setting, with the name it goes by where that says more."""
    said = re.split(r"[-_ ]", row.name.removeprefix(f"{row.first.method}-"))
    if row.spans and all(part in setting for part in said):
        return setting
    told = all(f"{first}:{last}" in row.name for first, last in row.spans)
    told = told and (not with_selector or row.first.selector in row.name)
    return row.name if told else f"{row.name} ({setting})"
