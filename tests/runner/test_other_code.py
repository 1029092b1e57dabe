"""A run whose plug-ins have changed since it was begun."""

from __future__ import annotations

import pytest

from tests.run_folders import CHOICES, new_folder, put
from tread_bench.core.stored.files import StoreError
from tread_bench.core.stored.initial_record import initial_record
from tread_bench.runner import prepare
from tread_bench.runner.folder import Kept
from tread_bench.runner.prepare import refuse_other_code, write_plan
from tread_bench.suite.load import find_suite, load_plan

SMOKE = load_plan(find_suite("smoke"), [])
ROUTED = next(cell for cell in SMOKE.cells if cell.row != "dense")
OLD, NEW = ({"fill": f"fill 1 sha256:{digit}"} for digit in "ab")


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A run of which one row uses a plug-in, begun with its old code; this one has changed since."""
    begin = {row: dict(OLD) if row == ROUTED.row_key else {} for row in {cell.row_key for cell in SMOKE.cells}}
    monkeypatch.setattr(prepare, "code_by_row", lambda cells: {row: begin[row] for row in cells})
    folder = new_folder(tmp_path)
    write_plan(SMOKE, SMOKE.cells, "", folder, CHOICES)
    begin[ROUTED.row_key] = NEW
    return folder


def left(folder, status=None, trained=None, checkpoint=False):
    """What stays of the cell: a record, what training left, a checkpoint."""
    for name, outcome in (("record.json", status), ("outcome.json", trained)):
        if outcome is not None:
            record = initial_record(folder.existing_request(ROUTED.id), folder.existing_plan(), status=outcome)
            folder.write_record(record, name)
    if checkpoint:
        put(folder.cell(ROUTED.id) / "checkpoints" / "step-2.sha256", "")


def refused(folder, forgotten=None):
    try:
        refuse_other_code(SMOKE.cells, folder, {ROUTED.id: forgotten} if forgotten else {})
    except StoreError as error:
        return str(error)
    return ""


def test_each_cell_is_begun_with_the_code_that_it_uses_and_the_plan_has_all_of_it(begun):
    assert begun.existing_request(ROUTED.id).plugins == begun.existing_plan().plugins == OLD
    assert {tuple(begun.existing_request(cell.id).plugins) for cell in SMOKE.cells} == {(), ("fill",)}


def test_what_other_code_has_made_is_named_with_both_and_every_way_out(begun):
    left(begun, "done", "done")
    told = refused(begun)
    assert "code of fill was 'fill 1 sha256:a', is 'fill 1 sha256:b'" in told
    assert f"--fresh --rows {ROUTED.row}," in told and "--accept-other-numerics" in told and "--out" in told


@pytest.mark.parametrize(
    ("stays", "forgotten", "is_refused"),
    [
        ({"status": "done", "trained": "done"}, Kept.NOTHING, False),  # --fresh
        ({"status": "failed", "trained": "failed"}, None, False),  # it has no figure
        ({"status": "failed", "trained": "failed"}, Kept.NOTHING, False),
        ({"status": "failed", "trained": "failed", "checkpoint": True}, Kept.CHECKPOINTS, True),
        ({"status": "failed", "trained": "done"}, Kept.TRAINING, True),  # only its timing is repeated
        ({"trained": "done"}, None, True),
        ({"checkpoint": True}, None, True),
        ({}, None, False),  # begun, and nothing kept
    ],
)
def test_other_code_is_refused_where_something_that_the_old_one_made_stays(begun, stays, forgotten, is_refused):
    left(begun, **stays)
    assert bool(refused(begun, forgotten)) == is_refused


def test_the_plan_keeps_the_code_of_cells_that_are_not_begun_again(begun):
    dense = [cell for cell in SMOKE.cells if cell.row == "dense"]
    write_plan(SMOKE, dense, "", begun, CHOICES)
    assert begun.existing_plan().plugins == OLD
    write_plan(SMOKE, [ROUTED], "", begun, CHOICES)
    assert begun.existing_plan().plugins == NEW
