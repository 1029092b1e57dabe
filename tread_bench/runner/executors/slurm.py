"""Tasks as jobs of Slurm, through submitit: an array whose jobs Slurm may stop and start again elsewhere."""

from __future__ import annotations

import math
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tread_bench.core.errors import UserError
from tread_bench.runner.executors.remote import end_here, follow
from tread_bench.runner.executors.tasks import Ended, Event, Task

SAVING_S = 60.0  # of the 90 s between Slurm's signal and the end of a job
LIVES = 100  # times that a job may reach its limit
QUEUE_S = 5.0  # between two queries to Slurm
GRACE_S = 15.0  # in which the file of a job that has left the queue may still appear on a shared disk


@dataclass(frozen=True, slots=True)
class Slurm:
    """As many jobs at a time as Slurm has room for, and at most `at_once`; their scripts and logs are in `folder`.

    Partition, account and the like are those of the environment variables that `sbatch` reads (SBATCH_PARTITION ...),
    which take precedence over what a script requests.
    """

    folder: Path
    at_once: int | None = None
    job_minutes: float = 720  # after which a job is queued again, and its cell resumes

    def may_have_gpus(self) -> bool:
        _submitit()  # or say what is missing
        asked = ["sinfo", "--noheader", "--format=%P %G"]
        output = subprocess.run(asked, capture_output=True, text=True).stdout
        named = os.environ.get("SBATCH_PARTITION", "").split(",")
        for line in output.splitlines():
            name, _, resources = line.partition(" ")
            is_default = named == [""] and "*" in name
            if (is_default or name.rstrip("*") in named) and "gpu" in resources:
                return True
        return False

    def __call__(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        return follow(tasks, _Jobs(self, _submitit()))


class _Restartable:
    """What a job calls.

    When its time is up, submitit queues the job again with what `checkpoint` gives it.
    """

    def __call__(self, task: Task) -> Ended:
        return end_here(task)

    def checkpoint(self, task: Task) -> Any:
        """Called before Slurm ends the job: a cell saves, and resumes from there."""
        from submitit.helpers import DelayedSubmission

        for child in multiprocessing.active_children():
            child.terminate()
            child.join(SAVING_S)
        return DelayedSubmission(self, task)


@dataclass(slots=True)
class _Job:
    """A submitted task."""

    key: str
    job: Any  # of submitit
    submitted: float
    gone: float | None = None  # since when the queue does not have it


class _Jobs:
    """Slurm's side of `follow`: job arrays."""

    def __init__(self, about: Slurm, submitit: Any) -> None:
        self.about, self.submitit = about, submitit
        self.asked_at, self.queued = -math.inf, frozenset[str]()  # jobs that Slurm had when it was asked last
        self.has_answered = False

    def submit(self, tasks: Sequence[Task]) -> Iterator[_Job]:
        """An array with a job for each of the tasks, which request the same resources."""
        if not tasks:
            return
        first, about = tasks[0], self.about
        about.folder.mkdir(exist_ok=True)
        executor = self.submitit.AutoExecutor(
            folder=about.folder,
            cluster="slurm",
            slurm_max_num_timeout=LIVES,
            slurm_python=f"{shlex.quote(sys.executable)} -P",  # it imports nothing from its working directory
        )
        executor.update_parameters(
            name="tread-bench",
            timeout_min=int(about.job_minutes),
            tasks_per_node=1,
            cpus_per_task=first.cpus,
            slurm_array_parallelism=about.at_once or len(tasks),
            # srun does not take it from sbatch since Slurm 22.05.
            slurm_srun_args=[f"--cpus-per-task={first.cpus}"],
            **({"gpus_per_node": first.gpus} if first.gpus else {}),
        )
        try:
            jobs = executor.map_array(_Restartable(), tasks)
        except (self.submitit.core.utils.FailedJobError, subprocess.CalledProcessError) as error:
            raise UserError(
                f"--executor slurm: sbatch refused the jobs: {_last_line(error)}; choose what to request with "
                "SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_QOS and SBATCH_TIMELIMIT, or submit some with --shard I/N"
            ) from None
        for task, job in zip(tasks, jobs, strict=True):
            yield _Job(task.key, job, time.monotonic())

    def ended(self, handle: _Job) -> Ended | None:
        """Return what the job has left as its result; a lost job may still be queued again, and then resumes."""
        ended = _reported(handle) if handle.job.task(0).paths.result_pickle.exists() else None
        if ended is not None and not ended.lost:
            return ended
        if self._is_queued(handle):
            handle.gone = None
            return None
        handle.gone = handle.gone or time.monotonic()
        if ended is None and time.monotonic() - handle.gone < GRACE_S:
            return None
        where = f"its log: {handle.job.task(0).paths.stdout}"
        failure = f"Slurm job {handle.job.job_id} ended without a result; {where}"
        return ended or Ended(handle.key, failure=failure, lost=True)

    def _is_queued(self, handle: _Job) -> bool:
        """Whether Slurm still has a job: waiting, running, or about to start again.

        True also while Slurm does not answer: an unreachable controller has lost nothing.
        """
        if time.monotonic() - self.asked_at >= QUEUE_S or self.asked_at < handle.submitted:
            asked = ["squeue", "--me", "--array", "--noheader", "--format=%i"]
            answer = subprocess.run(asked, capture_output=True, text=True)
            self.asked_at, self.has_answered = time.monotonic(), answer.returncode == 0
            self.queued = frozenset(answer.stdout.split())
        return not self.has_answered or handle.job.job_id in self.queued

    def cancel(self, handles: Sequence[_Job]) -> None:
        if arrays := sorted({handle.job.job_id.partition("_")[0] for handle in handles}):
            subprocess.run(["scancel", *arrays], capture_output=True)


def _reported(handle: _Job) -> Ended:
    """The result that a job has left."""
    error = handle.job.task(0).exception()
    if error is None:
        ended: Ended = handle.job.task(0).result()
        return ended
    before_log_paths = str(error).rpartition("\n----")[0] or str(error)
    return Ended(handle.key, failure=f"Slurm job {handle.job.job_id}: {_last_line(before_log_paths)}")


def _last_line(text: object) -> str:
    return next(iter(str(text).strip().splitlines()[-1:]), "no message")


def _submitit() -> Any:
    """submitit. Raises UserError where it is not installed, or where there is no Slurm."""
    try:
        import submitit
    except ModuleNotFoundError:
        raise UserError("--executor slurm needs submitit: pip install 'tread-bench[slurm]'") from None
    if absent := [name for name in ("sbatch", "squeue", "scancel", "sinfo") if not shutil.which(name)]:
        raise UserError(
            f"--executor slurm: {', '.join(absent)} not found on this machine's PATH; start the run on a login node, "
            "or train parts of the cells with --shard I/N under another scheduler"
        )
    return submitit
