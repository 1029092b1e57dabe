"""Averages kept in training, their snapshots, and networks reconstructed from them, against the weights' whole path."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import pytest
import torch

from tests.cell.test_step import ROUTED, fingerprint, make_cell, make_trainer
from tests.core.test_power_averages import discrete
from tests.toy_suite import OWNER, no_figures, owner
from tread_bench.cell.averages import Snapshots, remove_snapshots
from tread_bench.cell.loop import History, train
from tread_bench.cell.step import Trainer
from tread_bench.core.numbers.power_averages import Profile, exponent_of, fit
from tread_bench.core.stored.files import StoreError
from tread_bench.core.stored.identity import StrangerError

STEPS = 48
STORED = (0.05, 0.10)


def averaged_cell(snapshots: int = 8, steps: int = STEPS, **training):
    averages = {"snapshots": snapshots, "widths": STORED}
    return make_cell(training={"iterations": steps, "averages": averages, **training}, **ROUTED)


class Trained(NamedTuple):
    trainer: Trainer
    snapshots: Snapshots
    path: torch.Tensor  # of all weights in one row, (steps, number of weights), float64

    def reconstructed(self, width: float, iteration: int = STEPS) -> tuple[torch.Tensor, float]:
        trainer = self.trainer
        network, correlation = self.snapshots.network(trainer.average, trainer.averages, iteration, width)
        return flat(dict(network.named_parameters()), trainer), correlation

    def direct(self, width: float) -> torch.Tensor:
        """The average of a width that was kept from the first step on."""
        return torch.from_numpy(discrete(Profile(exponent_of(width), STEPS), STEPS)) @ self.path


def flat(found: dict[str, torch.Tensor], trainer: Trainer, prefix: str = "") -> torch.Tensor:
    return torch.cat([found[f"{prefix}{name}"].detach().double().flatten() for name, _ in trainer.named_parameters()])


def trained(folder, number: int) -> Trained:
    trainer = make_trainer(averaged_cell(number))
    path = []
    step = trainer.step

    def seen(batch):
        loss = step(batch)
        path.append(flat(dict(trainer.network.named_parameters()), trainer))
        return loss

    trainer.step = seen
    snapshots = Snapshots(folder, OWNER)
    train(trainer, folder / "checkpoints", OWNER, no_figures, snapshots=snapshots)
    return Trained(trainer, snapshots, torch.stack(path))


@pytest.fixture(scope="module", params=[8, 16])
def run(request, tmp_path_factory) -> Trained:
    return trained(tmp_path_factory.mktemp("run"), request.param)


def test_a_cell_without_them_has_none(tmp_path):
    plain = make_trainer(make_cell())
    assert plain.averages is None and not any(name.startswith("averages.") for name in plain.tensors())
    train(plain, tmp_path / "checkpoints", OWNER, no_figures, snapshots=Snapshots(tmp_path, OWNER))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_they_change_nothing_else():
    plain, averaging = make_trainer(make_cell(**ROUTED)), make_trainer(averaged_cell())
    for step in range(5):
        plain.step(plain.batch(step))
        averaging.step(averaging.batch(step))
    assert fingerprint(plain).items() < fingerprint(averaging).items()


def test_the_ones_that_are_kept_have_their_profiles(run):
    for width in STORED:
        kept = flat(run.trainer.averages.tensors(), run.trainer, f"{width}.")
        assert torch.allclose(kept, run.direct(width), rtol=1e-5, atol=1e-7)


def test_stored_widths_come_back(run):
    for width in STORED:
        kept = flat(run.trainer.averages.tensors(), run.trainer, f"{width}.")
        found, correlation = run.reconstructed(width)
        assert (found - kept).abs().max() <= 1e-6 and correlation == pytest.approx(1)


@pytest.mark.parametrize("width", [0.03, 0.07, 0.13, 0.20])
def test_other_widths_differ_from_a_direct_average_by_what_the_profiles_say(run, width):
    found, correlation = run.reconstructed(width)
    moments = run.trainer.cell.training.averages.saved_at(STEPS)
    stored = [Profile(exponent_of(one), moment) for moment in moments for one in STORED]
    shares = fit(stored, Profile(exponent_of(width), STEPS)).coefficients
    apart = sum(share * discrete(profile, STEPS) for share, profile in zip(shares, stored, strict=True))
    predicted = torch.from_numpy(apart) @ run.path - run.direct(width)
    assert torch.allclose(found - run.direct(width), predicted, rtol=0, atol=2e-6)
    assert correlation >= 0.99


def test_before_the_end_the_averages_of_that_moment_complete_the_snapshots(tmp_path):
    """As an evaluation on the way has it: at 0.1 that is the one that is kept, whatever snapshots there are."""
    trainer = make_trainer(averaged_cell())
    snapshots = Snapshots(tmp_path, OWNER)
    differences = []

    def evaluate(trainer, iteration, seconds):
        network, _ = snapshots.network(trainer.average, trainer.averages, iteration, 0.1)
        kept = flat(trainer.averages.tensors(), trainer, "0.1.")
        differences.append((flat(dict(network.named_parameters()), trainer) - kept).abs().max().item())
        return no_figures(trainer, iteration, seconds)

    trainer.cell = trainer.cell.model_copy(update={"metrics": trainer.cell.metrics.model_copy(update={"at": (3, 20)})})
    train(trainer, tmp_path / "checkpoints", OWNER, evaluate, snapshots=snapshots)
    assert len(differences) == 2 and max(differences) <= 1e-6


def files(folder) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / "averages").iterdir()}


@pytest.mark.parametrize("broken_at", [17, 18])
def test_a_training_that_was_broken_off_ends_with_the_same_snapshots(run, tmp_path, broken_at):
    number = len(run.snapshots.written)
    first = make_trainer(averaged_cell(number))
    step = first.step
    first.step = lambda b: step(b) if b.step < broken_at else (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        train(first, tmp_path / "checkpoints", OWNER, no_figures, snapshots=Snapshots(tmp_path, OWNER))
    again, snapshots = make_trainer(averaged_cell(number)), Snapshots(tmp_path, OWNER)
    train(again, tmp_path / "checkpoints", OWNER, no_figures, snapshots=snapshots)
    assert fingerprint(again) == fingerprint(run.trainer)
    assert files(tmp_path) == files(run.snapshots.cell) == snapshots.written
    assert len(snapshots.written) == number


def test_training_on_goes_on_from_their_snapshots(tmp_path):
    """To equal time: with those of the training before, which keeps its own."""
    trainer, first = make_trainer(averaged_cell(steps=24)), Snapshots(tmp_path, OWNER)
    history = train(trainer, tmp_path / "checkpoints", OWNER, no_figures, snapshots=first)
    before = files(tmp_path)
    trainer.cell = averaged_cell()
    begun = History(step=24, averages=dict(history.averages))
    on = Snapshots(tmp_path, OWNER, prefix="equal_time-")
    train(trainer, tmp_path / "equal_time", OWNER, no_figures, begun=begun, snapshots=on)
    network, correlation = on.network(trainer.average, trainer.averages, STEPS, 0.1)
    kept = flat(trainer.averages.tensors(), trainer, "0.1.")
    assert torch.allclose(flat(dict(network.named_parameters()), trainer), kept, rtol=0, atol=1e-6)
    assert on.network(trainer.average, trainer.averages, STEPS, 0.16)[1] > 0.999 and correlation > 0.999
    remove_snapshots(tmp_path, on.prefix)
    assert files(tmp_path) == before


DAMAGE = {
    "is damaged": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\0\1"),
    "cannot be read": lambda path: path.unlink(),
}


@pytest.mark.parametrize("said", DAMAGE)
def test_a_damaged_snapshot_is_refused(tmp_path, said):
    found = trained(tmp_path, 8)
    DAMAGE[said](tmp_path / "averages" / "24.safetensors")
    with pytest.raises(StoreError, match=f"24.safetensors {said}"):
        found.reconstructed(0.07)


def test_a_snapshot_of_another_cell_is_refused(tmp_path):
    found = trained(tmp_path, 8)
    Snapshots(tmp_path, owner("another")).save(found.trainer.averages, 24)
    with pytest.raises(StrangerError, match="belongs to cell another"):
        found.reconstructed(0.07)
