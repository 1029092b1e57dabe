"""What is to be done for a cell, by what its folder has and what is asked."""

from __future__ import annotations

import pytest

from tests.run_folders import CHOICES, new_folder, put
from tread_bench.core.errors import failure_text
from tread_bench.core.stored.documents import initial_record
from tread_bench.runner.folder import Kept
from tread_bench.runner.items import Todo, work_items
from tread_bench.runner.options import Options
from tread_bench.runner.prepare import write_plan
from tread_bench.runner.shards import Shard
from tread_bench.suite.load import find_suite, load_plan

PLAN = load_plan(find_suite("smoke"), ["seeds=2"])
UNTIMED = load_plan(find_suite("smoke"), ["seeds=2", "timing.pairs=0"])
CELL = PLAN.cells[0]
DIVERGED = failure_text(FloatingPointError("fid is nan"))
RETRY, FRESH, PART = Options(retry_failed=True), Options(fresh=True), Options(shard=Shard(1, 2))


def item(root, asked, plan=PLAN, has_checkpoint=False, **left):
    """Of the first cell, which has `left` documents: status, or the reason of a failure."""
    folder = new_folder(root)
    write_plan(plan, plan.cells, "", folder, CHOICES)
    for name, status in left.items():
        about = {"status": status} if status == "done" else {"reason": status}
        record = initial_record(folder.existing_request(CELL.id), folder.plan(), **about)
        folder.write_record(record, f"{name}.json")
    if has_checkpoint:
        put(folder.cell(CELL.id) / "checkpoints" / "step-000000010.sha256", "here")
    (found,) = (item for item in work_items(plan.cells, plan, folder, asked) if item.cell.id == CELL.id)
    return found.state, found.todo, found.kept


@pytest.mark.parametrize(
    ("asked", "left", "expected"),
    [
        (Options(), {}, ("", Todo.TRAIN, None)),
        (Options(), {"has_checkpoint": True}, ("begun", Todo.TRAIN, None)),
        (Options(), {"outcome": "done"}, ("trained", Todo.FINISH, None)),
        (PART, {"outcome": "done"}, ("trained", Todo.KEEP, None)),
        (Options(), {"outcome": "done", "record": "done"}, ("finished", Todo.FINISH, None)),  # without speed
        (PART, {"outcome": "done", "record": "done"}, ("finished", Todo.KEEP, None)),
        (Options(), {"outcome": "done", "record": "done", "plan": UNTIMED}, ("finished", Todo.KEEP, None)),
        (Options(), {"outcome": "no luck", "record": "no luck"}, ("finished", Todo.KEEP, None)),
        (RETRY, {"outcome": "done", "record": "no luck"}, ("finished", Todo.FINISH, Kept.TRAINING)),
        (RETRY, {"outcome": "no luck", "has_checkpoint": True}, ("trained", Todo.TRAIN, Kept.CHECKPOINTS)),
        (RETRY, {"outcome": "no luck"}, ("trained", Todo.TRAIN, Kept.NOTHING)),
        (RETRY, {"outcome": DIVERGED, "has_checkpoint": True}, ("trained", Todo.TRAIN, Kept.NOTHING)),
        (RETRY, {"outcome": "done", "record": "done", "plan": UNTIMED}, ("finished", Todo.KEEP, None)),
        (FRESH, {"outcome": "done", "record": "done", "plan": UNTIMED}, ("finished", Todo.TRAIN, Kept.NOTHING)),
        (FRESH, {}, ("", Todo.TRAIN, Kept.NOTHING)),
    ],
)
def test_what_is_to_be_done_for_a_cell(tmp_path, asked, left, expected):
    assert item(tmp_path, asked, **left) == expected


def test_pairs_come_seed_by_seed(tmp_path):
    items = work_items(PLAN.cells, PLAN, new_folder(tmp_path), Options())
    assert [item.cell.seed for item in items] == [0, 0, 1, 1] and len({item.cell.id for item in items}) == 4
