"""A task of several processes: ranks that torch's own launcher starts, one launcher per machine, which watches them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing import Pipe, connection
from typing import Any

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import (
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError, failure_text, is_of_disk
from tread_bench.runner.executors.lifeline import end_with_parent
from tread_bench.runner.executors.tasks import LostError, Nodes
from tread_bench.runner.heartbeat import Tell

BEAT_S = 1.0  # between two signs of life
SILENCE_S = 60.0  # without one, after which a rank is taken for hung
SLOWEST = 10  # a step may take this many times the longest one before it, if that is more than SILENCE_S
CAUSE_FIRST_S = 2.0  # by which a rank fails later than the rank whose end made it fail
MEETING_S = 900  # in which the launchers of all machines must have started
MEETING = "tread-bench"  # torch's name for the way in which launchers meet
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
    Of several machines (`Nodes.here`), each starts an equal part of the ranks.

    Args:
        tell: called with what the first rank reports.

    Returns:
        What the first rank returns; None on other machines than its own.

    Raises:
        RankError: a rank raised an error.
        LostError: a rank was ended from outside, or did not go on.
        OSError: a rank's disk failed.
    """
    # A pipe for each rank here, since one that is killed while it writes must not hold up the others.
    nodes = Nodes.here()
    here = processes // nodes.count
    inboxes, outboxes = zip(*(Pipe(duplex=False) for _ in range(here)), strict=True)
    store = _meeting(nodes)
    neighbours = Neighbours(nodes, _joined(nodes, store.port)) if nodes.count > 1 else None
    watch = _Watch(list(inboxes), tell, neighbours=neighbours)
    watching = threading.Thread(target=watch.run, daemon=True)
    watching.start()

    # torch's own default, "c10d", listens on every interface and unpickles what it is sent.
    config = LaunchConfig(
        min_nodes=nodes.count,
        max_nodes=nodes.count,
        nproc_per_node=here,
        rdzv_backend=MEETING,
        rdzv_configs={"nodes": nodes, "store": store},
        run_id="ranks",
        max_restarts=0,
        start_method="spawn",
    )
    try:
        returned: dict[int, Any] = elastic_launch(config, _run_rank)(os.getpid(), function, arguments, outboxes)
        return returned.get(0)
    except ChildFailedError as error:
        watch.ended.set()
        watching.join()
        raise watch.cause(error) from None
    except SignalException as stopped:  # the ranks are gone: end as a process that does not handle the signal
        signal.signal(stopped.sigval, signal.SIG_DFL)
        os.kill(os.getpid(), stopped.sigval)
    finally:
        watch.ended.set()


def _meeting(nodes: Nodes) -> dist.TCPStore:  # type: ignore[name-defined]
    """The store in which all launchers and ranks meet, at a port that the system gives to the first machine."""
    if not nodes.is_first:
        return _joined(nodes, nodes.told_port(MEETING_S))
    family = socket.AF_INET6 if ":" in nodes.host else socket.AF_INET
    listener = socket.create_server((nodes.host, 0), family=family)  # on this interface alone
    port = listener.getsockname()[1]
    store = _joined(nodes, port, is_master=True, master_listen_fd=listener.detach())
    nodes.tell_port(port)
    return store


def _joined(nodes: Nodes, port: int, **about: Any) -> dist.TCPStore:  # type: ignore[name-defined]
    patience = timedelta(seconds=MEETING_S)
    return dist.TCPStore(nodes.host, port, timeout=patience, wait_for_workers=False, **about)  # type: ignore[attr-defined]


class _Meeting(StaticTCPRendezvous):
    """torch's static rendezvous in a store that is there already. Ranks are numbered in the order of the machines."""

    def __init__(self, parameters: RendezvousParameters) -> None:
        nodes, self.store = parameters.config["nodes"], parameters.config["store"]
        super().__init__(nodes.host, self.store.port, nodes.number, nodes.count, parameters.run_id, MEETING_S)

    def get_backend(self) -> str:
        return MEETING

    def next_rendezvous(self) -> RendezvousInfo:
        place = RendezvousStoreInfo(self.master_addr, self.master_port)
        return RendezvousInfo(self.store, self.rank, self.world_size, bootstrap_store_info=place)


rendezvous_handler_registry.register(MEETING, _Meeting)


def _run_rank(
    launcher: int,
    function: str,
    arguments: tuple[Any, ...],
    outboxes: Sequence[connection.Connection],
) -> Any:
    """Call the function in this process, as one of the ranks."""
    end_with_parent(launcher)
    if Nodes.here().count == 1:
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = LOOPBACK_INTERFACE
    rank, number_here = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if gpus := [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]:
        each = len(gpus) // len(outboxes)
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[number_here * each : (number_here + 1) * each])
    pulse = _Pulse(rank, outboxes[number_here])
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


class Neighbours:
    """What the machines of a task say to each other, in the store of the first one, by a connection of their own."""

    def __init__(self, nodes: Nodes, store: dist.TCPStore) -> None:  # type: ignore[name-defined]
        self.nodes, self.store = nodes, store
        self.store.set_timeout(timedelta(seconds=SILENCE_S))
        self._heard: dict[int, tuple[int, float]] = {}  # beats of each other machine, and when the last one came

    def beat(self, now: float) -> str:
        """Give a sign of life, and listen to the others; return why they do not go on, if they do not."""
        if not self.nodes.is_first:
            with suppress(dist.DistNetworkError):
                self.store.add(f"beats {self.nodes.number}", 1)
                return ""
            return "the first machine's process has ended"
        for number in range(1, self.nodes.count):
            beats = self.store.add(f"beats {number}", 0)
            before, heard = self._heard.get(number, (0, now))
            if beats != before:
                self._heard[number] = (beats, now)
            elif before and now - heard > SILENCE_S:
                return f"machine {number + 1} gave no sign of life for {SILENCE_S:.0f} s"
        return ""

    def say(self, cause: Exception) -> None:
        """Say why the ranks of this machine ended."""
        with suppress(dist.DistNetworkError):  # the first machine has ended before
            self.store.set(f"{'lost' if isinstance(cause, LostError) else 'failed'} {self.nodes.number}", str(cause))

    def cause(self) -> Exception | None:
        """Return what another machine has said of its ranks, or that there is none any more; None where all go on."""
        if said := self._said():
            return said
        # One that stays silent was lost with its ranks, which ends those of the others.
        others = range(1, self.nodes.count)
        before = {number: self.store.add(f"beats {number}", 0) for number in others}
        time.sleep(CAUSE_FIRST_S + 2 * BEAT_S)
        if said := self._said():
            return said
        silent = (number for number in others if self.store.add(f"beats {number}", 0) == before[number])
        return next((LostError(f"machine {number + 1} was lost") for number in silent), None)

    def _said(self) -> Exception | None:
        for number in range(1, self.nodes.count):
            if self.store.check([f"lost {number}"]):
                return LostError(self.store.get(f"lost {number}").decode())
            if self.store.check([f"failed {number}"]):
                return RankError(self.store.get(f"failed {number}").decode())
        return None


@dataclass
class _Watch:
    """Passes on what the first rank reports, and ends all ranks where one gives no sign of life or none goes on.

    In training all ranks go in step, so the first one's steps say whether all go on. Until two steps are done, and
    while the first rank evaluates or writes, only signs of life are expected: compiling or sampling may take an hour.
    """

    inboxes: list[connection.Connection]
    tell: Tell
    clock: Callable[[], float] = time.monotonic
    neighbours: Neighbours | None = None  # None: one machine
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
            reason = self.neighbours.beat(self.clock()) if self.neighbours else ""
            if not self.reason and (reason := reason or self.hung()):
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
        """Return why the ranks ended, as what is to be raised; the first machine names the cause on any of them."""
        own = self._own_cause(error)
        if self.neighbours is None:
            return own
        if not self.neighbours.nodes.is_first:
            self.neighbours.say(own)
            return own
        return (self.neighbours.cause() if isinstance(own, RankError) else None) or own

    def _own_cause(self, error: ChildFailedError) -> Exception:
        rank, first = error.get_first_failure()
        if self.reason:
            return LostError(self.reason)
        if first.exitcode < 0:
            return LostError(f"rank {rank} was killed by {signal.Signals(-first.exitcode).name}")
        return self.failures[0].error if self.failures else RankError(f"rank {rank} ended with {first.exitcode}")
