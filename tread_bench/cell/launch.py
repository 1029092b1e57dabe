"""A task of several processes: ranks that torch's own launcher starts, and that are watched here."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe, connection
from typing import Any

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import LostError, UserError, failure_text, is_of_disk
from tread_bench.core.processes import end_with_parent
from tread_bench.runner.heartbeat import Tell

BEAT_S = 1.0  # between two signs of life
SILENCE_S = 60.0  # without one, after which a rank is taken for hung
SLOWEST = 10  # a step may take this many times the longest one before it, if that is more than SILENCE_S
CAUSE_FIRST_S = 2.0  # by which a rank fails later than the rank whose end made it fail
LOOPBACK = "127.0.0.1"
LOOPBACK_INTERFACE = "lo0" if sys.platform == "darwin" else "lo"
TRAINING = "training"  # the phase in which all ranks go in step


class RankError(UserError):
    """A rank's failure, in its own words."""


@dataclass(frozen=True, slots=True)
class _Beat:
    """A sign of life of a rank, with what it reported last."""

    rank: int
    pid: int
    news: tuple[str, int, int, float | None]


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a rank failed; an error of the disk, which ends the run, and a loss, which is retried, are themselves."""

    rank: int
    error: Exception


def launch(function: str, arguments: tuple[Any, ...], processes: int, tell: Tell) -> Any:
    """Call `function` ("module:name") with the arguments and `tell` in each of `processes` ranks.

    A rank finds its place in the environment, as torchrun sets it, and its part of the GPUs in CUDA_VISIBLE_DEVICES.

    Args:
        tell: called with what the first rank reports.

    Returns:
        What the first rank returns.

    Raises:
        RankError: a rank raised an error.
        LostError: a rank was ended from outside, or did not go on.
        OSError: a rank's disk failed.
    """
    # A pipe for each rank here, since one that is killed while it writes must not hold up the others.
    inboxes, outboxes = zip(*(Pipe(duplex=False) for _ in range(processes)), strict=True)
    watch = _Watch(list(inboxes), tell)
    watching = threading.Thread(target=watch.run, daemon=True)
    watching.start()

    # The store in which all meet, on this interface alone, at a port that the system gives. torch's static rendezvous
    # uses it, and unpickles nothing; its default, "c10d", listens on every interface and unpickles what it is sent.
    listener = socket.create_server((LOOPBACK, 0))
    port = listener.getsockname()[1]
    about: dict[str, Any] = {"is_master": True, "multi_tenant": True, "wait_for_workers": False}
    _store = dist.TCPStore(LOOPBACK, port, master_listen_fd=listener.detach(), **about)  # type: ignore[attr-defined]
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        rdzv_backend="static",
        rdzv_endpoint=f"{LOOPBACK}:{port}",
        rdzv_configs={"rank": 0},
        run_id="ranks",
        max_restarts=0,
        start_method="spawn",
    )
    try:
        returned: dict[int, Any] = elastic_launch(config, _run_rank)(os.getpid(), function, arguments, outboxes)
        return returned[0]
    except ChildFailedError as error:
        watch.ended.set()
        watching.join()
        raise watch.cause(error) from None
    except SignalException as stopped:  # the ranks are gone: end as a process that does not handle the signal
        stopped.__traceback__ = None
        gc.collect()  # semaphores of torch's launcher, which Python would else report as leaked
        signal.signal(stopped.sigval, signal.SIG_DFL)
        os.kill(os.getpid(), stopped.sigval)
    finally:
        watch.ended.set()


def _run_rank(
    launcher: int,
    function: str,
    arguments: tuple[Any, ...],
    outboxes: Sequence[connection.Connection],
) -> Any:
    """Call the function in this process, as one of the ranks."""
    end_with_parent(launcher)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = LOOPBACK_INTERFACE
    rank = int(os.environ["RANK"])
    if gpus := [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]:
        each = len(gpus) // len(outboxes)
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[rank * each : (rank + 1) * each])
    pulse = _Pulse(rank, outboxes[rank])
    threading.Thread(target=pulse.run, daemon=True).start()
    try:
        return named(function)(*arguments, pulse.report)
    except Exception as error:
        # A rank that only lost another one leaves that one time to be seen first.
        time.sleep(CAUSE_FIRST_S)
        is_itself = is_of_disk(error) or isinstance(error, LostError)
        pulse.send(_Failure(rank, error if is_itself else RankError(failure_text(error))))
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


class _Pulse:
    """A rank's reports, and its signs of life between them."""

    def __init__(self, rank: int, outbox: connection.Connection) -> None:
        self.rank, self.outbox = rank, outbox
        self._lock = threading.Lock()
        self.news: tuple[str, int, int, float | None] = ("", 0, 0, None)

    def report(self, phase: str, done: int, of: int, loss: float | None) -> None:
        self.news = phase, done, of, loss
        self._beat()

    def run(self) -> None:
        while True:
            self._beat()
            time.sleep(BEAT_S)

    def _beat(self) -> None:
        self.send(_Beat(self.rank, os.getpid(), self.news))

    def send(self, message: _Beat | _Failure) -> None:
        with self._lock:
            self.outbox.send(message)


@dataclass
class _Watch:
    """Passes on what the first rank reports, and ends all ranks where one gives no sign of life or none goes on.

    In training all ranks go in step, so the first one's steps say whether all go on. Until two steps are done, and
    while the first rank evaluates or writes, only signs of life are expected: compiling or sampling may take an hour.
    """

    inboxes: list[connection.Connection]
    tell: Tell
    clock: Callable[[], float] = time.monotonic
    reason: str = ""  # why ranks were ended
    failures: list[_Failure] = field(default_factory=list)
    _beats: dict[int, tuple[_Beat, float]] = field(default_factory=dict)
    _stepped: float | None = None  # when the latest steps were done
    _longest: float = 0.0  # between two reports of steps
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Take the messages of the ranks until all have ended; end them where they do not go on."""
        while not self.ended.is_set():
            self._read(BEAT_S)
            if not self.reason and (reason := self.hung()):
                self.reason = reason
                for beat, _ in self._beats.values():
                    with suppress(ProcessLookupError):
                        os.kill(beat.pid, signal.SIGKILL)
        while self._read(0.0):  # what they said last
            pass

    def _read(self, patience_s: float) -> bool:
        """Take a message of each rank that sent one; whether there was any."""
        ready = connection.wait(self.inboxes, patience_s)
        for inbox in ready:
            assert isinstance(inbox, connection.Connection)
            try:
                self.note(inbox.recv())
            except (EOFError, OSError):  # it has ended
                self.inboxes.remove(inbox)
        return bool(ready)

    def note(self, message: _Beat | _Failure) -> None:
        """Take a message of a rank."""
        if isinstance(message, _Failure):
            self.failures.append(message)
            return
        before, now = self._beats.get(message.rank), self.clock()
        self._beats[message.rank] = message, now
        if message.rank != 0 or (before and before[0].news == message.news):
            return
        phase, done, of, loss = message.news
        if phase == TRAINING and self._stepped is not None:
            self._longest = max(self._longest, now - self._stepped)
        self._stepped = now if phase == TRAINING else None
        if phase:
            self.tell(phase, done, of, loss)

    def hung(self) -> str:
        """Return why the ranks do not go on; empty where they do."""
        now = self.clock()
        silent = [rank for rank, (_, heard) in self._beats.items() if now - heard > SILENCE_S]
        if silent:
            return f"rank {silent[0]} gave no sign of life for {SILENCE_S:.0f} s"
        limit = max(SILENCE_S, SLOWEST * self._longest)
        if self._stepped is not None and self._longest and now - self._stepped > limit:
            return f"no step was done for {limit:.0f} s: a rank hangs"
        return ""

    def cause(self, error: ChildFailedError) -> Exception:
        """Return why the ranks ended, as what is to be raised."""
        rank, first = error.get_first_failure()
        if self.reason:
            return LostError(self.reason)
        if first.exitcode < 0:
            return LostError(f"rank {rank} was killed by {signal.Signals(-first.exitcode).name}")
        return self.failures[0].error if self.failures else RankError(f"rank {rank} ended with {first.exitcode}")
