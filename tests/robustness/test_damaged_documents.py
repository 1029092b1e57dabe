"""Every field of every stored document with hostile values: one message that names file and field, and the other rows
stay as they are.
"""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import pytest

from tests.json_places import HALF, KINDS, NAN, UNFIT, changed, fields
from tread_bench.cli.commands.check import check
from tread_bench.cli.commands.clean import clean
from tread_bench.cli.commands.status import status_of
from tread_bench.core.errors import UserError
from tread_bench.reports.page.run import render
from tread_bench.runner.folder import RunFolder
from tread_bench.services.samples import find_cell

STORED = Path(__file__).parents[1] / "stored"


@pytest.fixture
def folder(tmp_path):
    """Two finished cells, a row each, with the timing of the first."""
    record, plan, about = (json.loads((STORED / f"{name}.json").read_text()) for name in ("record", "plan", "cell"))
    cells = plan["cells"]
    for cell, row in zip(cells, ("dense", "tread-1:2"), strict=True):
        place = tmp_path / "run" / "cells" / cell
        (place / "checkpoints").mkdir(parents=True)
        for name, content in (("record", record), ("cell", about)):
            write(place / f"{name}.json", {**content, "cell": cell, "row": row})
        (place / "checkpoints" / "step-000000004.safetensors").write_text("weights")
    write(tmp_path / "run" / "plan.json", plan)
    asked = {"timing": plan["timing"], "conditions": record["conditions"]}
    timing = {
        "row_key": cells[1].rpartition("-")[2],
        "asked": asked,
        "timing": record["timing"],
        "conditions": record["conditions"],
    }
    folder = RunFolder(tmp_path / "run")
    write(folder.timing_path(cells[1].rpartition("-")[2]), timing)
    return folder


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def documents(folder):
    cell = folder.plan().cells[1]
    names = ("record.json", "cell.json")
    own = [folder.cell(cell) / name for name in names]
    return [*own, folder.timing_path(cell.rpartition("-")[2]), folder.plan_path]


def readers(folder):
    """What commands do with a run folder before they need torch; each ends, or raises a UserError."""
    first, second = (json.loads((STORED / "plan.json").read_text()))["cells"]
    baseline = folder.root.parent / "baseline.json"
    return {
        "status": lambda: status_of(folder),
        "check": lambda: check(folder.root, baseline, True),
        "clean": lambda: clean(folder.root, False),
        "sample": lambda: find_cell(folder, second, None),
        "run": lambda: [folder.records({first: "", second: ""}), folder.timing(second.rpartition("-")[2])],
    }


def messages_of(readers):
    """What each of them says; anything but a UserError is a traceback."""
    told = {}
    for name, read in readers.items():
        try:
            read()
            told[name] = ""
        except UserError as error:
            told[name] = str(error)
    return told


def check_mutation(folder, readers, path, whole, at, value):
    field = ".".join(map(str, at))
    write(path, changed(whole, at, value))
    told = messages_of(readers)
    message = told["status"] if path == folder.plan_path else told["run"]
    if path.name == "cell.json":
        message = told["sample"]
    if any(value is unfit for unfit in UNFIT):
        assert f"{path} cannot be read as JSON (" in message, (path.name, field, value, told)
    # Whatever is said can be shown, and names the cell.
    for said in told.values():
        assert said.isprintable() or "\n" in said
    assert all(str(path.parent) in said for name, said in told.items() if said and name != "sample"), told
    return bool(message)


def test_some_fields_of_every_document_with_values_that_none_may_have_and_those_of_other_kinds(folder):
    refused, every_reader = 0, readers(folder)
    for path in documents(folder):
        whole = json.loads(path.read_text())
        mutations = list(product(fields(whole), (*UNFIT, *KINDS)))
        for at, value in random.Random(0).sample(mutations, 20):
            refused += check_mutation(folder, every_reader, path, whole, at, value)
        write(path, whole)
    assert refused > 60


RAGGED = (
    ("cost.forward_macs", 0),
    ("timing.step_times_ms", []),
    ("evaluations.0.fid", NAN),
    ("config.training", "text"),
    ("routes", "1:90"),
    ("seed", True),
    ("reason", HALF),
)


@pytest.mark.parametrize(("field", "value"), RAGGED, ids=[f"{field} {value!r}" for field, value in RAGGED])
def test_a_damaged_record_costs_its_own_row_only(folder, field, value):
    first, second = folder.plan().cells
    path = folder.cell(second) / "record.json"
    whole = json.loads(path.read_text())
    at = tuple(int(key) if key.isdecimal() else key for key in field.split("."))
    write(path, changed(whole, at, value))
    records, unreadable = folder.readable_records(folder.plan().references)
    assert [record.cell for record in records] == [first]
    assert list(unreadable) == [second]
    assert str(path) in unreadable[second]
    assert at[0] in unreadable[second] or "cannot be read as JSON (" in unreadable[second]
    states = {cell.cell: cell.state for cell in status_of(folder).cells}
    assert states == {first: "done", second: "unreadable"}
    assert second not in {path.parent.parent.name for path in folder.removable()}


def test_the_page_of_a_run_with_a_damaged_record_names_it(folder):
    _, second = folder.plan().cells
    path = folder.cell(second) / "record.json"
    write(path, changed(json.loads(path.read_text()), ("evaluations", 0, "fid"), "text"))
    records, unreadable = folder.readable_records(folder.plan().references)
    render(records, folder.plan(), folder.root, unreadable)
    page = (folder.root / "index.html").read_text()
    assert "evaluations.0.fid &#39;text&#39;: must be a valid number" in page
