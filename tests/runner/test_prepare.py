"""What plan.json says of a run: when it was first started, and what it resolved before the first cell."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.fake_executor import Executor
from tests.run_folders import CHOICES, new_folder, quiet
from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError
from tread_bench.core.stored.files import StoreError, read_json
from tread_bench.data.digits.family import DIGITS, DigitsData
from tread_bench.runner import prepare as preparation
from tread_bench.runner.executors.tasks import Ended, Site
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Call, Options, Shard
from tread_bench.runner.prepare import agreed, resolve_choices, write_plan
from tread_bench.services import run as cli_run
from tread_bench.services.display import Lines
from tread_bench.suite.files import Look
from tread_bench.suite.load import find_suite, load_plan

SMOKE = load_plan(find_suite("smoke"), [])
LONG_AGO = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


def write(root, fresh=False):
    folder = new_folder(root)
    write_plan(SMOKE, (), "", folder, CHOICES, None if fresh else folder.plan())
    return datetime.fromisoformat(read_json(root / "plan.json")["started"])


@pytest.mark.parametrize("fresh", [False, True])
def test_a_run_that_goes_on_keeps_its_first_start_and_one_begun_afresh_does_not(tmp_path, fresh):
    assert abs(datetime.now(UTC) - write(tmp_path)) < timedelta(minutes=1)
    older = read_json(tmp_path / "plan.json") | {"started": LONG_AGO.isoformat()}
    (tmp_path / "plan.json").write_text(json.dumps(older))
    assert (write(tmp_path, fresh) == LONG_AGO) is not fresh


# What is resolved before the first cell


class Computing(Executor):
    """Does what it is given, in this process."""

    def __call__(self, tasks):
        for task in tasks:
            task.log.touch()
            try:
                yield Ended(task.key, value=named(task.function)(*task.arguments))
            except UserError as error:
                yield Ended(task.key, failure=str(error))


def call(root, **asked):
    return Call("", new_folder(root), Options(**asked), Lines(quiet))


def resolved(root, there, plan=SMOKE, device="cpu", **asked):
    of, site = call(root, **asked), Site(there, plan.suite.limits, 1, 0)
    before = None if of.options.begins_again else of.folder.plan()
    choices = agreed(resolve_choices(plan, plan.cells, device, site, of), before, plan, of)
    write_plan(plan, (), "", of.folder, choices, before)
    return choices


def test_a_folder_that_the_machines_do_not_share_is_told_also_the_second_time(tmp_path):
    resolved(tmp_path, Executor())
    with pytest.raises(StoreError, match="all machines share"):
        resolved(tmp_path, Executor(is_shared=False))


def test_a_shard_has_the_choices_of_the_run_and_no_shard_takes_its_permission_back(tmp_path):
    first, second = Shard(1, 2), Shard(2, 2)
    resolved(tmp_path, Executor(), shard=first)
    with pytest.raises(StoreError, match="cpu_capability was 'AVX2', is 'NEON'"):
        resolved(tmp_path, Executor(cpu_capability="NEON"), shard=second)
    other = resolved(tmp_path, Executor(cpu_capability="NEON"), shard=second, accept_other_numerics=True)
    assert other.numerics.cpu_capability == "AVX2" and other.accept_other_numerics
    assert resolved(tmp_path, Executor(), shard=first).accept_other_numerics
    with pytest.raises(StoreError, match="give all shards the same --device"):
        resolved(tmp_path, Executor(device="cuda"), shard=second, device="cuda", accept_other_numerics=True)


class Noting(Executor):
    """Says which device it was asked for."""

    def __call__(self, tasks):
        raise UserError(tasks[0].arguments[1])


@pytest.mark.parametrize(
    ("begun", "asked", "device"), [("", "auto", "auto"), ("cuda", "auto", "cuda"), ("cuda", "cpu", "cpu")]
)
def test_a_run_resumes_on_the_device_that_it_was_begun_on_unless_one_is_requested(
    tmp_path, monkeypatch, begun, asked, device
):
    if begun:
        resolved(tmp_path, Executor(device=begun), device=begun)
    monkeypatch.setattr(preparation, "executor_named", lambda *_: Noting())
    with pytest.raises(UserError, match=f"^{device}$"):
        preparation.prepare(SMOKE, (), RunFolder(tmp_path).plan(), call(tmp_path, device=asked))


def of_another_size(options, generates):
    return ["sample 3 is of another size"]


def test_all_samples_are_read_where_the_cells_run(tmp_path, monkeypatch):
    monkeypatch.setattr(DigitsData, "family", replace(DIGITS, check_all=f"{__name__}:of_another_size"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = load_plan(find_suite("route_placement"), look=Look.NETWORKS)
    with pytest.raises(StoreError, match="sample 3 is of another size"):
        resolved(tmp_path / "far", Computing(), plan, executor="slurm")
    resolved(tmp_path / "here", Computing(), plan)  # where reading the suite has read them


@pytest.mark.parametrize(("executor", "look"), [("local", Look.CONTENTS), ("ray", Look.NETWORKS)])
def test_the_machine_that_starts_a_run_reads_all_samples_only_if_cells_run_on_it(monkeypatch, executor, look):
    def stop(path, overrides, **about):
        raise UserError(str(about["look"]))

    monkeypatch.setattr(cli_run, "load_plan", stop)
    with pytest.raises(UserError, match=str(look)):
        cli_run.bring_up_to_date("smoke", [], None, False, Options(executor=executor))


def test_rows_that_are_run_afresh_leave_the_run_of_the_others_as_it_is(tmp_path):
    resolved(tmp_path, Executor())
    with pytest.raises(StoreError, match="cpu_capability was 'AVX2', is 'NEON'"):
        resolved(tmp_path, Executor(cpu_capability="NEON"), fresh=True, rows=("dense",))
    resolved(tmp_path, Executor(cpu_capability="NEON"), fresh=True)


def test_a_shard_may_add_cells_and_not_take_any_away(tmp_path):
    resolved(tmp_path, Executor(), shard=Shard(1, 2))
    more = load_plan(find_suite("smoke"), ["seeds=3"])
    resolved(tmp_path, Executor(), plan=more, shard=Shard(2, 2))
    with pytest.raises(StoreError, match="has 6 cells, 2 of which"):
        resolved(tmp_path, Executor(), shard=Shard(1, 2))
    resolved(tmp_path, Executor())  # a runner of the whole may
