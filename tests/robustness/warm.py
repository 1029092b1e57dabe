"""A process that has imported everything, and forks one that runs a command: as `tread-bench` does, seconds sooner.

`python warm.py` reads requests, one JSON object a line, and answers each when its command has ended. What a forked
command starts for its cells is forked from it again, where `tread-bench` has a server that imports torch for that.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tread_bench.core.describe.plugins import named
from tread_bench.core.processes import end_with_parent

MEMORY_BYTES = 6 * 2**30  # more than any command here needs: a document that asks for terabytes gets an error


@dataclass(frozen=True, slots=True)
class Attempt:
    """One command, and how it ended: a status below 0 is a signal, None that it was still running at its limit."""

    status: int | None
    stdout: str
    stderr: str


class Warm:
    """Runs commands, one at a time, in forks of a process that has imported everything."""

    def __init__(self, with_torch: bool) -> None:
        command = [sys.executable, str(Path(__file__)), *(["--with-torch"] if with_torch else [])]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)

    def close(self) -> None:
        with self.process:  # closes its pipes, at which it ends
            pass

    def __call__(
        self,
        *arguments: object,
        cwd: Path,
        limit_s: float,
        streams: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Attempt:
        """Run a command in `cwd`; its streams are written beside that folder, or beside `streams`."""
        files = [f"{streams or cwd}.{name}" for name in ("stdout", "stderr")]
        request = {"command": [*map(str, arguments)], "cwd": str(cwd), "environment": environment or {}}
        request |= {"streams": files, "limit_s": limit_s}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        status = json.loads(self.process.stdout.readline())
        stdout, stderr = (Path(path).read_text(encoding="utf-8", errors="replace") for path in files)
        return Attempt(status, stdout, stderr)


def serve() -> dict[str, Any] | None:
    """Answer requests until there are none; in a forked process, return its request."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        sys.stdout.flush()
        sys.stderr.flush()
        server, pid = os.getpid(), os.fork()
        if not pid:
            end_with_parent(server)
            answers.close()
            return request
        print(json.dumps(_end_of(pid, request["limit_s"])), file=answers, flush=True)
    return None


def _end_of(pid: int, limit_s: float) -> int | None:
    """The exit status; None at the limit. Afterwards nothing is left of the process's session."""
    watched = os.pidfd_open(pid)
    is_over, _, _ = select.select([watched], [], [], limit_s)
    os.close(watched)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if is_over else None


def become(request: dict[str, Any]) -> None:
    """Make this process the command that was asked for."""
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.update(request["environment"])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    opened = [os.open("/dev/null", os.O_RDONLY)]
    opened += [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644) for path in request["streams"]]
    for stream, descriptor in enumerate(opened):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    sys.argv = ["tread-bench", *request["command"]]
    if "torch" in sys.modules:
        _fork_cells()


def _fork_cells() -> None:
    """Have the local executor fork from this process, which has torch already, not from a server that imports it."""
    import multiprocessing
    from types import ModuleType

    from tread_bench.core.numbers import costs
    from tread_bench.runner.executors import local

    local._context = multiprocessing.get_context("fork")
    local._start_server = lambda: None
    server = ModuleType("tread_bench.runner.executors.server")
    server.PID = os.getpid()
    server.failure = ""
    sys.modules[server.__name__] = server
    costs.named = _apart


def _apart(target: str) -> Any:
    """A function that runs in a child: counting uses autograd, after which this process could fork no cells."""
    import multiprocessing

    def call(*arguments: Any) -> Any:
        fork = multiprocessing.get_context("fork")
        receiver, sender = fork.Pipe(duplex=False)
        child = fork.Process(target=lambda: sender.send(named(target)(*arguments)))  # a description is not pickled
        child.start()
        sender.close()
        found = receiver.recv()
        child.join()
        return found

    return call


def import_quickly() -> None:
    """What commands need that load no torch."""
    for name in ("commands.check", "commands.clean", "commands.plan", "commands.status"):
        importlib.import_module(f"tread_bench.cli.{name}")


def import_everything() -> None:
    import tread_bench.backbones.dit.network
    import tread_bench.cell.run
    import tread_bench.cell.speed
    import tread_bench.cell.warm
    import tread_bench.cli
    import tread_bench.reports

    for package in (tread_bench.cli, tread_bench.reports):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def run_command() -> NoReturn:
    """Run it and end as Python does, without taking apart everything that was imported."""
    from tread_bench.cli.rim import main

    status: Any = 1
    try:
        main()
        status = 0
    except SystemExit as end:
        status = end.code
        if not isinstance(status, int | None):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    import_everything() if "--with-torch" in sys.argv else import_quickly()
    gc.freeze()  # a collection in a forked process would copy all that was imported
    if asked := serve():
        become(asked)
        run_command()
    os._exit(0)  # without the destructors of torch and Numba, which cost time
