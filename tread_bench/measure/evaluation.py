"""Everything that is measured of a model at one iteration: validation loss, quality of samples, a grid to look at."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from io import BytesIO
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from tread_bench.config import Cell
from tread_bench.data import DataSource, to_uint8
from tread_bench.errors import UserError
from tread_bench.measure.features import Extractor, choose_extractor
from tread_bench.measure.fingerprint import protocol
from tread_bench.measure.generation import check_sample_counts, evaluate_images
from tread_bench.measure.reference import Reference, reference_of
from tread_bench.measure.validation import validation_losses
from tread_bench.methods import Network
from tread_bench.objectives import Objective
from tread_bench.records import Evaluation
from tread_bench.sampling import generate
from tread_bench.store import write_atomically

SHOWN = 40  # images in the grid of samples


class Evaluator:
    """Judges models of one cell; the feature network and the reference are read once, when first needed."""

    def __init__(self, cell: Cell, data: DataSource, objective: Objective, folder: Path) -> None:
        self.cell, self.data, self.objective, self.folder = cell, data, objective, folder

    @cached_property
    def extractor(self) -> Extractor:
        return choose_extractor(self.cell.metrics, self.cell.data)

    @cached_property
    def reference(self) -> Reference:
        return reference_of(self.data, self.extractor)

    def check(self) -> None:
        """Whatever training cannot change, before it begins. Raises UserError where a figure could not be measured."""
        metrics, held_out = self.cell.metrics, len(self.data.held_out)
        for key in ("validation_samples", "similarity_samples"):
            if getattr(metrics, key) > held_out:
                raise UserError(f"metrics.{key} {getattr(metrics, key)}: only {held_out} images are held out")
        check_sample_counts(metrics, len(self.reference.statistics.features))
        if self.cell.sampling.guidance_scale != 1 and not self.cell.data.num_classes:
            raise UserError("sampling.guidance cfg needs labels; these data have none: set guidance: none")

    def __call__(self, network: Network, iteration: int, train_seconds: float, seed: int) -> Evaluation:
        """Dense figures of `network`, from the seed's noise. Raises FloatingPointError where one is no number."""
        metrics = self.cell.metrics
        network.eval()
        per_time = validation_losses(
            network, self.objective, self.data.held_out, metrics.validation_samples, metrics.batch
        )
        shown: list[Tensor] = []
        figures = evaluate_images(self._images(network, seed, shown), self.extractor, self.reference, metrics)
        figures["validation_loss"] = sum(per_time.values()) / len(per_time)
        for name, value in figures.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise FloatingPointError(f"{name} is {value} at iteration {iteration}: the model diverged")
        fingerprint, details = protocol(self.cell, self.extractor, self.reference)
        return Evaluation(
            iteration=iteration,
            train_seconds=train_seconds,
            validation_loss_per_time=per_time,
            protocol=fingerprint,
            protocol_details=details,
            samples=self._write_grid(torch.cat(shown)[:SHOWN], iteration),
            **figures,
        )

    def _images(self, network: Network, seed: int, shown: list[Tensor]) -> Iterator[Tensor]:
        metrics = self.cell.metrics
        for images in generate(network, self.objective, self.cell.sampling, seed, metrics.num_samples, metrics.batch):
            pixels = to_uint8(images.cpu())
            if sum(map(len, shown)) < SHOWN:
                shown.append(pixels)
            yield pixels

    def _write_grid(self, pixels: Tensor, iteration: int) -> str:
        """Ten samples a row, one pixel between them, as PNG; the path relative to the cell's folder."""
        name = f"samples/{iteration:09d}.png"
        count, channels, height, width = pixels.shape
        columns = min(10, count)
        rows = -(-count // columns)
        grid = torch.full((channels, rows * (height + 1) - 1, columns * (width + 1) - 1), 127, dtype=torch.uint8)
        for k, image in enumerate(pixels):
            top, left = k // columns * (height + 1), k % columns * (width + 1)
            grid[:, top : top + height, left : left + width] = image
        picture = Image.fromarray(grid[0].numpy() if channels == 1 else grid.permute(1, 2, 0).contiguous().numpy())
        write_atomically(self.folder / name, _png(picture))
        return name


def _png(picture: Image.Image) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()
