"""Where the processes of a run are, and what each of them may use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tread_bench.core.config.compute import Limits
from tread_bench.runner.executors.local import Local
from tread_bench.runner.executors.ray import Ray
from tread_bench.runner.executors.slurm import Slurm
from tread_bench.runner.executors.tasks import Ended, Executor, Task, run_one
from tread_bench.runner.folder import check_there


@dataclass(frozen=True, slots=True)
class Site:
    """An executor, and the threads and GPUs of one process; a process that is lost is started again."""

    executor: Executor
    limits: Limits
    cpus: int
    gpus: int

    def task(self, key: str, function: str, arguments: tuple[Any, ...], log: Path) -> Task:
        """Return a task of one process."""
        return Task(key, function, arguments, log, limit_s=self.limits.limit_s, cpus=self.cpus, gpus=self.gpus)

    def task_of_ranks(self, key: str, function: str, root: Path, cell_id: str, log: Path, reports: bool) -> Task:
        """Return a task that calls the function with the run folder, a cell's id and the number of its processes."""
        ranks = self.limits.processes_per_cell
        task = self.task(key, function, (root, cell_id, ranks), log)
        return replace(task, reports=reports, processes=ranks, cpus=ranks * self.cpus, gpus=ranks * self.gpus)

    def end_of(self, task: Task) -> Ended:
        """Return the end of a task. Raises StoreError where its folder is gone, OSError where its disk cannot be
        used.
        """
        ended = run_one(task, self.executor, self.limits.retries)
        check_there(task.log.parent)
        if ended.disk:
            raise ended.disk
        return ended


def executor_named(name: str, workers: int | None, root: Path, limits: Limits) -> Executor:
    """`local`, `ray` or `slurm`; the latter keeps its jobs' files in the run folder `root`."""
    if name == "slurm":
        return Slurm(root / "slurm", workers, limits.job_minutes)
    return Ray(workers) if name == "ray" else Local(workers)
