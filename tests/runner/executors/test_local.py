"""How processes end, with real ones."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from tests.command_line import wait_for
from tread_bench.core.errors import UserError
from tread_bench.runner.executors import local
from tread_bench.runner.executors.local import Local
from tread_bench.runner.executors.tasks import Ended, Task, TaskProgress
from tread_bench.runner.executors.tasks import run_one as run_one_on

HOLD_THE_GIL = "import ctypes; ctypes.PyDLL(None).sleep(600)"  # no other thread of the process runs meanwhile


def run_one(task: Task, retries: int = 0) -> Ended:
    return run_one_on(task, Local(), retries)


@pytest.fixture
def task(tmp_path):
    return lambda function, *arguments, **about: Task("a", function, arguments, tmp_path / "log", **about)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_value_comes_back_and_an_exception_is_told_with_its_traceback_in_the_log(task, tmp_path):
    assert run_one(task("operator:add", 2, 3)) == Ended("a", value=5)
    failed = run_one(task("operator:truediv", 1, 0), retries=3)
    assert (failed.failure, failed.lost) == ("ZeroDivisionError: division by zero", False)
    assert (tmp_path / "log").read_text().count("Traceback") == 1
    failed = run_one(task("builtins:exec", "raise OSError(27, 'File too large', 'step-1.safetensors')"), retries=3)
    assert (str(failed.disk), failed.failure) == ("[Errno 27] File too large: 'step-1.safetensors'", "")
    assert " is gone, or " in run_one(Task("a", "operator:add", (2, 3), tmp_path / "log" / "log")).failure


def test_a_process_may_start_others(task):
    is_daemon = task("builtins:eval", "__import__('multiprocessing').current_process().daemon")
    assert run_one(is_daemon).value is False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_what_ends_a_process_from_outside_is_a_loss(task, number):
    ended = run_one(task("signal:raise_signal", number))
    assert ended.lost
    assert number.name in ended.failure
    assert ("memory" in ended.failure) == (number == signal.SIGKILL)


def printed_by(tmp_path: Path, program: str) -> str:
    """What a script of its own prints."""
    imports = """
        import multiprocessing
        from pathlib import Path
        from tread_bench.runner.executors.local import Local
        from tread_bench.runner.executors.tasks import Task, run_one
    """
    (tmp_path / "script.py").write_text(dedent(imports) + dedent(program))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_without_a_guard_runs_once(tmp_path):
    task = 'run_one(Task("a", "operator:add", (2, 3), Path("log")), Local())'
    assert printed_by(tmp_path, f"print('once', {task}.value)\n") == "once 5\n"


def test_a_program_that_forks_processes_from_a_server_of_its_own_can_run_cells(tmp_path):
    program = """
        if __name__ == "__main__":
            own = multiprocessing.get_context("forkserver").Process(target=print)
            own.start()
            own.join()
            print(run_one(Task("a", "signal:pthread_sigmask", (0, []), Path("log")), Local()))
    """
    said = printed_by(tmp_path, program)
    assert "failure=''" in said and "SIGINT" in said


def test_a_server_that_ends_as_it_starts_is_told(task, monkeypatch):
    def ended(process):
        raise EOFError("unexpected EOF")

    monkeypatch.setattr(local._context.Process, "start", ended)
    monkeypatch.setattr(local, "STARTS", 1)
    with pytest.raises(UserError, match=r"ends as it starts, .*; out of memory: use smaller"):
        run_one(task("operator:add", 2, 3))


@pytest.mark.parametrize(
    ("function", "argument", "failure"),
    [
        ("os:abort", (), "crash in native code (SIGABRT)"),
        ("ctypes:string_at", (1,), "crash in native code (SIGSEGV)"),
        ("os:_exit", (3,), "the process ended with status 3"),
    ],
)
def test_a_crash_or_an_exit_is_an_outcome(task, function, argument, failure):
    ended = run_one(task(function, *argument), retries=3)
    assert (ended.failure.split(";")[0], ended.lost) == (failure, False)


def test_a_lost_task_is_started_again_a_stated_number_of_times(task, tmp_path):
    note = f"print('x', flush=True, file=open({str(tmp_path / 'starts')!r}, 'a')); import os; os.kill(os.getpid(), 9)"
    assert run_one(task("builtins:exec", note), retries=2).lost
    assert (tmp_path / "starts").read_text() == "x\n" * 3


@pytest.mark.parametrize("hang", ["import time; time.sleep(600)", HOLD_THE_GIL])
def test_a_hang_is_ended_by_its_limit_and_its_neighbour_goes_on(task, tmp_path, hang):
    tasks = [task("builtins:exec", hang, limit_s=1.2), Task("b", "time:sleep", (2.5,), tmp_path / "b")]
    ends = [event for event in Local(2)(tasks) if isinstance(event, Ended)]
    assert ends == [Ended("a", failure="time limit of 0.02 min"), Ended("b")]


def test_no_cell_makes_a_semaphore_that_a_kill_would_leave(task):
    made = "[__import__('joblib')._multiprocessing_helpers.mp, type(__import__('tqdm').tqdm.get_lock()).__name__]"
    assert run_one(task("builtins:eval", made)).value == [None, "RLock"]


@pytest.mark.full
def test_a_server_that_is_killed_takes_its_children_along_and_is_replaced(task, tmp_path):
    tasks = [Task(key, "builtins:exec", (HOLD_THE_GIL,), tmp_path / key) for key in "ab"]
    events = Local(2)(tasks)
    assert [next(events), next(events)] == [TaskProgress("a"), TaskProgress("b")]
    server = next(p for p in psutil.Process().children() if "forkserver" in " ".join(p.cmdline()))
    children = [child.pid for child in server.children()]
    server.kill()
    assert all(event.lost and "server" in event.failure for event in events)
    wait_for(lambda: not any(alive(pid) for pid in children), seconds=10)
    assert run_one(task("operator:add", 2, 3)).value == 5
