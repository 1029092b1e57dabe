"""Everything that is measured at one iteration: validation loss, quality of samples, a grid of images."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from tread_bench.core.config.routed import setting_of
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.metrics import Needs
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import sampling_macs, training_macs
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.records import Evaluation
from tread_bench.data.ranks import ALONE, Ranks
from tread_bench.data.source import DataSource
from tread_bench.diffusion.conditioning import held_out_captions
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.objectives.base import Objective
from tread_bench.measure.inside.validation import validation_losses
from tread_bench.measure.quality.decoder import Decoder, open_decoder, to_pixels
from tread_bench.measure.quality.feature_store import features_of
from tread_bench.measure.quality.features import Extractor, Features, choose_extractor
from tread_bench.measure.quality.fingerprint import protocol
from tread_bench.measure.quality.png import grid_png
from tread_bench.measure.quality.reference import BATCH, reference_of, reference_of_set
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric, Reference, too_few
from tread_bench.measure.quality.statistics import summed
from tread_bench.measure.sets.reference import open_reference
from tread_bench.model.network import Network
from tread_bench.suite.plan import SAMPLES_KEPT

REAL_SHOWN = 10  # training images in their grid


@dataclass(frozen=True, slots=True)
class Guide:
    """The network of guidance's weak branch, if it has weights of its own, and the cell that trained it."""

    cell: Cell
    network: Network


class Seen(NamedTuple):
    """A batch of images, uint8 (B, C, H, W), or as many of them as are read, with the features of all."""

    pixels: Tensor
    features: Features


@dataclass(eq=False)
class Evaluator:
    """Evaluates models of one cell; decoder, feature network (on `device`) and reference are read when first needed.

    Several `ranks` generate and see the batches of images in turn; the first one measures everything else.
    """

    cell: Cell
    data: DataSource
    objective: Objective
    folder: Path
    guide: Guide | None = None
    device: torch.device | str = "cpu"
    ranks: Ranks = ALONE

    @cached_property
    def extractor(self) -> Extractor:
        return choose_extractor(self.cell.metrics, self.cell.data).to(self.device)

    @cached_property
    def metrics(self) -> list[OpenMetric]:
        """Those that the feature network and the reference can measure.

        Raises:
            UserError: the suite added one that they cannot.
        """
        metrics = self.cell.metrics
        found = []
        for options in metrics.measured(self.cell.data):
            if not (reason := self.reference.lacks(options.family)):
                found.append(OpenMetric.of(options))
            elif options in metrics.also:
                raise UserError(f"metric {options.name}: {reason}; leave it out, or give another reference")
        return found

    @cached_property
    def decoder(self) -> Decoder | None:
        return open_decoder(self.cell.data)

    @cached_property
    def reference(self) -> Reference:
        path, extractor = self.cell.metrics.reference, self.extractor
        if path is None:
            return reference_of(self.data, extractor)
        chosen = open_reference(path)
        found = reference_of_set(
            chosen, extractor, extractor.name, lambda images, kept: features_of(images, extractor, kept, BATCH, BATCH)
        )
        if Needs.STATISTICS not in found.counts:
            names = " and ".join(chosen.stored)
            raise UserError(
                f"{chosen.name}: has statistics of {names}, none of feature network {extractor.name}, and no images; "
                "give a reference with images, or choose another metrics.extractor"
            )
        return found

    def check(self) -> None:
        """Check before training what it cannot change. Raises UserError where a figure could not be measured."""
        metrics = self.cell.metrics
        held_out = len(self.data.held_out)
        for key in ("validation_samples", "similarity_samples"):
            if getattr(metrics, key) > held_out:
                raise UserError(f"metrics.{key} {getattr(metrics, key)}: only {held_out} images are held out")
        if metrics.generate:
            for metric in self.metrics:
                if problem := too_few(metric.options, metrics.num_samples, self.reference.counts):
                    way_out = "leave it out, or change metrics.num_samples or the reference"
                    raise UserError(f"metric {metric.family.name}: {problem}; {way_out}")
            _ = self.decoder, self.reference.seen

    def __call__(
        self,
        network: Network,
        iteration: int,
        train_seconds: float,
        seed: int,
        progress: Callable[[], None] = lambda: None,
    ) -> Evaluation:
        """Figures of `network`, on all ranks, its samples from the seed's noise; `progress` is called with each batch.

        Raises:
            FloatingPointError: a figure is NaN or infinite.
        """
        network.eval()
        metrics = self.cell.metrics
        if not self.ranks.is_first:
            if metrics.generate:
                list(self._samples(network, seed, progress))
            return cast(Evaluation, self.ranks.told(None))

        # The dense validation loss, and figures of generated images.
        began = time.perf_counter()
        per_time = validation_losses(
            network, self.objective, self.data.held_out, metrics.validation_samples, metrics.batch
        )
        figures: dict[str, Any] = {"validation_loss": sum(per_time.values()) / len(per_time), "num_samples": 0}
        if metrics.generate:
            figures |= self._of_samples(network, iteration, seed, progress)

        # None of them may be NaN or infinite.
        for name, value in figures.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise FloatingPointError(f"{name} is {value} at iteration {iteration}: the model diverged")
        own = {name: figures.pop(name) for name in [*figures] if name in Evaluation.model_fields}
        found = Evaluation(
            iteration=iteration,
            train_seconds=train_seconds,
            training_macs=training_macs(self.cell, iteration) if self.cell.trains else None,
            seconds=time.perf_counter() - began,
            validation_loss_per_time=per_time,
            figures=figures,
            **own,
        )
        return self.ranks.told(found)

    def _of_samples(self, network: Network, iteration: int, seed: int, progress: Callable[[], None]) -> dict[str, Any]:
        """Figures of generated images, their protocol, and the path of their grid."""
        # Features of all images, the first of these for the grid, and all of them where a metric reads them.
        metrics, reads_images = self.cell.metrics, self._reads(Needs.IMAGES)
        kept: list[Tensor] = []

        def features() -> Iterator[Features]:
            for pixels, of_pixels in self._samples(network, seed, progress):
                if reads_images or sum(map(len, kept)) < SAMPLES_KEPT:
                    kept.append(pixels)
                yield of_pixels

        seen = summed(features(), np.arange(metrics.num_samples))
        count = seen.pooled.count
        if count != metrics.num_samples:
            raise ValueError(f"{count} images were generated where metrics.num_samples is {metrics.num_samples}")

        # What each metric makes of them. Image i was generated for class i mod num_classes, or for the i-th caption.
        num_classes = self.data.num_classes
        generated = ImageRecords(
            moments=seen.pooled,
            features=seen.features,
            logits=seen.logits,
            spatial=seen.spatial,
            batches=partial(iter, kept),
            labels=torch.arange(count) % num_classes if num_classes else None,
            captions=self._captions(count) if self._reads(Needs.CAPTIONS) else None,
        )
        figures: dict[str, Any] = {"num_samples": count}
        for metric in self.metrics:
            figures |= metric.figures(generated, self.reference)

        # What they depend on, and pictures.
        fingerprint, details = protocol(self.cell, self.extractor, self.reference, self.decoder)
        pictures = torch.cat(kept[: math.ceil(SAMPLES_KEPT / metrics.batch)])[:SAMPLES_KEPT]
        details["feature_device"] = str(self.extractor.device)
        grid: dict[str, Any] = self._write_grid(f"{iteration:09d}", pictures)
        if network.spec.context_shape is not None:
            grid["captions"] = self._captions(len(pictures))
        real = {f"real_{key}": value for key, value in self._real_samples.items()}
        return {**figures, "protocol": fingerprint, "protocol_details": details, **grid, **real}

    def _samples(self, network: Network, seed: int, progress: Callable[[], None]) -> Iterator[Seen]:
        """Generated images with their features, batch by batch, on the first rank; on the others, none."""
        metrics, ranks = self.cell.metrics, self.ranks
        weak = self.guide.network if self.guide else None
        turn = ranks.rank, ranks.size
        batches = generate(
            *(network, self.objective, self.cell.sampling, seed, metrics.num_samples, metrics.batch, weak),
            turn=turn,
            held_out=self.data.held_out,
        )
        has_spatial = self._reads(Needs.SPATIAL) and self.extractor.spatial_dims is not None

        def own() -> Iterator[Seen]:
            for number, batch in enumerate(batches):
                progress()
                pixels = to_pixels(batch, self.decoder)
                features = self.extractor.features(pixels, has_spatial)
                # Other ranks send only the images that somebody reads.
                is_shown = (number * ranks.size + ranks.rank) * metrics.batch < SAMPLES_KEPT
                is_read = ranks.is_first or is_shown or self._reads(Needs.IMAGES)
                yield Seen(pixels if is_read else pixels[:0], features)

        return ranks.in_turn(own(), math.ceil(metrics.num_samples / metrics.batch))

    def _reads(self, need: Needs) -> bool:
        """Whether a metric reads this of the generated images."""
        return any(need in metric.family.needs for metric in self.metrics)

    def _captions(self, count: int) -> list[str]:
        """Those that the first samples are generated for."""
        return held_out_captions(self.data.held_out, 0, count)

    @cached_property
    def _real_samples(self) -> dict[str, str]:
        """A grid of training images; of latents a reader sees in it whether decoder and scale fit them."""
        train = self.data.train
        images = train.images(np.linspace(0, len(train) - 1, REAL_SHOWN).astype(np.int64))
        return self._write_grid("real", to_pixels(images.to(self.device), self.decoder))

    def sampling_macs(self) -> int | None:
        """MACs of one generated image; None where none is generated."""
        if not self.cell.metrics.generate:
            return None
        times = self.objective.sampling_times(self.cell.sampling.steps)
        weak = setting_of(self.guide.cell) if self.guide else None
        return sampling_macs(setting_of(self.cell), times, weak)

    def _write_grid(self, name: str, pixels: Tensor) -> dict[str, str]:
        """Write the grid as PNG; its path relative to the cell's folder, and the hash of the file."""
        name = f"samples/{name}.png"
        content = grid_png(pixels)
        (self.folder / "samples").mkdir(exist_ok=True)
        write_atomically(self.folder / name, content)
        return {"samples": name, "samples_sha256": hashlib.sha256(content).hexdigest()}
