from __future__ import annotations

import hashlib
import itertools

import pytest
import torch

from tests.model.methods.subjects import trainer_of as make_trainer
from tests.toy_suite import OWNER, no_figures
from tread_bench.cell import ema
from tread_bench.cell.loop import Origin, train
from tread_bench.core.config.suite import Cell
from tread_bench.core.numbers import draws
from tread_bench.model.methods.base import BatchRange

BACKBONE = {"name": "DiT", "depth": 4, "hidden": 16, "heads": 2, "patch": 2}


def make_cell(**changes):
    training = {
        "iterations": 12,
        "batch": 8,
        "learning_rate": 1e-3,
        "checkpoint_every": 5,
        **changes.pop("training", {}),
    }
    return Cell.model_validate({"backbone": BACKBONE, "training": training, **changes})


ROUTED = {"method": "tread", "routes": "1:2@0.5"}


def fingerprint(trainer):
    return {name: hashlib.sha256(t.numpy().tobytes()).hexdigest() for name, t in trainer.tensors().items()}


def test_cells_of_a_seed_see_the_same_data_noise_and_times():
    batches = [make_trainer(make_cell(**extra)).batch(3) for extra in ({}, ROUTED)]
    for name in ("x", "y", "t", "noise"):
        assert torch.equal(*(getattr(batch, name) for batch in batches))
    other = make_trainer(make_cell(), seed=1).batch(3)
    assert not torch.equal(batches[0].noise, other.noise)


def test_a_sample_is_the_same_whatever_the_batch_size():
    small, large = (make_trainer(make_cell(training={"batch": b})) for b in (4, 8))
    two = [small.batch(2), small.batch(3)]
    one = large.batch(1)
    for name in ("x", "y", "t", "noise"):
        assert torch.equal(torch.cat([getattr(b, name) for b in two]), getattr(one, name))


def test_masks_depend_on_route_rate_and_sample_alone():
    trainer = make_trainer(make_cell(**ROUTED))
    backbone, method = trainer.network.backbone, trainer.network.method

    def ids(first, count, seed=0):
        return method.draw_all(backbone, BatchRange(seed, first, count), torch.device("cpu"))[0]

    assert torch.equal(torch.cat([ids(0, 3), ids(3, 5)]), ids(0, 8))
    assert not torch.equal(ids(0, 8), ids(0, 8, seed=1))
    assert (ids(0, 8).diff(dim=1) > 0).all()


def test_labels_are_dropped_at_the_stated_rate():
    trainer = make_trainer(make_cell(training={"label_dropout": 0.25, "batch": 4000}))
    assert (trainer.batch(0).y == 10).float().mean().item() == pytest.approx(0.25, abs=0.03)


def test_training_lowers_the_loss():
    trainer = make_trainer(make_cell(training={"iterations": 60, "batch": 32, "learning_rate": 3e-3}))
    losses = [trainer.step(trainer.batch(k)).item() for k in range(60)]
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])


def test_average_follows_its_recurrence():
    weights, average = [torch.tensor([1.0])], [torch.tensor([0.0])]
    expected = 0.0
    for step in range(50):
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * 1.0
        ema.update(average, weights, ema.decay_at(step, 0.9))
    assert average[0].item() == pytest.approx(expected, rel=1e-5)


def test_average_of_a_short_run_has_left_the_initial_weights():
    remaining = 1.0
    for step in range(1200):
        remaining *= ema.decay_at(step, 0.9999)
    assert remaining < 1e-12
    assert 0.9999**1200 > 0.88  # what a plain decay would have left


def interrupted(trainer, folder, at, **options):
    """Train until step `at` and stop as if the process had died there."""

    class DeathError(Exception):
        pass

    counter = itertools.count()
    step = trainer.step

    def dying(batch):
        if next(counter) == at:
            raise DeathError
        return step(batch)

    trainer.step = dying
    with pytest.raises(DeathError):
        train(trainer, folder, Origin(OWNER), no_figures, **options)


MUON = {**ROUTED, "training": {"optimizer": "muon", "weight_decay": 0.1, "gradient_clip": 1.0, "warmup": 3}}


@pytest.mark.parametrize("extra", [{}, ROUTED, MUON], ids=["dense", "tread", "muon"])
@pytest.mark.parametrize("at", [1, 6, 11])
def test_a_broken_off_cell_ends_bit_for_bit_as_an_undisturbed_one(tmp_path, extra, at):
    whole = make_trainer(make_cell(**extra))
    undisturbed = train(whole, tmp_path / "a", Origin(OWNER), no_figures)
    interrupted(make_trainer(make_cell(**extra)), tmp_path / "b", at)
    again = make_trainer(make_cell(**extra))
    resumed = train(again, tmp_path / "b", Origin(OWNER), no_figures)
    assert fingerprint(again) == fingerprint(whole)
    assert resumed.train_loss == undisturbed.train_loss


def test_evaluations_come_at_the_stated_iterations_and_survive_a_break(tmp_path):
    cell = make_cell(metrics={"at": [4, 9, 12]})
    asked = []

    def evaluate(trainer, iteration, seconds):
        asked.append(iteration)
        return no_figures(trainer, iteration, seconds)

    interrupted_trainer = make_trainer(cell)
    step = interrupted_trainer.step
    interrupted_trainer.step = lambda b: step(b) if b.step < 10 else (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        train(interrupted_trainer, tmp_path, Origin(OWNER), evaluate)
    history = train(make_trainer(cell), tmp_path, Origin(OWNER), evaluate)
    assert [e.iteration for e in history.evaluations] == [4, 9, 12]
    assert asked == [4, 9, 12]


def test_there_is_news_of_progress_every_second_however_rarely_losses_are_read(tmp_path):
    histories, news = [], []
    for seconds in (0.0, 0.5, 7.0):
        now, told = [0.0], []
        trainer = make_trainer(make_cell(training={"iterations": 1000, "checkpoint_every": 1000}))

        def step(batch, now=now, seconds=seconds):
            now[0] += seconds
            return torch.tensor(float(batch.step))

        trainer.step = step

        def progress(done, loss, phase="training", told=told):
            told.append((phase, done))

        told_of = (tmp_path / str(seconds), Origin(OWNER), no_figures, progress)
        trainer.clock = lambda now=now: now[0]
        histories.append(train(trainer, *told_of).train_loss)
        assert told[-3:] == [("training", 1000), ("saving", 1000), ("training", 1000)]
        news.append([done for _, done in told[:-2]])
    assert histories[0] == histories[1] == histories[2] and len(histories[0]) == 200
    assert news[0] == list(range(5, 1001, 5))
    assert news[1] == sorted({*range(5, 1001, 5), *(k for k in range(1, 1001) if k % 5 in (2, 4))})
    assert news[2] == list(range(1, 1001))


def test_data_order_covers_every_image_once_an_epoch():
    items = draws.permuted(0, "order", 0, 1437, 1437)
    assert sorted(items) == list(range(1437))
