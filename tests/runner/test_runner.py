"""Runs whose processes die, hang or share a folder; whose machine changes; whose disk is short."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from tests.command_line import command, figures, tread_bench, wait_for
from tests.robustness.warm import MEMORY_BYTES
from tests.run_folders import quiet
from tests.toy_suite import ONE_SEED, write_suite
from tread_bench.cli.costs import plan_table
from tread_bench.core.numbers.costs import cell_cost
from tread_bench.core.stored.files import StoreError
from tread_bench.runner import prepare as preparation
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Call, Options
from tread_bench.runner.runner import run
from tread_bench.services.display import Lines
from tread_bench.suite.load import load_plan
from tread_bench.suite.plan import checkpoint_bytes


def begin(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(*arguments), text=True, env={**os.environ, **environment}, **pipes)


def a_cell_past_a_checkpoint(out: Path, runner: subprocess.Popen[str]) -> psutil.Process:
    """The process of the only cell that is trained."""
    wait_for(lambda: any(out.glob("cells/*/checkpoints/*.sha256")))
    (server,) = (child for child in psutil.Process(runner.pid).children() if child.children())
    (cell,) = server.children()
    return cell


def record(out: Path, row: str) -> dict[str, object]:
    (path,) = out.glob(f"cells/{row}-s0-*/record.json")
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory) -> Path:
    return write_suite(tmp_path_factory.mktemp("suite"), ONE_SEED)


def test_a_killed_cell_goes_on_and_ends_bit_for_bit_as_an_undisturbed_one(one_seed, trained_toy, tmp_path):
    runner = begin("run", one_seed, "--out", tmp_path, "--workers", 1)
    a_cell_past_a_checkpoint(tmp_path, runner).kill()
    _, errors = runner.communicate(timeout=300)
    assert runner.returncode == 0 and "training, lost cells again: 1 to do" in errors, errors
    log = next(tmp_path.glob("cells/dense-*/log")).read_text()
    reason = "the process was killed by SIGKILL: by a user, or by the kernel because memory ran out"
    assert f"runner: {reason}" in log and "resuming from checkpoint" in log
    for row in ("dense", "routed"):
        assert figures(record(tmp_path, row)) == figures(record(trained_toy, row))


def test_a_cell_that_runs_out_of_memory_keeps_its_row_and_the_other_is_undisturbed(one_seed, trained_toy, tmp_path):
    greedy = "rows:\n  greedy: {training.batch: 250000, backbone.hidden: 512}\n"
    out, suite = tmp_path / "run", write_suite(tmp_path, ONE_SEED.replace("rows:\n", greedy))
    assert MEMORY_BYTES < 250_000 * 16 * 512 * 4  # what a command of these tests may have, and one activation
    done = tread_bench("run", suite, "--out", out, "--workers", 1)
    assert done.returncode == 1, done.stderr
    failed = record(out, "greedy")
    assert failed["status"] == "failed"
    assert "can't allocate memory" in failed["reason"]  # as torch says it on a CPU
    assert figures(record(out, "dense")) == figures(record(trained_toy, "dense"))


def test_of_two_runners_on_one_folder_one_is_refused_and_the_other_undisturbed(one_seed, trained_toy, tmp_path):
    runners = [begin("run", one_seed, "--out", tmp_path) for _ in range(2)]
    outputs = [runner.communicate(timeout=300) for runner in runners]
    by_status = dict(zip((runner.returncode for runner in runners), outputs, strict=True))
    assert by_status.keys() == {0, 2}
    assert "is in use by another tread-bench" in by_status[2][1] and "Traceback" not in by_status[2][1]
    for row in ("dense", "routed"):
        assert figures(record(tmp_path, row)) == figures(record(trained_toy, row))


@pytest.mark.full
def test_a_run_goes_on_under_other_numerics_only_where_asked_to_and_its_records_say_so(one_seed, tmp_path):
    """A processor with other instructions, as torch sees it."""
    old = {"ATEN_CPU_CAPABILITY": "default"}
    timed = ("--set", "timing.pairs=2")
    runner = begin("run", one_seed, "--out", tmp_path, "--workers", 1, *timed, **old)
    wait_for(lambda: any(tmp_path.glob("cells/routed-*/checkpoints/*.sha256")))
    runner.terminate()
    runner.communicate(timeout=60)
    refused = tread_bench("run", one_seed, "--out", tmp_path, *timed)
    assert refused.returncode == 2 and "--accept-other-numerics" in refused.stderr
    assert "cpu_capability was 'DEFAULT', is " in refused.stderr
    done = tread_bench("run", one_seed, "--out", tmp_path, *timed, "--accept-other-numerics")
    assert done.returncode == 0, done.stderr
    dense, routed = (record(tmp_path, row)["conditions"] for row in ("dense", "routed"))
    assert dense["cpu_capability"] == "DEFAULT"  # it had been trained when the runner was ended
    assert dense["timed_under"]["cpu_capability"] != "DEFAULT"
    assert routed["cpu_capability"] != "DEFAULT"
    assert [earlier["cpu_capability"] for earlier in routed["begun_under"]] == ["DEFAULT"]
    assert json.loads((tmp_path / "plan.json").read_text())["numerics"]["cpu_capability"] == routed["cpu_capability"]
    assert "not all made under the same conditions" in (tmp_path / "index.html").read_text()


def test_what_a_run_keeps_is_at_most_what_was_estimated_and_a_third_of_it_at_least(trained_toy):
    (*rows,) = plan_table(load_plan(trained_toy / "suite.yaml"))
    estimated = sum(row["disk_bytes"] for row in rows)
    measured = sum(path.stat().st_size for path in trained_toy.rglob("*") if path.is_file())
    assert measured <= estimated <= 3 * measured


@pytest.mark.full
def test_a_run_that_the_disk_has_no_room_for_is_refused_before_it_trains(one_seed, tmp_path, monkeypatch):
    plan = load_plan(one_seed)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(preparation.shutil, "disk_usage", lambda path: usage(10**9, 10**9, 2**20))
    with pytest.raises(StoreError, match=r"the 2 cells to train may need another \d+ MiB and only 1 MiB are free"):
        run(plan, Call(ONE_SEED, RunFolder(tmp_path), Options(), Lines(quiet)))
    assert not (tmp_path / "cells").exists()


def test_space_that_a_run_has_taken_is_not_asked_for_again(trained_toy, tmp_path):
    plan, folder = load_plan(trained_toy / "suite.yaml"), RunFolder(trained_toy)
    fresh = preparation.needed_bytes(plan.cells, RunFolder(tmp_path), 1)
    taken = sum(path.stat().st_size for path in trained_toy.rglob("cells/**/*") if path.is_file())
    assert fresh - preparation.needed_bytes(plan.cells, folder, 1) == taken > 0
    another = preparation.needed_bytes(plan.cells, folder, 2) - preparation.needed_bytes(plan.cells, folder, 1)
    assert another == checkpoint_bytes(cell_cost(plan.cells[0].cell).stored_params)  # that it is writing


SECRETS = {
    "HF_TOKEN": "sentinel-hf",
    "HTTPS_PROXY": "http://user:sentinel-proxy@example.org:3128",
}


def test_nothing_of_the_environment_is_in_the_folder_or_on_the_terminal(tmp_path):
    """A cell that fails is among them: its traceback is in a log."""
    suite = write_suite(tmp_path, ONE_SEED.replace("timing:", "  hot: {training.learning_rate: 1e30}\ntiming:"))
    done = tread_bench("run", suite, "--out", tmp_path / "run", "--rows", "hot", **SECRETS)
    assert done.returncode == 1, done.stderr
    assert "Traceback" in next((tmp_path / "run").glob("cells/hot-*/log")).read_text()
    contents = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(contents) > 5
    assert not any(b"sentinel" in content for content in [*contents, done.stdout.encode(), done.stderr.encode()])


def test_clean_refuses_what_is_no_run_folder_and_one_in_use(tmp_path):
    refused = tread_bench("clean", tmp_path)
    assert (refused.returncode, "not a run folder" in refused.stderr) == (2, True)
    shutil.copy(Path(__file__).parents[1] / "stored" / "plan.json", tmp_path)
    with RunFolder(tmp_path).lock():
        refused = tread_bench("clean", tmp_path, "--yes")
    assert (refused.returncode, "in use" in refused.stderr) == (2, True)
