"""Tasks on a Ray cluster: the one that `RAY_ADDRESS` names or that runs on this machine, else one of this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import chdir
from dataclasses import dataclass
from typing import Any

from tread_bench.core.errors import UserError, failure_text
from tread_bench.runner.executors.remote import end_here, follow
from tread_bench.runner.executors.tasks import Ended, Event, Task

CALL_S = 10.0  # in which a cluster's head must answer


@dataclass(frozen=True, slots=True)
class Ray:
    """As many tasks at a time as the cluster has CPUs and GPUs for, and at most `at_once`."""

    at_once: int | None = None

    def may_have_gpus(self) -> bool:
        return any(node["Resources"].get("GPU", 0) for node in _connected().nodes() if node["Alive"])

    def __call__(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        ray = _connected()
        _check_room(tasks, [node["Resources"] for node in ray.nodes() if node["Alive"]])
        return follow(tasks, _Cluster(ray), self.at_once)


def _check_room(tasks: Sequence[Task], nodes: Sequence[Mapping[str, float]]) -> None:
    """Raises UserError where no node can ever run a task; Ray would wait forever."""
    for cpus, gpus in {(task.cpus, task.gpus) for task in tasks}:
        if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
            raise UserError(
                f"--executor ray: a cell requests {cpus} CPUs and {gpus} GPUs (limits.processes_per_cell x "
                "compute.threads or gpus_per_cell), and no node of the cluster has both: request less, or add such a "
                "node"
            )


class _Cluster:
    """Ray's side of `follow`. Ray retries nothing: the run folder knows what to resume from."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.remote = ray.remote(max_retries=0, max_calls=0)(end_here)  # a worker serves task after task

    def submit(self, tasks: Sequence[Task]) -> Iterator[tuple[str, Any, Future[Ended]]]:
        for task in tasks:
            placed = self.remote.options(num_cpus=task.cpus, num_gpus=task.gpus, name=task.key)
            reference = placed.remote(task)
            yield task.key, reference, reference.future()

    def ended(self, handle: tuple[str, Any, Future[Ended]]) -> Ended | None:
        key, _, future = handle
        if not future.done():
            return None
        error = future.exception()
        if error is None:
            return future.result()
        kinds = self.ray.exceptions
        losses = (kinds.WorkerCrashedError, kinds.NodeDiedError, kinds.LocalRayletDiedError, kinds.ObjectLostError)
        lost = isinstance(error, (*losses, kinds.OutOfMemoryError))
        return Ended(key, failure=f"Ray: {failure_text(error)}", lost=lost)

    def cancel(self, handles: Sequence[tuple[str, Any, Future[Ended]]]) -> None:
        for _, reference, _ in handles:
            self.ray.cancel(reference, force=True)


def _connected() -> Any:
    """Ray, connected. Raises UserError where it is not installed or no cluster answers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise UserError("--executor ray needs Ray: pip install 'tread-bench[ray]'") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "")
        host, _, port = address.rpartition(":")
        try:
            if host and port.isdecimal() and "/" not in host:  # Ray itself would try for minutes
                socket.create_connection((host.strip("[]"), int(port)), timeout=CALL_S).close()
            with chdir("/"):  # Ray's workers import from the working directory of the process that connects
                ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(
                f"--executor ray: no Ray cluster at {address or 'this machine'} ({failure_text(error)}); set "
                "RAY_ADDRESS to that of a head node; without it a cluster is started on this machine (`ray stop` "
                "clears a dead one)"
            ) from None
    return ray
