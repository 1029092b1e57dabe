"""`plan --json` has every cell in full."""

from __future__ import annotations

import json

from tests.toy_suite import toy_suite, write_suite
from tread_bench.cli.commands.plan import plan as show_plan
from tread_bench.suite.load import load_plan


def test_every_cell_has_the_configuration_of_its_row(tmp_path, capsys):
    suite = str(write_suite(tmp_path, toy_suite(iterations=20, checkpoint_every=5)))
    show_plan(suite, ["seeds=3"], as_json=True)
    text = capsys.readouterr().out
    shown = json.loads(text)
    assert text == json.dumps(shown, indent=2) + "\n"
    assert shown["cells"] == [
        {"cell": cell.id, "row": cell.row, "seed": cell.seed, "config": cell.cell.model_dump(mode="json")}
        for cell in load_plan(suite, ["seeds=3"]).cells
    ]
