"""A feature network of random weights, for smoke runs where the real one is missing."""

from __future__ import annotations

from pathlib import Path

import torch

from tread_bench.core.stored.files import write_atomically
from tread_bench.measure.quality.networks.classifier.network import Classifier, ClassifierSpec, classifier_file

_WIDTHS = (8, 16, 16)


def write_random_network(path: Path, shape: tuple[int, int, int]) -> None:
    """Write one for images of that shape (channels, side, classes)."""
    channels, side, num_classes = shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        spec = ClassifierSpec(image_size=side, channels=channels, num_classes=num_classes, widths=_WIDTHS)
        write_atomically(path, classifier_file(Classifier(spec).eval(), {"name": "random-classifier"}))
