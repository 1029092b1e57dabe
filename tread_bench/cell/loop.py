"""Training of one cell: steps, evaluations at fixed iterations, checkpoints, progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from pydantic import AliasChoices, ConfigDict, Field, NonNegativeFloat
from torch import Tensor

from tread_bench.cell.checkpoint import Checkpoint, CheckpointWriter, load_latest
from tread_bench.cell.step import Trainer
from tread_bench.cell.stopping import StoppedError, Stopping
from tread_bench.core.describe.guidance import iteration_at
from tread_bench.core.stored.conditions import Conditions, decisive_to_the_bit
from tread_bench.core.stored.data_files import check_unchanged, contents_as_before
from tread_bench.core.stored.records import DataFile, Evaluation, Trained
from tread_bench.data.ranks import Ranks

LOSS_ENTRIES = 200  # means of the training loss that a record keeps
REPORT_EVERY_S = 1.0  # of progress, whether the next loss is due or not


class DivergedError(RuntimeError):
    """The training loss is NaN or infinite."""


class History(Trained):
    """The state in a checkpoint beside its tensors: the record so far, and what resuming needs besides."""

    model_config = ConfigDict(frozen=False, extra="ignore")

    step: int = 0
    train_seconds: NonNegativeFloat = 0.0
    data_wait_seconds: NonNegativeFloat = 0.0
    partial_sum: float = 0.0  # of the losses since the last entry of `train_loss`
    partial_count: int = 0
    conditions: list[Conditions] = Field(default_factory=list)  # that its steps were made under, in order
    data_files: dict[str, DataFile] = Field(  # `files` in checkpoints of older versions
        default_factory=dict, validation_alias=AliasChoices("data_files", "files")
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """What checkpoints say of a training: its cell, the conditions of its steps from here on, and its data's files."""

    cell_id: str
    conditions: Conditions = field(default_factory=Conditions)
    files: Mapping[str, DataFile] = field(default_factory=dict)


Evaluate = Callable[[Trainer, int, float], Evaluation]  # (trainer, iteration, train seconds)


class Progress(Protocol):
    """Called with the number of iterations done, the mean loss, and what comes next if that is not training."""

    def __call__(self, done: int, loss: float | None, phase: str = "training") -> None: ...


Keep = Callable[[Trainer, int], str]  # (trainer, iteration) -> SHA-256 of the weights that it wrote


def train(
    trainer: Trainer,
    folder: Path,
    origin: Origin,
    evaluate: Evaluate,
    progress: Progress = lambda done, loss, phase="": None,
    keep: Keep | None = None,
    equal_time: int | None = None,
    begun: History | None = None,
) -> History:
    """Train to the last iteration, resuming from the newest checkpoint in `folder`.

    Args:
        keep: called at the snapshots and at the end.
        equal_time: a further iteration at which it is evaluated, if it comes that far.
        begun: what the trainer did before, where the folder has no checkpoint yet; None: nothing.

    Raises:
        DivergedError: the loss is NaN or infinite, or float16 gradients overflow at any scale, with the iteration.
        StoppedError: the process was told to end by SIGTERM; a checkpoint has what was trained.
        UserError: the newest checkpoint is another cell's.
        ChangedDataError: a file has changed since that checkpoint.
    """
    # Resume from the newest checkpoint.
    clock = trainer.clock
    checkpoint = load_latest(folder, origin.cell_id)
    history = begun or History()
    if checkpoint is not None:
        trainer.restore(checkpoint.tensors)
        history = History.model_validate(checkpoint.state)
    check_unchanged(history.data_files, origin.files, "its last checkpoint")
    history.data_files = dict(origin.files)
    earlier = history.conditions
    if not earlier or decisive_to_the_bit(earlier[-1]) != decisive_to_the_bit(origin.conditions):
        earlier.append(origin.conditions)

    # At which iterations the loss is read, the network evaluated, and its weights kept.
    config = trainer.cell.training
    every = max(1, config.iterations // LOSS_ENTRIES)
    evaluated_at = trainer.cell.metrics.iterations(config.iterations)
    kept_at = {*(iteration_at(moment, config.iterations) for moment in config.snapshots), config.iterations}
    stops = {*evaluated_at, *kept_at, equal_time}

    # The network as it starts.
    if 0 in evaluated_at and not history.step:
        history.evaluations = [evaluate(trainer, 0, 0.0)]
        trainer.network.train()

    # Compile what the first and the last step run, before the clock of the training starts.
    if history.step < config.iterations:
        history.compile_seconds += trainer.compile(history.step, config.iterations - 1)
        history.compiled_instead = trainer.compilation.instead

    losses: list[Tensor] = []  # not read yet
    waited_before = history.data_wait_seconds
    since = reported = clock()
    steps = range(history.step, config.iterations)
    with (
        trainer.batches(steps) as batches,
        CheckpointWriter(folder, origin.cell_id) as checkpoints,
        Stopping() as stopping,
    ):

        def save() -> None:
            """Copy the state for a checkpoint, which is written beside the next steps, by the first rank."""
            contents_as_before(origin.files, origin.files)
            if trainer.ranks.is_first:
                checkpoints.save(history.step, Checkpoint(trainer.tensors(), history.model_dump(mode="json")))
            trainer.ranks.wait()

        for batch in batches:
            # Stop where that is requested from outside.
            if stopping.is_agreed(history.step, trainer.ranks):
                if losses:
                    _note_loss(history, losses, trainer.ranks, entry_due=False)
                history.train_seconds += clock() - since
                history.data_wait_seconds = waited_before + batches.waited_s
                save()
                raise StoppedError(f"stopped by SIGTERM, and saved at iteration {history.step}")

            # One step.
            losses.append(trainer.step(batch))
            history.step += 1
            stops_here = history.step in stops or history.step % config.checkpoint_every == 0

            # Read the losses since the last time, and report progress.
            is_entry = history.step % every == 0
            is_read = is_entry or stops_here
            if is_read:
                _note_loss(history, losses, trainer.ranks, entry_due=is_entry)
                if trainer.scaler.collapsed:
                    raise DivergedError(f"float16 gradients overflow at any loss scale by iteration {history.step}")
            loss = history.train_loss[-1][1] if history.train_loss else None
            if is_read or clock() - reported >= REPORT_EVERY_S:
                progress(history.step, loss)
                reported = clock()
            if not stops_here:
                continue

            # Evaluate and keep the weights where that is due, then save; none of it counts as training.
            history.train_seconds += clock() - since
            history.data_wait_seconds = waited_before + batches.waited_s
            with stopping.paused():
                if history.step in evaluated_at or history.step == equal_time:
                    evaluation = evaluate(trainer, history.step, history.train_seconds)
                    trainer.network.train()
                    if history.step in evaluated_at:
                        history.evaluations.append(evaluation)
                    if history.step == equal_time:
                        history.at_equal_time = evaluation
                progress(history.step, loss, "saving")
                if keep is not None and trainer.ranks.is_first and history.step in kept_at:
                    history.weights[str(history.step)] = keep(trainer, history.step)
            save()
            progress(history.step, loss)
            since = clock()
    return history


def _note_loss(history: History, losses: list[Tensor], ranks: Ranks, entry_due: bool) -> None:
    """Reading the losses synchronises device and ranks, so they are read for many steps at once."""
    for loss in ranks.total(torch.stack(losses)):
        history.partial_sum += loss.item()
        history.partial_count += 1
    losses.clear()
    if not math.isfinite(history.partial_sum):
        raise DivergedError(f"the training loss is {history.partial_sum} by iteration {history.step}")
    if entry_due:
        history.train_loss.append((history.step, history.partial_sum / history.partial_count))
        history.partial_sum, history.partial_count = 0.0, 0
