"""Tasks on a Ray cluster: the one that `RAY_ADDRESS` names or that runs on this machine, else one of this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from tread_bench.errors import UserError
from tread_bench.executors.node import end_of
from tread_bench.executors.remote import follow
from tread_bench.executors.tasks import Ended, Event, Task, check_gpus

CALL_S = 10.0  # in which a cluster's head must answer


@dataclass(frozen=True, slots=True)
class Ray:
    """As many tasks at a time as the cluster has CPUs and GPUs for, and at most `workers`."""

    workers: int | None = None

    @property
    def at_once(self) -> int | None:
        return self.workers

    def sized(self, numerics: dict[str, Any]) -> Ray:
        return self

    def __call__(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        ray = _connected()
        most = max(node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"])
        check_gpus(tasks, int(most), "the largest node of the Ray cluster has")
        # Nothing is tried again by Ray: the run folder knows what to go on from. A worker serves task after task.
        remote = ray.remote(max_retries=0, max_calls=0)(end_of)

        def submit(some: Sequence[Task]) -> list[_Submitted]:
            return [_Submitted(t.key, ray, _options(remote, t).remote(t)) for t in some]

        return follow(tasks, submit, self.workers)


def _options(remote: Any, task: Task) -> Any:
    return remote.options(num_cpus=task.cpus, num_gpus=task.gpus, name=task.key)


def _connected() -> Any:
    """Ray, connected. Raises UserError where it is not installed or no cluster answers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise UserError("--executor ray needs Ray: pip install 'tread-bench[ray]'") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "")
        try:
            _call(address)
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(
                f"--executor ray: no Ray cluster at {address or 'this machine'} ({_first_line(error)}); set "
                "RAY_ADDRESS to that of a head node, or unset it to have a cluster of this machine"
            ) from None
    return ray


def _call(address: str) -> None:
    """Raises OSError where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CALL_S).close()


class _Submitted:
    """A task that Ray has."""

    def __init__(self, key: str, ray: Any, reference: Any) -> None:
        self.key, self.ray, self.reference = key, ray, reference
        self.future: Future[Ended] = reference.future()

    def ended(self) -> Ended | None:
        if not self.future.done():
            return None
        error = self.future.exception()
        return self.future.result() if error is None else _without_word(self.key, error, self.ray.exceptions)

    def cancel(self) -> None:
        self.ray.cancel(self.reference, force=True)


def _without_word(key: str, error: BaseException, kinds: Any) -> Ended:
    """The end of a task that came back as an error of Ray's."""
    losses = (kinds.WorkerCrashedError, kinds.NodeDiedError, kinds.LocalRayletDiedError, kinds.ObjectLostError)
    lost = isinstance(error, (*losses, kinds.OutOfMemoryError))
    return Ended(key, failure=f"Ray: {type(error).__name__}: {_first_line(error)}", lost=lost)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "no message")
