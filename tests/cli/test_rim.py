"""What people meet where a command cannot go on: one message, the right exit status, and never a traceback."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import command, hear_signals, tread_bench, tread_bench_anew, wait_for
from tests.toy_suite import toy_suite, write_suite


def shell(line: str, *arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a shell, `{}` being tread-bench with its arguments."""
    asked = line.format(shlex.join(command(*arguments)))
    options = {"capture_output": True, "text": True, "timeout": 200, "cwd": cwd, "stdin": subprocess.DEVNULL}
    return subprocess.run(["bash", "-c", asked], env={**os.environ, **environment}, **options)


def assert_told(done: subprocess.CompletedProcess[str], status: int, message: str) -> None:
    assert "Traceback" not in done.stderr, done.stderr
    assert (done.returncode, re.search(message, done.stderr) is not None) == (status, True), done.stderr


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("{} >/dev/full", 2, "^No space left on device; free some space"),
        ("{} >&-", 0, "^$"),
        ("{} <&- >&- 2>&-", 0, "^$"),
        ("{} | true; exit ${{PIPESTATUS[0]}}", 1, "^$"),
    ],
)
def test_streams_and_limits(line, status, message, tmp_path):
    assert_told(shell(line, "list", "selectors", cwd=tmp_path), status, message)


def test_a_run_that_may_not_use_the_memory_that_it_needs_says_so_once(tmp_path):
    done = shell("ulimit -v 500000; {}", "run", "smoke", "--out", tmp_path / "run", cwd=tmp_path)
    assert_told(done, 2, r"^(out of memory: use smaller|ImportError: libtorch_cpu\.so: failed to map) .*\n$")


@pytest.mark.full
def test_a_run_ends_that_may_open_few_files_and_cleaning_it_asks_nobody_where_nobody_is(tmp_path):
    suite, out = write_suite(tmp_path, toy_suite(2, 1, seeds=1, pairs=0)), tmp_path / "run"
    assert_told(shell("ulimit -n 64; {}", "run", suite, "--out", out, cwd=tmp_path), 0, "")
    done = shell("{} <&-", "clean", out, cwd=tmp_path)
    assert_told(done, 0, "^$")
    assert "without a terminal to ask at, give --yes" in done.stdout and list(out.glob("cells/*/checkpoints/*"))


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}  # tox sets the last


@pytest.mark.full
def test_an_ascii_locale_reads_and_writes_what_others_do_also_below_a_name_that_is_not_utf_8(tmp_path):
    text = toy_suite(2, 1, seeds=1, pairs=0).replace("name: toy", "name: toy\ndescription: Größe, Δ", 1)
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    suite = folder / "toy.yaml"
    suite.write_text(text, encoding="utf-8")
    done = tread_bench_anew("run", suite, "--out", folder / "run", **ASCII)
    assert_told(done, 0, "")
    assert done.stdout.isascii() and "FID" in done.stdout
    assert "Größe, Δ" in (folder / "run" / "index.html").read_text(encoding="utf-8")
    for again in (("status", folder / "run"), ("report", folder / "run"), ("run", suite, "--out", folder / "run")):
        assert_told(tread_bench_anew(*again, **ASCII), 0, "")


def in_place_of_a_command(tmp_path: Path, body: str) -> list[str]:
    """tread-bench, with `list` doing something else."""
    (tmp_path / "changed.py").write_text(
        "import sys\nfrom tread_bench.cli.commands import listing\n\n"
        f"def rows(what):\n    {body}\n\nlisting.rows_of = rows\n"
        "sys.argv = ['tread-bench', 'list', 'selectors']\nfrom tread_bench.cli.rim import main\nmain()\n"
    )
    return [sys.executable, str(tmp_path / "changed.py")]


def ended(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(in_place_of_a_command(tmp_path, body), capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("open('/nowhere/file')", "^/nowhere/file: No such file or directory\n$"),
        ("raise OSError(28, 'No space left on device', '/full')", "^/full: No space left on device; free some"),
        ("raise MemoryError", "^out of memory: use smaller .*`ulimit -v`"),
        (
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)); files = [0] * 9\n"
            "    for i in range(9): files[i] = open('/dev/null')",
            "^/dev/null: Too many open files; raise the limit with `ulimit -n`",
        ),
        (
            "raise OSError(36, 'File name too long', 'y/' * 2500)",
            "^.{1,1100}File name too long; give a shorter name\n$",
        ),
        (
            "from tread_bench.core.errors import UserError; raise UserError('a\\x1b[2Jb\\u202e')",
            r"^a\\x1b\[2Jb\\u202e\n$",
        ),
    ],
)
def test_what_the_system_refuses_is_one_message(body, message, tmp_path):
    assert_told(ended(tmp_path, body), 2, message)


def test_a_mistake_of_the_program_has_its_traceback_and_a_status_of_its_own(tmp_path):
    done = ended(tmp_path, "{}['key']")
    assert done.returncode == 70 and "KeyError: 'key'\nthis is a bug in tread-bench" in done.stderr
    assert "changed.py" in done.stderr


def has_loaded_libraries(process: subprocess.Popen[str]) -> bool:
    """Whether it is past the start of Python: a dependency is there, which only the command line has imported."""
    return process.poll() is not None or "site-packages" in Path(f"/proc/{process.pid}/maps").read_text()


def interrupted(asked: list[str], when: Callable[[subprocess.Popen[str]], object], again_after: float | None = None):
    """Status and stderr of a command that Ctrl-C reaches, as from a terminal: with all processes that it started.

    `python -m` may end by the signal itself, where code from a string was interrupted. Shells show that as 130, too.
    """
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(asked, text=True, start_new_session=True, preexec_fn=hear_signals, **pipes)
    when(process)
    os.killpg(process.pid, signal.SIGINT)
    if again_after is not None:
        time.sleep(again_after)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert "Traceback" not in told and "Exception ignored" not in told, told
    return (130 if process.returncode == -signal.SIGINT else process.returncode), told


@pytest.mark.parametrize("seconds", [0.2, *(pytest.param(s, marks=pytest.mark.full) for s in (0, 1, 3))])
def test_ctrl_c_while_a_run_starts(seconds, tmp_path):
    """Imports of the command line, the plan, the server of cells that loads torch, the first cell."""
    suite = write_suite(tmp_path, toy_suite(10_000, 100, seeds=1))
    out = tmp_path / "run"

    def when(process: subprocess.Popen[str]) -> None:
        wait_for(lambda: has_loaded_libraries(process))
        time.sleep(seconds)

    status, told = interrupted(command("run", suite, "--out", out), when, again_after=0.1)
    assert status == 130 and "interrupted" in told


def test_an_interrupt_that_a_library_changes_still_ends_the_command(tmp_path):
    mark = tmp_path / "there"
    rest = "[time.sleep(0.1) for _ in range(600)]"  # a signal just before one long sleep would be heard after it
    body = f"open({str(mark)!r}, 'w').close(); import time"
    changed = f"{body}\n    try:\n        {rest}\n    except BaseException:\n        raise ImportError('half')"
    status, told = interrupted(in_place_of_a_command(tmp_path, changed), lambda _: wait_for(mark.exists))
    assert (status, told) == (130, "interrupted\n")


def test_links_that_lead_in_a_circle_are_told_in_one_message(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    done = tread_bench("report", "loop", cwd=tmp_path)
    assert_told(done, 2, r"loop/plan.json cannot be read \(Too many levels of symbolic links\)")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]
