"""SIGTERM while a cell trains: what was trained is saved, and resumed bit for bit."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace

import pytest

from tests.cell.test_step import ROUTED, fingerprint, make_cell, make_trainer
from tests.toy_suite import OWNER, no_figures
from tread_bench.cell.checkpoint import checkpoints_in
from tread_bench.cell.loop import Origin, train
from tread_bench.cell.stopping import StoppedError, Stopping
from tread_bench.core.stored.conditions import Conditions

ITERATIONS = 12


def trained(folder, progress=lambda done, loss, phase="": None, evaluate=no_figures):
    trainer = make_trainer(make_cell(training={"iterations": ITERATIONS, "checkpoint_every": 100}, **ROUTED))
    return trainer, train(trainer, folder, Origin(OWNER), evaluate, progress)


def test_the_step_at_hand_ends_and_is_saved_and_the_rest_is_as_if_nothing_had_happened(tmp_path):
    undisturbed, expected = trained(tmp_path / "undisturbed")

    def stop(done, loss, phase="training"):
        if done == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(StoppedError, match=r"stopped by SIGTERM, and saved at iteration 5"):
        trained(tmp_path / "stopped", stop)
    assert signal.getsignal(signal.SIGTERM) is before
    assert [path.name for path in checkpoints_in(tmp_path / "stopped")] == ["step-000000005.safetensors"]

    resumed, history = trained(tmp_path / "stopped")
    assert fingerprint(resumed) == fingerprint(undisturbed) and history.train_loss == expected.train_loss


def test_a_training_that_goes_on_in_another_number_of_processes_keeps_both(tmp_path):
    begun, ended = Conditions(processes=2), Conditions()
    trainer = make_trainer(make_cell(training={"iterations": ITERATIONS, "checkpoint_every": 5}, **ROUTED))
    for conditions in (begun, begun, ended):
        history = train(trainer, tmp_path, Origin(OWNER, conditions), no_figures)
    assert history.conditions == [begun, ended]


def test_what_is_long_and_leaves_nothing_to_save_ends_at_once(monkeypatch):
    ended = []
    with Stopping() as stopping, stopping.paused():
        monkeypatch.setattr(os, "kill", lambda pid, number: ended.append((pid, number)))
        signal.raise_signal(signal.SIGTERM)
        assert ended == [(os.getpid(), signal.SIGTERM)] and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_several_ranks_stop_at_the_same_step():
    stopping, ranks = Stopping(), SimpleNamespace(size=2, any=lambda requested: requested)
    stopping.is_requested = True
    assert [step for step in range(20) if stopping.is_agreed(step, ranks)] == [0, 8, 16]


def test_in_another_thread_nothing_changes():
    found = []

    def enter():
        with Stopping():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]
