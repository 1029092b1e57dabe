"""All rows are checked, and all their mistakes are reported at once; a row stops at its first invalid part."""

from __future__ import annotations

from typing import Any

import pytest

from tests.suite.test_plan import BASE
from tread_bench.core.problems import SuiteError
from tread_bench.suite.files import Look
from tread_bench.suite.load import load_plan

MISTAKES = [  # a row each, and a part of the message
    ({"backbone.dept": 3}, "unknown backbone key 'dept'"),
    ({"backbone.hidden": 30}, "hidden 30 must be a multiple of heads 4"),
    ({"training.bach": 4}, "unknown training key 'bach'"),
    ({"method": "tread", "routes": "9:12@0.5"}, "9:12@0.5"),
    ({"selector": "row"}, "unknown selector 'row'"),
    ({"compute": {}}, "compute is a key of the suite, not of a row: write it"),
    ({"training": {"budget": {"macs_of": "dens"}}}, "unknown trained row 'dens'; did you mean 'dense'?"),
]
OF_THE_SUITE = {
    "seds": (3, "unknown key 'seds'"),
    "timing": ({"pairs": -1}, "timing.pairs -1"),
    "training": ({"iterations": 10}, "training is a key of cells: write it under base"),
}


def messages(rows: dict[str, Any], **keys: Any) -> list[str]:
    """What is reported of a suite with these rows and keys."""
    with pytest.raises(SuiteError) as caught:
        load_plan({"name": "wrong", "base": BASE, "rows": {"dense": {}, **rows}, **keys}, look=Look.NOT_AT_ALL)
    return [problem.message for problem in caught.value.problems]


def test_all_mistakes_of_a_suite_are_reported_at_once_and_each_has_one_message() -> None:
    rows = {f"row-{k}": row for k, (row, _) in enumerate(MISTAKES)}
    told = messages(rows, **{key: value for key, (value, _) in OF_THE_SUITE.items()})
    expected = [words for _, words in (*MISTAKES, *OF_THE_SUITE.values())]
    assert [words for words in expected if not any(words in message for message in told)] == []
    assert len(told) == len(expected)


def test_a_row_stops_at_its_first_invalid_part() -> None:
    network = {"method": "tread", "routes": "2:12@0.5", "backbone.hidden": 30}
    told = messages({"keys": {**network, "method": "tred", "training.batch": 0}, "network": network})
    assert sorted(message.split(" ")[0] for message in told) == ["backbone:", "training.batch", "unknown"]
