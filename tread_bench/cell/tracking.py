"""Curves of a cell while it trains, for TensorBoard, in `cells/<id>/tensorboard`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from tread_bench.cell.optimizer import learning_rate
from tread_bench.core.config.suite import Cell
from tread_bench.core.stored.records import Evaluation

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FOLDER = "tensorboard"
_MEASURED = {"validation_loss", "fid", "sfid", "kid", "inception_score", "precision", "recall"}


class Curves:
    """Writes loss, learning rate, images/s and evaluations with their grids, as they come.

    After a resume the curves go on from the checkpoint: points that an interrupted attempt wrote beyond it are hidden.
    """

    def __init__(self, cell: Cell, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.cell, self.folder, self.clock = cell, folder, clock
        self._writer: SummaryWriter | None = None
        self._loss: float | None = None
        self._since: tuple[int, float] | None = None  # iterations done, and when

    def progress(self, done: int, loss: float | None) -> None:
        """Note a training loss where it is a new one, the mean up to iteration `done`, and how fast it came."""
        writer = self._from(done)
        now = self.clock()
        if loss is None or loss == self._loss:
            self._since = self._since or (done, now)
            return
        writer.add_scalar("train/loss", loss, done)
        writer.add_scalar("train/learning_rate", learning_rate(done, self.cell.training, self.cell.schedule), done)
        if self._since and done > self._since[0]:
            images = (done - self._since[0]) * self.cell.training.batch
            writer.add_scalar("train/images_per_s", images / (now - self._since[1]), done)
        self._loss, self._since = loss, (done, now)

    def evaluation(self, evaluation: Evaluation) -> None:
        """Note all figures of an evaluation, and its grid of samples; the time that it took is no training."""
        writer, step = self._from(evaluation.iteration), evaluation.iteration
        own = evaluation.model_dump(include=_MEASURED)
        for name, value in {**own, **evaluation.figures}.items():
            if isinstance(value, float):
                writer.add_scalar(f"evaluation/{name}", value, step)
        if evaluation.samples:
            with Image.open(self.folder / evaluation.samples) as grid:
                writer.add_image("samples", np.asarray(grid.convert("RGB")), step, dataformats="HWC")
        writer.flush()
        self._since = None

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()

    def _from(self, step: int) -> SummaryWriter:
        """The writer, whose first step this is."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter  # of an extra, and slow to import

            self._writer = SummaryWriter(str(self.folder / FOLDER), purge_step=step)
        return self._writer
