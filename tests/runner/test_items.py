"""What is to be done for a cell, by what its folder has and what is asked."""

from __future__ import annotations

import pytest

from tests.fake_executor import Executor
from tests.run_folders import COST, end, figures_of_speed, new_folder, put, quiet, ready
from tread_bench.core.errors import failure_text
from tread_bench.runner.executors.tasks import Ended, Site
from tread_bench.runner.folder import Kept
from tread_bench.runner.items import Todo, work_items
from tread_bench.runner.options import Call, Options, Shard
from tread_bench.runner.speed import complete
from tread_bench.services.display import Lines
from tread_bench.suite.load import find_suite, load_plan

PLAN = load_plan(find_suite("smoke"), ["seeds=2"])
UNTIMED = load_plan(find_suite("smoke"), ["seeds=2", "timing.pairs=0"])
TUNED = load_plan(find_suite("smoke"), ["tune={candidates: [1e-3, 2e-3, 4e-3], seeds: 1}"])
CELL = PLAN.cells[0]
RETRY, FRESH, PART = Options(retry_failed=True), Options(fresh=True), Options(shard=Shard(1, 2))

DONE, TIMED = {}, {"timing": figures_of_speed()}
UNTRAINED = {"status": "failed", "reason": "no luck"}
UNTIMEABLE = {**UNTRAINED, "cost": COST}
DIVERGED = {**UNTRAINED, "reason": failure_text(FloatingPointError("fid is nan"))}


def item(root, asked, record=None, plan=PLAN, has_checkpoint=False):
    """Of the first cell, whose record has some values, if there is one."""
    folder = ready(root, plan)
    if record is not None:
        end(folder, CELL.id, **record)
    if has_checkpoint:
        put(folder.cell(CELL.id) / "checkpoints" / "step-000000010.sha256", "here")
    (found,) = (item for item in work_items(plan.cells, plan, folder, asked) if item.cell.id == CELL.id)
    return found.state, found.todo, found.kept


@pytest.mark.parametrize(
    ("asked", "left", "expected"),
    [
        (Options(), {}, ("", Todo.TRAIN, None)),
        (Options(), {"has_checkpoint": True}, ("begun", Todo.TRAIN, None)),
        (Options(), {"record": DONE}, ("trained", Todo.FINISH, None)),
        (PART, {"record": DONE}, ("trained", Todo.KEEP, None)),
        (Options(), {"record": TIMED}, ("finished", Todo.KEEP, None)),
        (Options(), {"record": DONE, "plan": UNTIMED}, ("finished", Todo.KEEP, None)),
        (Options(), {"record": UNTIMEABLE}, ("finished", Todo.KEEP, None)),
        (RETRY, {"record": UNTIMEABLE}, ("finished", Todo.FINISH, Kept.TRAINING)),
        (RETRY, {"record": UNTRAINED, "has_checkpoint": True}, ("finished", Todo.TRAIN, Kept.CHECKPOINTS)),
        (RETRY, {"record": UNTRAINED}, ("finished", Todo.TRAIN, Kept.NOTHING)),
        (RETRY, {"record": DIVERGED, "has_checkpoint": True}, ("finished", Todo.TRAIN, Kept.NOTHING)),
        (RETRY, {"record": DONE, "plan": UNTIMED}, ("finished", Todo.KEEP, None)),
        (FRESH, {"record": DONE, "plan": UNTIMED}, ("finished", Todo.TRAIN, Kept.NOTHING)),
        (FRESH, {}, ("", Todo.TRAIN, Kept.NOTHING)),
    ],
)
def test_what_is_to_be_done_for_a_cell(tmp_path, asked, left, expected):
    assert item(tmp_path, asked, **left) == expected


def test_a_training_that_chooses_a_learning_rate_is_not_timed(tmp_path):
    cells = TUNED.tuning_cells(TUNED.tuning)
    folder = ready(tmp_path, TUNED, cells=cells)
    for cell in cells:
        end(folder, cell.id)
    found = work_items(cells, TUNED, folder, Options())
    assert [(item.state, item.todo) for item in found] == [("finished", Todo.KEEP)] * len(cells)


def test_a_cell_whose_steps_could_not_be_timed_is_what_training_left_when_it_is_finished_again(tmp_path):
    folder = ready(tmp_path, PLAN)
    end(folder, CELL.id, reason="no equal time", cost=COST)
    trained = folder.record(CELL.id)
    site = Site(Executor(lambda task: Ended(task.key, failure="out of memory")), PLAN.suite.limits, 1, 0)
    complete(PLAN, [(CELL, trained)], Call("", folder, Options(), Lines(quiet)), site)
    failed = folder.record(CELL.id)
    assert (failed.status, failed.reason) == ("failed", "measuring speed and memory: out of memory")
    folder.forget(CELL.id, CELL.row_key, Kept.TRAINING)
    assert folder.record(CELL.id) == trained


def test_pairs_come_seed_by_seed(tmp_path):
    items = work_items(PLAN.cells, PLAN, new_folder(tmp_path), Options())
    assert [item.cell.seed for item in items] == [0, 0, 1, 1] and len({item.cell.id for item in items}) == 4
