"""A batch is a function of its step: the same bits however many processes make it, in any order, after a stop."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.cell.test_step import OWNER, ROUTED, fingerprint, interrupted, make_cell, make_trainer
from tests.toy_suite import no_figures
from tread_bench.cell.loop import Origin, train
from tread_bench.cell.step import Trainer
from tread_bench.core.config.compute import StepOptions
from tread_bench.core.numbers import draws
from tread_bench.data.source import ImageSet

SPRINT = {"method": "sprint", "routes": "1:2@0.75", "selector": "stratified"}
AS_ROUTED = {"method": "sprint", "routes": ROUTED["routes"]}
DRAWS = ["host", "device"]  # the CPU stands in for the device
ONE_EPOCH = {"batch": 500, "iterations": 5}  # 1,438 digits: an epoch ends within the third batch


class OnDisk(ImageSet):
    """Said to be, so that processes prepare its batches."""

    is_in_memory = False


def with_workers(trainer: Trainer, workers: int, draws: str = "host") -> Trainer:
    digits = trainer.data.train
    trainer.data = replace(trainer.data, train=OnDisk(digits.pixels, digits.classes))
    trainer.options = StepOptions(data_workers=workers)
    trainer.draws = draws
    return trainer


def digest(batch):
    """Of every tensor, masks included."""
    tensors = [batch.x, batch.y, batch.t, batch.noise, *batch.range.masks.values()]
    return hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors)).hexdigest()


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("cell", [{}, ROUTED, SPRINT], ids=["dense", "tread", "sprint"])
def test_any_number_of_workers_any_order_and_a_start_in_the_middle_of_an_epoch_give_the_same_bits(cell, draws):
    alone = with_workers(make_trainer(make_cell(training=ONE_EPOCH, **cell)), 0, draws)
    backwards = {step: digest(alone.batch(step)) for step in reversed(range(5))}
    for workers in (0, 1, 4):
        for first in (0, 2):
            trainer = with_workers(make_trainer(make_cell(training=ONE_EPOCH, **cell)), workers, draws)
            with trainer.batches(range(first, 5)) as batches:
                found = {batch.step: digest(trainer.on_device(batch)) for batch in batches}
            assert found == {step: backwards[step] for step in range(first, 5)}


@pytest.mark.parametrize(("workers", "draws"), [(0, "host"), (4, "host"), (0, "device")])
def test_training_ends_with_the_same_bits_for_any_number_of_workers_and_when_resumed(tmp_path, workers, draws):
    expected = with_workers(make_trainer(make_cell(**ROUTED)), 2, draws)
    train(expected, tmp_path / "one", Origin(OWNER), no_figures)
    trainer = with_workers(make_trainer(make_cell(**ROUTED)), workers, draws)
    interrupted(trainer, tmp_path / "other", 7)
    again = with_workers(make_trainer(make_cell(**ROUTED)), 4 - workers, draws)
    train(again, tmp_path / "other", Origin(OWNER), no_figures)
    assert fingerprint(again) == fingerprint(expected)


def test_what_the_device_draws_is_the_same_for_all_rows_and_what_the_host_draws_up_to_rounding():
    tread, sprint = (make_trainer(make_cell(**{**cell, "selector": "stratified"})) for cell in (ROUTED, AS_ROUTED))
    here, there, other = tread.batch(2), *(with_workers(one, 0, "device").batch(2) for one in (tread, sprint))
    for name in ("x", "y", "t", "noise"):
        assert torch.equal(getattr(there, name), getattr(other, name))
        torch.testing.assert_close(getattr(there, name), getattr(here, name), rtol=0, atol=1e-4)
    assert not torch.equal(there.noise, here.noise)
    ((stream, ids),) = there.range.masks.items()
    assert torch.equal(ids, other.range.masks[stream]) and torch.equal(ids, here.range.masks[stream])


def test_an_objective_may_draw_its_times_on_the_host():
    class Own:
        def draw_times(self, samples):
            return torch.arange(samples.first, samples.first + samples.count)

    trainer = with_workers(make_trainer(make_cell()), 0, "device")
    trainer.objective = Own()
    assert torch.equal(trainer.batch(2).t, torch.arange(16, 24))


@pytest.mark.parametrize("draws", DRAWS)
def test_masks_drawn_ahead_are_those_of_the_step_and_of_no_other_share(draws):
    trainer = with_workers(make_trainer(make_cell(**ROUTED)), 0, draws)
    batch, backbone, method = trainer.batch(3), trainer.network.backbone, trainer.network.method

    def drawn(of, **changes):
        return method.draw(backbone, replace(of, **changes), torch.device("cpu"))

    (ahead,) = batch.range.masks.values()
    assert torch.equal(ahead, drawn(batch.range, masks={})[0])
    parts = [drawn(part.range)[0] for part in batch.split(3)]
    assert torch.equal(torch.cat(parts), ahead)
    assert drawn(batch.range, routing=0.0) == {}
    assert drawn(batch.range, routing=0.5)[0].shape[1] == 12


@pytest.fixture
def made(monkeypatch):
    """The epochs whose order is made, one after the other."""
    epochs, order = [], draws._epoch_order.__wrapped__
    monkeypatch.setattr(draws, "_epoch_order", draws.lru_cache(2)(lambda *of: (epochs.append(of[2]), order(*of))[1]))
    return epochs


def test_the_order_of_an_epoch_is_made_once(made):
    """Today's order, item by item; and what a step costs does not grow with the data set."""
    size = 100_003
    found = np.concatenate([draws.permuted(5, "order", step * 256, 256, size) for step in range(600)])
    assert made == [0, 1]
    for epoch in (0, 1):
        key = draws.key_of(5, "order", "epoch", epoch)
        here = found[epoch * size : (epoch + 1) * size]
        assert np.array_equal(here, np.random.Generator(np.random.Philox(key=key)).permutation(size)[: len(here)])


def test_seconds_of_training_count_the_wait_for_a_batch_apart_and_leave_out_evaluation(tmp_path):
    now = [0.0]
    trainer = with_workers(make_trainer(make_cell(metrics={"at": [6, 12]})), 0)

    def taking(seconds, function):
        def slowly(*arguments):
            now[0] += seconds
            return function(*arguments)

        return slowly

    def stop(done, loss, phase="training"):
        if done == 10:
            raise KeyboardInterrupt

    trainer.prepared, trainer.step = taking(3, trainer.prepared), taking(1, trainer.step)
    trainer.clock = lambda: now[0]
    evaluate = taking(100, no_figures)
    with pytest.raises(KeyboardInterrupt):
        train(trainer, tmp_path, Origin(OWNER), evaluate, stop)
    history = train(trainer, tmp_path, Origin(OWNER), evaluate)
    assert (history.train_seconds, history.data_wait_seconds) == (48, 36)


def test_no_process_prepares_batches_of_data_in_memory():
    here = os.getpid()
    trainer = make_trainer(make_cell())
    prepared = trainer.prepared
    trainer.prepared = lambda step: (os.getpid(), prepared(step))
    with trainer.batches(range(3)) as batches:
        assert {process for process, _ in batches} == {here}
    with with_workers(trainer, 2).batches(range(3)) as batches:
        assert here not in {process for process, _ in batches}


@pytest.mark.gpu
def test_on_a_gpu_a_batch_is_the_same():
    cell = make_cell(training=ONE_EPOCH, **ROUTED)
    here = make_trainer(cell)
    there = make_trainer(cell)
    there.device = torch.device("cuda")
    with there.batches(range(2)) as batches:
        for batch in batches:
            copied = there.on_device(batch)
            torch.cuda.synchronize()
            assert copied.x.is_cuda and digest(copied.to(torch.device("cpu"))) == digest(here.batch(batch.step))
