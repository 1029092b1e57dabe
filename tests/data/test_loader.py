"""Batches made ahead: the same for any number of processes, bounded, and nothing left behind however a loop ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch

from tread_bench.core.errors import LostError, UserError
from tread_bench.data.loader import BATCHES_PER_WORKER, Loader

WORKERS = [0, 1, 4]


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_come_in_the_order_of_their_steps_once_each(workers: int) -> None:
    def slow_first(step: int) -> int:
        time.sleep(0 if step % 4 else 0.05)  # later ones are finished before it
        return step**2

    with Loader(slow_first, range(3, 23), workers) as batches:
        assert list(batches) == [step**2 for step in range(3, 23)]


@pytest.mark.parametrize("workers", [1, 4])
def test_no_more_are_made_ahead_than_stated_and_leaving_early_makes_no_more(workers: int) -> None:
    made = multiprocessing.Value("i")

    def make(step: int) -> None:
        with made.get_lock():
            made.value += 1

    with Loader(make, range(100), workers) as batches:
        for taken in range(1, 6):
            next(batches)
            time.sleep(0.02)
            assert taken <= made.value <= taken + workers * BATCHES_PER_WORKER
    assert made.value <= 5 + workers * BATCHES_PER_WORKER


@pytest.mark.parametrize("workers", WORKERS)
def test_what_a_batch_raises_is_raised_at_its_step(workers: int) -> None:
    def make(step: int) -> int:
        if step == 2:
            raise UserError("train.safetensors, latent 7: contains NaN")
        return step

    with Loader(make, range(9), workers) as batches:
        assert [next(batches), next(batches)] == [0, 1]
        with pytest.raises(UserError, match=r"^train\.safetensors, latent 7"):
            next(batches)


def test_while_the_device_is_busy_no_wait_counts(tmp_path: Path) -> None:
    """A device that is still at work for longer than the batch takes: that the host waits costs nothing."""
    ready = tmp_path / "ready"

    def make(step: int) -> int:
        while not ready.exists():
            time.sleep(0.001)
        return step

    def device_ends() -> None:
        ready.touch()
        time.sleep(0.2)

    with Loader(make, range(1), 1, synchronize=device_ends) as batches:
        assert next(batches) == 0
    assert batches.waited_s < 0.1


def test_the_processes_compute_on_one_thread_and_are_ended_by_the_system_alone() -> None:
    def about(step: int) -> tuple[int, int, object, object]:
        handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        return os.getpid(), torch.get_num_threads(), *handlers

    with Loader(about, range(8), 2) as batches:
        pids, threads, of_interrupt, of_end = map(set, zip(*batches, strict=True))
    assert os.getpid() not in pids
    assert (threads, of_interrupt, of_end) == ({1}, {signal.SIG_IGN}, {signal.SIG_DFL})


def test_a_process_that_is_killed_is_a_loss_that_a_retry_may_well_survive() -> None:
    def make(step: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with Loader(make, range(8), 1) as batches, pytest.raises(LostError, match=r"/dev/shm.*data_workers: 0"):
        next(batches)


def test_no_process_outlives_the_one_that_is_killed(tmp_path: Path) -> None:
    def train() -> None:
        def make(step: int) -> None:
            (tmp_path / str(os.getpid())).touch()
            time.sleep(60)

        with Loader(make, range(8), 2) as batches:
            next(batches)

    training = multiprocessing.get_context("fork").Process(target=train)
    training.start()
    deadline = time.monotonic() + 60
    while len(pids := [int(path.name) for path in tmp_path.iterdir()]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    training.kill()
    training.join()
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
