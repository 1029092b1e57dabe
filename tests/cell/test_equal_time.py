"""Training on beyond a cell's own length, and an evaluation that a suite did not ask for."""

from __future__ import annotations

import pytest

from tests.cell.test_step import ROUTED, fingerprint, make_cell, make_trainer
from tests.toy_suite import OWNER, no_figures
from tread_bench.cell.loop import History, Origin, train


def trained(folder, iterations, **options):
    trainer = make_trainer(make_cell(training={"iterations": iterations}, **ROUTED))
    return trainer, train(trainer, folder, Origin(OWNER), no_figures, **options)


def test_training_on_is_a_longer_training(tmp_path):
    longer, at_end = trained(tmp_path / "longer", 9)
    shorter, _ = trained(tmp_path / "shorter", 6)
    shorter.cell = longer.cell
    begun = History(step=6, train_seconds=100.0)
    history = train(shorter, tmp_path / "equal_time", Origin(OWNER), no_figures, begun=begun)
    assert fingerprint(shorter) == fingerprint(longer)
    assert history.step == 9 and history.train_seconds > 100.0
    assert [one.iteration for one in history.evaluations] == [one.iteration for one in at_end.evaluations] == [9]

    # A second time, it resumes from its own checkpoint.
    again, _ = trained(tmp_path / "again", 6)
    again.cell = longer.cell
    assert train(again, tmp_path / "equal_time", Origin(OWNER), no_figures, begun=History(step=6)).train_seconds > 100.0
    assert fingerprint(again) == fingerprint(longer)


def test_an_evaluation_at_equal_time_changes_nothing_else(tmp_path):
    without, plain = trained(tmp_path / "without", 12)
    trainer, history = trained(tmp_path / "with", 12, equal_time=7)
    assert history.at_equal_time.iteration == 7 and plain.at_equal_time is None
    assert [one.iteration for one in history.evaluations] == [12]
    assert fingerprint(trainer) == fingerprint(without) and history.train_loss == plain.train_loss


def test_at_an_evaluated_iteration_the_evaluation_is_the_same(tmp_path):
    _, history = trained(tmp_path, 12, equal_time=12)
    assert history.evaluations == [history.at_equal_time]


def test_it_resumes_from_beyond_equal_time_with_what_was_evaluated_there(tmp_path):
    def stop(done, loss, phase="training"):
        if done > 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, 12, equal_time=7, progress=stop)
    _, history = trained(tmp_path, 12, equal_time=7)
    assert history.at_equal_time.iteration == 7
