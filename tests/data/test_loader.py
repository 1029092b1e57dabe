"""Batches made ahead: the same for any number of threads, bounded, and nothing left behind however a loop ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tread_bench.core.errors import UserError
from tread_bench.data.loader import BATCHES_PER_WORKER, Loader

WORKERS = [0, 1, 4]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_come_in_the_order_of_their_steps_once_each(workers: int) -> None:
    def slow_first(step: int) -> int:
        time.sleep(0 if step % 4 else 0.05)  # later ones are finished before it
        return step**2

    with Loader(slow_first, range(3, 23), workers) as batches:
        assert list(batches) == [step**2 for step in range(3, 23)]


@pytest.mark.parametrize("workers", [1, 4])
def test_no_more_are_made_ahead_than_stated(workers: int) -> None:
    made: list[int] = []
    with Loader(made.append, range(100), workers) as batches:
        for taken in range(1, 6):
            next(batches)
            time.sleep(0.02)
            assert taken <= len(made) <= taken + workers * BATCHES_PER_WORKER
    assert len(made) <= 5 + workers * BATCHES_PER_WORKER


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


def test_leaving_early_ends_the_threads_and_makes_no_more() -> None:
    made: list[int] = []

    def make(step: int) -> None:
        time.sleep(0.01)
        made.append(step)

    with Loader(make, range(10_000), 4) as batches:
        next(batches)
    count = len(made)
    time.sleep(0.05)
    assert len(made) == count < 20


def test_while_the_device_is_busy_no_wait_counts() -> None:
    """A device that is still at work for longer than the batch takes: that the host waits costs nothing."""
    ready = threading.Event()

    def make(step: int) -> int:
        ready.wait(10)
        return step

    def device_ends() -> None:
        ready.set()
        time.sleep(0.1)

    with Loader(make, range(1), 1, synchronize=device_ends) as batches:
        assert next(batches) == 0
    assert batches.waited_s < 0.05


def test_the_threads_compute_without_helpers_and_the_process_keeps_its_own() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with Loader(lambda step: torch.get_num_threads(), range(8), 2) as batches:
            assert set(batches) == {1} and torch.get_num_threads() == 2
        with ThreadPoolExecutor() as pool:
            assert [torch.get_num_threads(), pool.submit(torch.get_num_threads).result()] == [2, 2]
    finally:
        torch.set_num_threads(before)
