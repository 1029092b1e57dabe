"""All mistakes are reported together; what needs a whole cell is checked of rows without a mistake in their keys."""

from __future__ import annotations

import copy
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tread_bench.core.problems import SuiteError
from tread_bench.suite.files import Look
from tread_bench.suite.load import load_plan

SOUND: dict[str, Any] = {
    "name": "sound",
    "seeds": 2,
    "base": {
        "backbone": {"name": "DiT", "depth": 4, "hidden": 32, "heads": 4, "patch": 2},
        "data": "digits",
        "training": {"iterations": 10, "batch": 4},
        "metrics": {"num_samples": 256},
    },
    "rows": {"dense": {}, "routed": {"method": "tread", "routes": "1:2@0.5"}},
    "timing": {"pairs": 2},
}

# What is written where, and a part of the message.
MISTAKES: dict[str, tuple[tuple[str, ...], object, str]] = {
    "a key of the backbone": (("base", "backbone", "dept"), 3, "unknown backbone key 'dept'"),
    "sizes that do not divide": (("base", "backbone", "hidden"), 30, "hidden 30 must be a multiple of heads 4"),
    "data": (("base", "data"), "digitz", "unknown data 'digitz'"),
    "a key of the training": (("base", "training", "bach"), 4, "unknown training key 'bach'"),
    "a number": (("base", "training", "label_dropout"), 2, "training.label_dropout 2"),
    "a key of the metrics": (("base", "metrics", "num_sample"), 4, "unknown metrics key 'num_sample'"),
    "an objective": (("base", "objective"), "flw", "unknown objective 'flw'"),
    "a sampler": (("base", "sampling"), {"sampler": "eulr"}, "'eulr'"),
    "a loss": (("base", "auxiliary"), [{"name": "repaa"}], "'repaa'"),
    "a key of the cell": (("base", "schedul"), {}, "unknown key 'schedul'"),
    "a key of the suite": (("seds",), 3, "unknown key 'seds'"),
    "the timing": (("timing", "pairs"), -1, "timing.pairs -1"),
    "a method": (("rows", "routed", "method"), "trad", "unknown method 'trad'"),
    "a key of a row": (("rows", "dense", "selectr"), "rows", "'selectr'"),
    "a route": (("rows", "routed", "routes"), "9:12@0.5", "9:12@0.5"),
    "a selector": (("rows", "routed", "selector"), "row", "unknown selector 'row'"),
}
NEED_A_CELL = ("a key of the backbone", "sizes that do not divide", "a route", "a selector")
OF_THE_SUITE = ("a key of the suite", "the timing")


def rows_of(mistake: str) -> set[str]:
    """The rows that have the mistake."""
    at = MISTAKES[mistake][0]
    return {at[1]} if at[0] == "rows" else {"dense", "routed"}


def messages(folder: Path, *mistakes: str) -> str:
    """What is reported of a suite with these mistakes."""
    suite = copy.deepcopy(SOUND)
    for mistake in mistakes:
        at, value, _ = MISTAKES[mistake]
        holder = suite
        for key in at[:-1]:
            holder = holder[key]
        holder[at[-1]] = value
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(suite))
    with pytest.raises(SuiteError) as caught:
        load_plan(path, look=Look.NOT_AT_ALL)
    return str(caught.value)


def test_each_mistake_is_reported_beside_each_other_one(tmp_path: Path) -> None:
    hidden = set()
    for pair in [*((one,) for one in MISTAKES), *combinations(MISTAKES, 2)]:
        told = messages(tmp_path, *pair)
        hidden |= {(one, "beside", pair) for one in pair if MISTAKES[one][2] not in told}
    expected = set()
    for pair in combinations(MISTAKES, 2):
        for one, other in (pair, pair[::-1]):
            is_of_a_key = other not in (*NEED_A_CELL, *OF_THE_SUITE)
            if one in NEED_A_CELL and is_of_a_key and rows_of(one) <= rows_of(other):
                expected.add((one, "beside", pair))
    of_the_blocks = ("a key of the backbone", "sizes that do not divide")  # which a route's numbers depend on
    expected |= {("a route", "beside", (other, "a route")) for other in of_the_blocks}
    expected.add(("sizes that do not divide", "beside", of_the_blocks))
    assert hidden == expected


def test_all_of_them_are_reported_at_once(tmp_path: Path) -> None:
    told = messages(tmp_path, *MISTAKES)
    assert {one for one in MISTAKES if MISTAKES[one][2] not in told} == {*NEED_A_CELL}
    told = messages(tmp_path, *NEED_A_CELL, *OF_THE_SUITE)
    assert {one for one in NEED_A_CELL if MISTAKES[one][2] not in told} == {"sizes that do not divide", "a route"}


def test_a_misspelt_method_has_one_message(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    rows = {"routed": {"methd": "tread", "routes": "1:2@0.5"}}
    path.write_text(yaml.safe_dump({**SOUND, "rows": rows}))
    with pytest.raises(SuiteError) as caught:
        load_plan(path, look=Look.NOT_AT_ALL)
    assert [one.message.split(";")[0] for one in caught.value.problems] == ["unknown key 'methd'"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"base": {**SOUND["base"], "compute": {}}},
            "compute is a key of the suite, not of a row: write it",
        ),
        ({"training": {"iterations": 10}}, "training is a key of cells: write it under base, or in a row"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_where_it_belongs(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump({**SOUND, **changed}))
    with pytest.raises(SuiteError, match=told):
        load_plan(path, look=Look.NOT_AT_ALL)
