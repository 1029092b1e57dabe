"""`plan --json` of a suite with many seeds: every cell in full, and no more work than for one seed."""

from __future__ import annotations

import json

import pytest

from tests.toy_suite import toy_suite, write_suite
from tread_bench.cli.commands.plan import plan as show_plan
from tread_bench.core.config.suite import Cell
from tread_bench.suite.load import load_plan


@pytest.fixture
def suite(tmp_path):
    return str(write_suite(tmp_path, toy_suite(iterations=20, checkpoint_every=5)))


def test_every_cell_has_the_configuration_of_its_row(suite, capsys):
    show_plan(suite, ["seeds=3"], as_json=True)
    text = capsys.readouterr().out
    shown = json.loads(text)
    assert text == json.dumps(shown, indent=2) + "\n"
    assert shown["cells"] == [
        {"cell": cell.id, "row": cell.row, "seed": cell.seed, "config": cell.cell.model_dump(mode="json")}
        for cell in load_plan(suite, ["seeds=3"]).cells
    ]


def test_a_configuration_is_encoded_as_often_for_many_seeds_as_for_one(suite, monkeypatch, capsys):
    dump = Cell.model_dump
    encoded: list[int] = []

    def counted(cell, **options):
        encoded[-1] += 1
        return dump(cell, **options)

    monkeypatch.setattr(Cell, "model_dump", counted)
    for seeds in (1, 30):
        encoded.append(0)
        show_plan(suite, [f"seeds={seeds}"], as_json=True)
        assert capsys.readouterr().out.count('"config"') == 2 * seeds
    assert encoded[0] == encoded[1]
