"""Train the feature network of a data source: the function behind `tread-bench features`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.errors import UserError
from tread_bench.core.numbers.draws import integers, permuted
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.files import write_atomically
from tread_bench.data.source import DataSource, DataSplit, Pixels, open_data
from tread_bench.measure.quality.networks.classifier.network import Classifier, ClassifierSpec, classifier_file

if TYPE_CHECKING:
    from tread_bench.core.config.choices import DataChoice

_BATCH = 128
_PEAK_LEARNING_RATE = 3e-3  # AdamW, rising and falling once over a cycle
_CYCLES = (50, 100, 200, 650)  # iterations, where their number is not given
_ENOUGH, _GAIN = 0.9, 0.02  # held-out accuracy from which on a cycle that gains less than this is the last
MAX_WIDTH = 128


def default_spec(data: DataSource, max_width: int = MAX_WIDTH) -> ClassifierSpec:
    """Widths that double with every halving of the image, down to a 4x4 grid: 16, 32, 64 for the 8x8 digits."""
    if data.num_classes < 2:
        raise UserError(
            f"a feature network is a classifier and needs labels; num_classes is {data.num_classes}: name them, as by "
            "--set data.captions=null --set data.num_classes=N, or measure these images with metrics.inception_weights"
        )
    halvings = max(1, (data.image_size - 1).bit_length() - 2)
    widths = [min(16 * 2**i, max_width) for i in range(halvings + 2)]
    return ClassifierSpec(
        image_size=data.image_size, channels=data.channels, num_classes=data.num_classes, widths=tuple(widths)
    )


class Trained(NamedTuple):
    """A classifier, its accuracy (0 .. 1) on the held-out images, and for how many iterations it was trained."""

    classifier: Classifier
    accuracy: float
    iterations: int


def train_classifier(
    data: DataSource,
    *,
    iterations: int | None = None,
    seed: int = 0,
    max_width: int = MAX_WIDTH,
    report: ReportProgress = lambda work, done, of: None,
) -> Trained:
    """Train a classifier of the training images: in one cycle of the learning rate over the iterations.

    Without their number it is trained in longer and longer cycles, at most 1,000 iterations, until 90 % of the held-out
    images are classified correctly and a cycle gains less than two points. Deterministic for one build, device and
    number of threads: batches and shifts are drawn by sample index.
    """
    # The network, and the images that it sees.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classifier = Classifier(default_spec(data, max_width))
    train = _images(data.train)
    held_out = _images(data.held_out)

    # Train it, cycle by cycle.
    cycles = _CYCLES if iterations is None else (iterations,)
    optimiser = torch.optim.AdamW(classifier.parameters(), weight_decay=1e-2)
    step, found = 0, 0.0
    for cycle in cycles:
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _PEAK_LEARNING_RATE, total_steps=cycle)
        classifier.train()
        for _ in range(cycle):
            report("feature network, iterations", step, sum(cycles))
            first = step * _BATCH
            index = permuted(seed, "features/order", first, _BATCH, len(train))
            _, logits = classifier(_shifted(train.uint8(index), seed, first))
            loss = F.cross_entropy(logits, train.labels(index))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            step += 1
        before, found = found, accuracy(classifier.eval(), held_out)
        if found >= _ENOUGH and found - before < _GAIN:
            break

    # Normalise the scale of its features, which leaves the logits.
    classifier.requires_grad_(False)
    _standardise(classifier, train)
    return Trained(classifier, found, step)


def _images(split: DataSplit) -> Pixels:
    if not isinstance(split, Pixels):
        raise UserError(
            "a feature network takes images, and these data are latents: train it with a suite of data parquet on the "
            "images of data.images"
        )
    return split


def _standardise(classifier: Classifier, images: Pixels) -> None:
    """Give every feature unit variance over the training images; the logits stay the same.

    The last batch norm is scaled, which commutes with ReLU and mean, and the head compensates. Distances between
    features then weigh all features alike, and figures of two data sets have the same order of magnitude.
    """
    variance = torch.cat([features for features, _ in _outputs(classifier, images)]).double().var(0)
    deviation = torch.where(variance > 1e-12, variance, 1.0).sqrt().float()
    last_norm = [layer for layer in classifier.body if isinstance(layer, torch.nn.BatchNorm2d)][-1]
    last_norm.weight.div_(deviation)
    last_norm.bias.div_(deviation)
    classifier.head.weight.mul_(deviation)


def _outputs(classifier: Classifier, images: Pixels) -> Iterator[tuple[Tensor, Tensor]]:
    """Features and logits of all images in their order, batch by batch."""
    for first in range(0, len(images), _BATCH):
        yield classifier(images.uint8(np.arange(first, min(first + _BATCH, len(images)))))


def _shifted(pixels: Tensor, seed: int, first: int) -> Tensor:
    """Every image moved by up to an eighth of its side along both axes, edges repeated."""
    side = pixels.shape[-1]
    reach = side // 8
    places = []
    for axis in ("rows", "columns"):
        shift: NDArray[np.int64] = integers(seed, f"features/{axis}", first, _BATCH, 2 * reach + 1) - reach
        places.append(torch.from_numpy((np.arange(side) + shift[:, None]).clip(0, side - 1)))
    rows, columns = places
    batch = torch.arange(len(pixels))[:, None, None]
    return pixels.permute(0, 2, 3, 1)[batch, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def accuracy(classifier: Classifier, images: Pixels) -> float:
    """Share of images whose highest logit is their label."""
    with torch.no_grad():
        predicted = torch.cat([logits.argmax(1) for _, logits in _outputs(classifier, images)])
    return float((predicted.numpy() == images.classes).mean())


def train_and_save(
    data_choice: DataChoice,
    path: str | Path,
    iterations: int | None = None,
    seed: int = 0,
    suite: str = "SUITE",
    max_width: int = MAX_WIDTH,
    overwrite: bool = False,
    report: ReportProgress = lambda work, done, of: None,
) -> dict[str, Any]:
    """Train the feature network of a data source and write it atomically as a safetensors file.

    Args:
        iterations: optimiser steps of 128 images; None: as many as accuracy needs, 1,000 at most.
        max_width: most channels of a convolution; the last one's are the features.
        suite: the suite file that named the data; only stored in the file's metadata, as part of the command.
        overwrite: whether a file at `path` is replaced; without it, one that is there is an OutputError.

    Returns:
        The file's metadata (name, command, data, accuracy), `iterations`, `held_out_images` and `seconds`.
    """
    # Train it.
    path = Path(path)
    start = time.perf_counter()
    data = open_data(data_choice)
    trained = train_classifier(data, iterations=iterations, seed=seed, max_width=max_width, report=report)

    # Write it, with the command that trains it again.
    steps = "" if iterations is None else f" --iterations {iterations}"
    width = f" --max-width {max_width}" if max_width != MAX_WIDTH else ""
    about = {
        "name": f"{data_choice.name}-classifier",
        "command": f"tread-bench features {suite}{steps} --seed {seed}{width} --out {path.name}",
        "data_sha256": data.sha256,
        "held_out_accuracy": round(trained.accuracy, 4),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, classifier_file(trained.classifier, about), overwrite)
    return {
        **about,
        "path": str(path),
        "iterations": trained.iterations,
        "held_out_images": len(data.held_out),
        "seconds": round(time.perf_counter() - start, 1),
    }
