"""What a runner makes of how its tasks end, with an executor that ends them as is wanted."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from contextlib import ExitStack
from io import StringIO

import pytest
from rich.console import Console

from tests.fake_executor import NUMERICS, Executor
from tests.run_folders import quiet, ready
from tests.toy_suite import no_figures
from tread_bench.core.errors import UserError
from tread_bench.core.stored.conditions import Conditions
from tread_bench.core.stored.documents import MeasuredMemory, MeasuredSpeed, initial_record
from tread_bench.core.stored.files import StoreError
from tread_bench.runner import prepare as preparation
from tread_bench.runner import runner
from tread_bench.runner.executors.tasks import Ended
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Call, Options
from tread_bench.services.display import Bars, CountedLines, Lines
from tread_bench.suite.load import find_suite, load_plan


def done(folder: RunFolder, key: str, **fields: object) -> Ended:
    """A cell's good end, which leaves its record to the runner."""
    return Ended(key, value=initial_record(folder.existing_request(key), folder.plan(), status="done", **fields))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the smoke suite with an executor that ends tasks by `end`; the result and the folder."""

    def do(end, *settings: str, told: list[str] | None = None, **options: object):
        monkeypatch.setattr(preparation, "executor_named", lambda *_: Executor(end))
        plan = load_plan(find_suite("smoke"), ["seeds=1", *settings])
        lines = [] if told is None else told
        display = Lines(lambda text, **style: lines.append(text))
        folder = RunFolder(tmp_path)
        return runner.run(plan, Call("", folder, Options(**options), display)), folder

    return do


def test_a_disk_that_a_cell_cannot_write_to_ends_the_run_and_no_cell_has_failed(run, tmp_path):
    def refused(task):
        return Ended(task.key, disk=OSError(errno.EFBIG, "File too large", "step-1.safetensors"))

    with pytest.raises(StoreError, match=r"^step-1.safetensors: File too large; .*`ulimit -f unlimited`"):
        run(refused, "timing.pairs=0")
    assert not list(tmp_path.glob("cells/*/record.json"))


def test_a_folder_that_goes_while_numerical_choices_are_made_is_gone(run, tmp_path, monkeypatch):
    def removed(*_):
        shutil.rmtree(tmp_path)
        yield Ended("numerics", failure="no log")

    monkeypatch.setattr(Executor, "__call__", removed)
    with pytest.raises(StoreError, match=f"^{tmp_path} is gone: it was moved or removed during its run"):
        run(None)


def test_chosen_rows_are_run_alone_and_the_same_command_without_them_runs_the_rest(run, tmp_path):
    begun = []

    def end(task):
        begun.append(RunFolder(tmp_path).existing_request(task.key).row)
        return done(RunFolder(tmp_path), task.key)

    result, folder = run(end, "timing.pairs=0", rows=("tread-1:2",))
    assert begun == ["tread-1:2"] and [record.row for record in result.records] == begun
    assert len(folder.existing_plan().cells) == 2
    result, _ = run(end, "timing.pairs=0")
    assert begun == ["tread-1:2", "dense"] and len(result.records) == 2


def test_a_run_says_which_device_it_has_taken(run, tmp_path):
    def end(task):
        return Ended(task.key, failure="no need")

    for options, said in (
        ({"device": "cpu"}, None),
        ({"device": "auto", "retry_failed": True}, f"device: cpu (), on which {tmp_path} was started"),
        ({"device": "auto", "fresh": True}, "device: cpu ()"),
        ({"device": "auto"}, None),  # nothing to do
    ):
        told = []
        run(end, "limits.retries=0", told=told, **options)
        assert [line for line in told if line.startswith("device: ")] == ([said] if said else []), options


def test_failed_cells_of_a_tuned_study_are_left_until_they_are_wanted_again(run, tmp_path):
    tuning, study = Counter(), Counter()

    def end(task):
        folder = RunFolder(tmp_path)
        if folder.existing_request(task.key).role == "study":
            study[task.key] += 1
            return Ended(task.key, failure="no luck")
        tuning[task.key] += 1
        return done(folder, task.key, evaluations=[no_figures(None, 4, 1.0).model_copy(update={"fid": 9.0})])

    for options, times in (({}, 1), ({}, 1), ({"retry_failed": True}, 2)):
        run(end, "timing.pairs=0", "tune={candidates: [1e-3, 2e-3, 4e-3], seeds: 1}", **options)
        assert (len(study), {*study.values()}, len(tuning), {*tuning.values()}) == (2, {times}, 6, {1})


def test_numerical_choices_are_made_on_a_gpu_where_one_may_be_used(run, monkeypatch):
    def stop(executor, tasks):
        raise UserError(f"{tasks[0].gpus} GPUs")

    monkeypatch.setattr(Executor, "may_have_gpus", lambda executor: True)
    monkeypatch.setattr(Executor, "__call__", stop)
    for device, gpus in (("auto", 1), ("cuda", 1), ("cpu", 0)):
        with pytest.raises(UserError, match=f"^{gpus} GPUs"):
            run(None, device=device)


def test_a_cell_that_another_process_still_works_on_gets_no_row_until_that_has_ended(run, tmp_path):
    folder = RunFolder(tmp_path)
    with ExitStack() as others:

        def end(task):
            if task.key not in held:
                held.add(task.key)
                others.enter_context(folder.cell_lock(task.key))
            return Ended(task.key, failure="time limit of 1 min")

        held = set[str]()
        result, folder = run(end)
        assert (result.records, result.finished_now, result.taken) == ([], 0, 2)
        assert not list(tmp_path.glob("cells/*/record.json"))
    result, _ = run(lambda task: Ended(task.key, failure="crash"), "limits.retries=0")
    assert [record.reason for record in result.records] == ["crash", "crash"] and not result.taken


def test_a_lost_cell_is_told_and_tried_again_though_its_dying_process_still_has_its_lock(run, tmp_path):
    folder, told, attempts = RunFolder(tmp_path), [], Counter()
    with ExitStack() as dying:

        def end(task):
            attempts[task.key] += 1
            if attempts[task.key] > 1:
                dying.close()
                return done(folder, task.key)
            dying.enter_context(folder.cell_lock(task.key))
            return Ended(task.key, failure="its node died", lost=True)

        result, _ = run(end, "timing.pairs=0", told=told)
    assert [record.status for record in result.records] == ["done", "done"]
    assert set(attempts.values()) == {2}
    assert sum("its node died; it will be retried" in line for line in told) == 2


def test_speed_and_memory_of_two_kinds_of_machines_are_no_measurement(run, tmp_path):
    folder = RunFolder(tmp_path)

    def end(task):
        if task.reports:
            return done(folder, task.key)
        if task.function.endswith("measure_speed"):
            return Ended(task.key, value=MeasuredSpeed.model_construct(timing=None, conditions=Conditions(**NUMERICS)))
        elsewhere = Conditions(**{**NUMERICS, "cpu_capability": "NEON"})
        memory = {"peak_memory_mib": 1, "memory_kind": "allocator"}
        return Ended(task.key, value=MeasuredMemory(**memory, conditions=elsewhere))

    result, _ = run(end)
    assert {record.status for record in result.records} == {"failed"}
    assert all("two kinds of machines: cpu_capability was 'AVX2', is 'NEON'" in r.reason for r in result.records)


def test_what_judges_weights_waits_for_the_process_that_trains_them(tmp_path, monkeypatch):
    text = find_suite("smoke").read_text() + "  again: {evaluate: dense, sampling.steps: 3}\n"
    suite = tmp_path / "suite.yaml"
    suite.write_text(text.replace("timing: {pairs: 3, warmup: 1}\n", ""))
    asked = []

    def end(task):
        asked.append(task.key)
        if task.key.startswith("dense"):
            return Ended(task.key, failure="time limit of 1 min")
        return done(folder, task.key)

    monkeypatch.setattr(preparation, "executor_named", lambda *_: Executor(end))
    plan = load_plan(suite, ["seeds=1", "timing.pairs=0"])
    (dense,) = (cell for cell in plan.cells if cell.row == "dense")
    folder = ready(tmp_path / "run", plan)
    folder.plan_path.unlink()  # as where its process has just begun
    with folder.cell_lock(dense.id):
        result = runner.run(plan, Call("", folder, Options(), Lines(quiet)))
    assert [record.row for record in result.records] == ["tread-1:2"] and result.taken == 2
    assert not any(key.startswith("again") for key in asked)


def test_progress_says_how_far_each_split_is_and_how_long_it_may_take() -> None:
    said: list[str] = []
    now = [0.0]
    lines = CountedLines(" on cuda", said.append, lambda: now[0])
    for seconds, split, done in ((0, "train", 10), (5, "train", 20), (30, "train", 40), (90, "train", 100)):
        now[0] = seconds
        lines(split, done, 100)
    lines("held_out", 5, 5)
    lines("held_out", 5, 5)  # stands still
    assert said == [
        "train on cuda: 10 of 100",
        "train: 40 of 100, 0:30 elapsed, about 1:00 left",
        "train: 100 of 100, 1:30 elapsed",
        "held_out on cuda: 5 of 5",
    ]


def test_lines_of_a_run_are_neither_wrapped_nor_markup_and_say_how_long_it_may_take() -> None:
    out, now = StringIO(), [100.0]
    lines = Lines(Console(file=out, width=20).print, lambda: now[0])
    lines.begin("training", {"a": "dense", "b": "routed"}, 1)
    now[0] += 10
    lines.ended("a", "no [red] luck")
    lines.started("b")
    lines.progressed("b", "training", 1, 4, 0.7)  # too soon after the last line
    now[0] += 20
    lines.progressed("b", "training", 2, 4, 0.25)
    lines.progressed("b", "training", 3, 4, 0.2)
    now[0] += 30
    lines.progressed("b", "evaluation", 1, 2, None)
    assert out.getvalue().splitlines() == [
        "training: 2 to do, 1 at a time",
        "[1/2] dense: FAILED: no [red] luck, 0:10 elapsed, about 0:10 left",
        "routed: training 2/4, loss 0.2500, 0:30 elapsed, about 0:10 left",
        "routed: evaluation 1/2, 1:00 elapsed, about 0:20 left",
    ]


def test_bars_show_each_running_cell_and_the_loss_while_it_is_trained() -> None:
    bars = Bars(Console(file=StringIO(), width=120, force_terminal=True, record=True))
    bars.begin("training", {"a": "dense", "b": "routed"}, 2)
    bars.progressed("a", "training", 1, 4, 0.25)
    bars.started("b")
    bars.progressed("b", "evaluation", 1, 2, None)
    overall, dense, routed = bars.progress.tasks
    assert (overall.completed, overall.total, overall.fields["news"]) == (0.75, 2.0, "2 at a time")
    assert (dense.completed, dense.total, dense.fields["news"]) == (1, 4, "training, loss 0.2500")
    assert (routed.description.strip(), routed.fields["news"]) == ("routed", "evaluation")
    bars.ended("a", "no [red] luck")
    assert len(bars.progress.tasks) == 2 and overall.completed == 1.5
    bars.end()
    assert "dense: FAILED: no [red] luck" in bars.console.export_text()
