"""Trainings that branch off a longer one: bit for bit those from the start, whatever interrupts them."""

from __future__ import annotations

import itertools

import pytest

from tests.cell.test_step import ROUTED, fingerprint, interrupted, make_cell, make_trainer
from tests.toy_suite import OWNER, no_figures, owner
from tread_bench.cell.checkpoint import Checkpoint, save_checkpoint
from tread_bench.cell.loop import LOSS_ENTRIES, Trunk, train
from tread_bench.core.stored.documents import BranchRef
from tread_bench.core.stored.identity import StrangerError
from tread_bench.suite.branches import Branch, branches, unshared

SHORT = owner("short-s0-0123456789")
WARMED = {"warmup": 3, "gradient_clip": 1.0}
CASES = {
    "dense": {},
    "tread": ROUTED,
    "drop path": {"backbone": {"name": "DRWKV", "depth": 5, "hidden": 16, "patch": 2, "drop_path": 0.2}},
    "muon": {"training": {"optimizer": "muon"}},
    "averages": {"training": {"averages": {"snapshots": 2}}},
}


def cell_of(iterations, share=0.5, **extra):
    training = {
        **WARMED,
        **extra.pop("training", {}),
        "iterations": iterations,
        "decay": {"name": "wsd", "share": share},
    }
    return make_cell(**extra, training=training)


def trained(cell, folder, identity=OWNER, **options):
    trainer = make_trainer(cell)
    return trainer, train(trainer, folder, identity, no_figures, **options)


def left(history):
    """What a history says of the training itself."""
    return history.model_dump(exclude={"train_seconds", "data_wait_seconds", "shared_iterations"}) | {
        "evaluations": [evaluation.iteration for evaluation in history.evaluations]
    }


@pytest.mark.parametrize("case", CASES)
def test_a_branch_is_the_training_from_the_start_bit_for_bit(tmp_path, case):
    short = cell_of(8, **CASES[case])
    whole, undisturbed = trained(short, tmp_path / "alone")
    trained(cell_of(12, 0.25, **CASES[case]), tmp_path / "trunk", branches=[BranchRef(length=8, iteration=4)])
    made = itertools.count()
    trainer = make_trainer(short)
    step = trainer.step
    trainer.step = lambda batch: (next(made), step(batch))[1]
    history = train(trainer, tmp_path / "short", SHORT, no_figures, trunk=Trunk(tmp_path / "trunk", OWNER, 4))
    assert next(made) == 4 and history.shared_iterations == 4 and undisturbed.shared_iterations == 0
    assert fingerprint(trainer) == fingerprint(whole)
    assert left(history) == left(undisturbed) and len(history.train_loss) == 8
    assert history.train_seconds > 0


@pytest.mark.parametrize("trunk_at", [2, 4, 5, 11])
@pytest.mark.parametrize("at", [0, 2])
def test_so_it_is_where_both_are_broken_off(tmp_path, trunk_at, at):
    """A trunk before, at and after the place; the branch at its first step and later."""
    short, long = cell_of(8, training={"checkpoint_every": 1}), cell_of(12, 0.25, training={"checkpoint_every": 3})
    whole, undisturbed = trained(short, tmp_path / "alone")
    refs = [BranchRef(length=8, iteration=4)]
    interrupted(make_trainer(long), tmp_path / "trunk", trunk_at, branches=refs)
    trunk, _ = trained(long, tmp_path / "trunk", branches=refs)
    assert fingerprint(trunk) == fingerprint(trained(long, tmp_path / "long")[0])
    source = Trunk(tmp_path / "trunk", OWNER, 4)
    interrupted(make_trainer(short), tmp_path / "short", at, trunk=source)
    trainer, history = trained(short, tmp_path / "short", trunk=source)
    assert fingerprint(trainer) == fingerprint(whole)
    assert left(history) == left(undisturbed)
    assert history.shared_iterations == 4


def test_losses_are_entered_as_by_a_training_of_that_length(tmp_path):
    """Means over 3 steps of the trunk, over 2 of the branch, which it leaves between two entries."""
    short, long = 2 * LOSS_ENTRIES, 3 * LOSS_ENTRIES
    tiny = {"backbone": {"name": "DiT", "depth": 1, "hidden": 8, "heads": 1, "patch": 4}}
    share = (short - 301) / short
    _, undisturbed = trained(cell_of(short, share, **tiny, training={"batch": 1}), tmp_path / "alone")
    long_cell = cell_of(long, **tiny, training={"batch": 1})
    trained(long_cell, tmp_path / "trunk", branches=[BranchRef(length=short, iteration=301)])
    cell = cell_of(short, share, **tiny, training={"batch": 1})
    _, history = trained(cell, tmp_path / "short", SHORT, trunk=Trunk(tmp_path / "trunk", OWNER, 301))
    assert history.shared_iterations == 301
    assert [step for step, _ in history.train_loss] == list(range(2, short + 1, 2))
    assert history.train_loss == undisturbed.train_loss


def test_without_a_trunk_it_trains_from_the_start(tmp_path, caplog):
    short = cell_of(8)
    whole, _ = trained(short, tmp_path / "alone")
    trunk = Trunk(tmp_path / "trunk", OWNER, 4)

    # The trunk never began, or began before the branch was requested, or its checkpoint is damaged.
    def check(name):
        trainer, history = trained(short, tmp_path / name, SHORT, trunk=trunk)
        assert fingerprint(trainer) == fingerprint(whole) and history.shared_iterations == 0

    check("absent")
    long = cell_of(12, 0.25, training={"checkpoint_every": 2})
    interrupted(make_trainer(long), tmp_path / "trunk", 3)
    trained(long, tmp_path / "trunk", branches=[BranchRef(length=8, iteration=4)])
    assert (tmp_path / "trunk" / "step-000000004.safetensors").exists()
    check("late")
    (tmp_path / "trunk" / "step-000000004.sha256").write_text("other")
    check("damaged")
    assert "step-000000004.safetensors is damaged" in caplog.text

    # Another cell's checkpoint in its place is refused, as it is where a cell resumes.
    save_checkpoint(tmp_path / "trunk", 4, Checkpoint({}, {}), SHORT)
    with pytest.raises(StrangerError):
        trained(short, tmp_path / "strange", SHORT, trunk=trunk)


def test_rows_that_differ_in_their_length_alone_share_what_is_before_decays():
    cells = {
        "middle": cell_of(20, 0.5),
        "long": cell_of(40, 0.25),
        "short": cell_of(10, 0.2),
        "evaluated": cell_of(16, 0.5, metrics={"at": [6, 16]}),
        "kept": cell_of(18, 0.5, training={"snapshots": [0.5]}),
        "at the first step": cell_of(12, 0.5, metrics={"at": [1, 12]}),
        "other rate": cell_of(20, 0.5, training={"learning_rate": 2e-3}),
        "other seeds": cell_of(20, 0.5, seed_group=1),
        "routed": cell_of(20, 0.5, **ROUTED),
        "linear": make_cell(training={**WARMED, "iterations": 8, "decay": "linear"}),
        "timed": make_cell(training={**WARMED, "iterations": 0, "decay": "wsd"}),
    }
    assert branches(cells) == {
        "middle": Branch("long", 10),
        "short": Branch("long", 8),
        "evaluated": Branch("long", 5),
        "kept": Branch("long", 8),
    }
    assert list(unshared(cells)) == []


def test_a_schedule_in_shares_of_the_length_is_said(tmp_path):
    warmed = {**ROUTED, "schedule": {"warmup": 0.25}}
    cells = {"long": cell_of(40, **warmed), "short": cell_of(20, **warmed), "alone": cell_of(20, **ROUTED)}
    assert branches(cells) == {}
    ((row, message),) = unshared(cells)
    assert row == "short"
    assert "row 'long', but schedule is in shares of the length, which are other steps of 20 iterations than of 40" in (
        message
    )
