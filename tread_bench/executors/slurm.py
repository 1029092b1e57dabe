"""Tasks as jobs of Slurm, through submitit: an array whose jobs Slurm may stop and start again elsewhere."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from tread_bench.errors import UserError
from tread_bench.executors.node import end_of
from tread_bench.executors.remote import Handle, follow
from tread_bench.executors.tasks import Ended, Event, Task

ARRAY = 1000  # jobs in one array; Slurm's MaxArraySize is 1001 where nobody has changed it
DEFAULT_MINUTES = 720  # of a job without limits.cell_minutes; a job that reaches its limit goes on in its next life
START_MINUTES = 10  # that a job may take beyond its cell's limit
LIVES = 100  # times that a job may reach its limit
QUEUE_S = 5.0  # between two questions to Slurm
GRACE_S = 15.0  # in which the file of a job that has left the queue may still appear on a shared disk


@dataclass(frozen=True, slots=True)
class Slurm:
    """As many jobs at a time as Slurm has room for, and at most `workers`; their scripts and logs are in `folder`.

    Partition, account and the like are those of the environment variables that `sbatch` reads (SBATCH_PARTITION ...),
    which go before what a script asks for. `cluster` "local" runs the same jobs without Slurm.
    """

    folder: Path
    workers: int | None = None
    cluster: Literal["slurm", "local"] = "slurm"

    @property
    def at_once(self) -> int | None:
        return self.workers

    def sized(self, numerics: dict[str, Any]) -> Slurm:
        return self

    def __call__(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        submitit = _submitit(self.cluster)
        queue = _Queue(self.cluster)

        def submit(some: Sequence[Task]) -> list[Handle]:
            arrays = [list(group) for _, group in groupby(enumerate(some), lambda entry: entry[0] // ARRAY)]
            return [handle for array in arrays for handle in self._array(submitit, [t for _, t in array], queue)]

        return follow(tasks, submit)

    def _array(self, submitit: Any, tasks: list[Task], queue: _Queue) -> list[_Job]:
        """One job for each of the tasks, which ask for the same."""
        executor = submitit.AutoExecutor(folder=self.folder, cluster=self.cluster, slurm_max_num_timeout=LIVES)
        first = tasks[0]
        wanted = DEFAULT_MINUTES if first.limit_s is None else math.ceil(first.limit_s / 60) + START_MINUTES
        limit = min(wanted, longest_job_minutes()) if self.cluster == "slurm" else wanted
        executor.update_parameters(name="tread-bench", timeout_min=int(limit), cpus_per_task=first.cpus)
        executor.update_parameters(slurm_array_parallelism=self.workers or len(tasks))
        executor.update_parameters(slurm_srun_args=[f"--cpus-per-task={first.cpus}"])  # not passed on since Slurm 22.05
        if first.gpus:
            executor.update_parameters(gpus_per_node=first.gpus)
        try:
            jobs = executor.map_array(_Restartable(submitit), tasks)
        except (submitit.core.utils.FailedJobError, subprocess.CalledProcessError) as error:
            raise UserError(f"--executor slurm: sbatch takes no such jobs: {_last_line(error)}") from None
        return [_Job(task.key, job, queue) for task, job in zip(tasks, jobs, strict=True)]


class _Restartable:
    """What a job calls; when its time is up, submitit queues the job again with what `checkpoint` gives it."""

    def __init__(self, submitit: Any) -> None:
        self.again = submitit.helpers.DelayedSubmission

    def __call__(self, task: Task) -> Ended:
        return end_of(task)

    def checkpoint(self, task: Task) -> Any:
        return self.again(self, task)  # the cell goes on from its own checkpoint


class _Queue:
    """Which of the user's jobs Slurm still has, waiting, running or about to start again."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.asked, self.jobs = -math.inf, frozenset[str]()

    def has(self, job: Any) -> bool:
        if self.cluster == "local":
            return not job.done(force_check=True)
        if time.monotonic() - self.asked >= QUEUE_S:
            self._ask()
        return job.job_id in self.jobs

    def _ask(self) -> None:
        told = subprocess.run(
            ["squeue", "--me", "--array", "--noheader", "--format=%i"], capture_output=True, text=True
        )
        self.asked = time.monotonic()
        if told.returncode == 0:  # a controller that does not answer has lost nothing
            self.jobs = frozenset(told.stdout.split())


class _Job:
    """A job, which has ended when it has left its result, or was lost when it left the queue without one."""

    def __init__(self, key: str, job: Any, queue: _Queue) -> None:
        self.key, self.job, self.queue = key, job, queue
        self.submitted = time.monotonic()
        self.gone: float | None = None  # since when the queue does not have it

    def ended(self) -> Ended | None:
        if self.job.paths.result_pickle.exists():
            return self._told()
        if self.queue.asked < self.submitted and self.queue.cluster == "slurm":
            self.queue.asked = -math.inf  # what it said before says nothing about this job
        if self.queue.has(self.job):
            self.gone = None
            return None
        now = time.monotonic()
        self.gone = self.gone or now
        if now - self.gone < (GRACE_S if self.queue.cluster == "slurm" else 0):
            return None
        where = self.job.paths.stdout
        return Ended(self.key, failure=f"Slurm job {self.job.job_id} ended without a word; its log: {where}", lost=True)

    def _told(self) -> Ended:
        error = self.job.exception()
        if error is None:
            ended: Ended = self.job.result()
            return ended
        before_log_paths = str(error).rpartition("\n----")[0] or str(error)
        return Ended(self.key, failure=f"Slurm job {self.job.job_id}: {_last_line(before_log_paths)}")

    def cancel(self) -> None:
        self.job.cancel()


def longest_job_minutes() -> float:
    """What the partition that jobs go to allows; a job that asks for more would wait for ever."""
    told = subprocess.run(["sinfo", "--noheader", "--format=%P %l"], capture_output=True, text=True).stdout
    limits = dict(line.split() for line in told.splitlines() if len(line.split()) == 2)
    named = os.environ.get("SBATCH_PARTITION", "").split(",")
    chosen = [limit for name, limit in limits.items() if name.rstrip("*") in named or (named == [""] and "*" in name)]
    return min(map(_minutes, chosen), default=math.inf)


def _minutes(limit: str) -> float:
    """Of a time as sinfo writes it: [days-]hours:minutes:seconds, with the larger ones left out."""
    days, _, clock = limit.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in (*parts, days or "0")):
        return math.inf  # "infinite"
    seconds = sum(int(part) * 60**power for power, part in enumerate(reversed(parts)))
    return int(days or 0) * 1440 + seconds / 60


def _last_line(told: object) -> str:
    return next(iter(str(told).strip().splitlines()[-1:]), "no message")


def _submitit(cluster: str) -> Any:
    """submitit. Raises UserError where it is not installed, or where there is no Slurm."""
    try:
        import submitit
    except ModuleNotFoundError:
        raise UserError("--executor slurm needs submitit: pip install 'tread-bench[slurm]'") from None
    if cluster == "slurm" and not shutil.which("sbatch"):
        raise UserError(
            "--executor slurm: there is no sbatch on this machine's PATH; start it on a login node, or train parts of "
            "the cells with --shard I/N under another scheduler"
        )
    return submitit
