"""A small image classifier whose penultimate features replace Inception's where no Inception weights are available.

The weights file is a safetensors file that also contains the architecture, so that one file is the whole network.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from tread_bench.core.config.metrics import GIVE_WEIGHTS
from tread_bench.core.errors import UserError
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.foreign import check_file, one_line
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.networks.classifier.family import (
    TRAINED_CLASSIFIER,
    DigitsClassifierOptions,
    GlyphsClassifierOptions,
    TrainedClassifierOptions,
)

_WEIGHTS = Path(__file__).parent / "weights"
DIGITS_WEIGHTS = _WEIGHTS / "digits_classifier.safetensors"
GLYPHS_WEIGHTS = _WEIGHTS / "glyphs_classifier.safetensors"
_SMALLEST_GRID = 4  # pixels: strides stop here, global pooling does the rest
_RANDOM_WIDTHS = (8, 16, 16)


class ClassifierSpec(BaseModel):
    """Architecture: one 3x3 convolution per width, the first with stride 1, then stride 2 down to a grid of 4."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image_size: int = Field(ge=1)
    channels: int = Field(ge=1)
    num_classes: int = Field(ge=2)
    widths: tuple[int, ...] = Field(min_length=1, description="channels after each convolution; the last: features")

    @property
    def strides(self) -> list[int]:
        size = self.image_size
        strides = [1]
        for _ in self.widths[1:]:
            strides.append(2 if size > _SMALLEST_GRID else 1)
            size = -(-size // strides[-1])
        return strides


class Classifier(nn.Module):
    """uint8 (B, C, H, W) -> features (B, d), logits (B, num_classes): convolutions, mean over pixels, linear head."""

    def __init__(self, spec: ClassifierSpec) -> None:
        super().__init__()
        self.spec = spec
        layers: list[nn.Module] = []
        for fan_in, width, stride in zip((spec.channels, *spec.widths), spec.widths, spec.strides, strict=False):
            layers += [nn.Conv2d(fan_in, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(spec.widths[-1], spec.num_classes)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(pixels.float() / 127.5 - 1)
        return features, self.head(features)


def classifier_file(classifier: Classifier, about: dict[str, Any]) -> bytes:
    """Return a safetensors file of the weights, the architecture and `about`, which says how they were trained."""
    one_entry = json.dumps({**about, "spec": classifier.spec.model_dump()})  # safetensors writes several in any order
    tensors = {name: tensor.contiguous() for name, tensor in classifier.state_dict().items()}
    return save(tensors, {"about": one_entry})


def write_random_network(path: Path, shape: tuple[int, int, int]) -> None:
    """Write a network of random weights, for smoke runs where the real one is missing.

    Args:
        shape: (channels, side, classes) of the images.
    """
    channels, side, num_classes = shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        spec = ClassifierSpec(image_size=side, channels=channels, num_classes=num_classes, widths=_RANDOM_WIDTHS)
        write_atomically(path, classifier_file(Classifier(spec).eval(), {"name": "random-classifier"}))


def load_classifier(path: str | Path) -> tuple[Classifier, dict[str, Any]]:
    """Return the network in a `classifier_file`, in evaluation mode, and the file's other entries. Raises UserError."""
    try:
        check_file(path)
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["about"])
            names = file.keys()
            tensors = {name: file.get_tensor(name) for name in names}
        classifier = Classifier(ClassifierSpec.model_validate(about.pop("spec")))
        classifier.load_state_dict(tensors)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; train one with `tread-bench features SUITE --out FILE`") from None
    except Exception as error:  # a damaged file may raise anything
        raise UserError(f"{path}: not a feature network of `tread-bench features` ({one_line(error)})") from None
    return classifier.eval().requires_grad_(False), about


class ClassifierFeatures(nn.Module):
    """A classifier as a feature network: uint8 (B, 3, H, W) -> features (B, d), logits (B, num_classes).

    Args:
        path: a file of `tread-bench features`.
        resizes: whether it takes square images of any size, which it sees at its own, by averages over areas.
    """

    def __init__(self, path: str | Path, resizes: bool = False) -> None:
        super().__init__()
        self.resizes = resizes
        self.classifier, about = load_classifier(path)
        self.name = about.get("name", TRAINED_CLASSIFIER.name)
        self.spec = self.classifier.spec

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        spec = self.spec
        if self.resizes:
            size = (spec.image_size, spec.image_size)
            pixels = F.interpolate(pixels.float(), size, mode="area").round().to(torch.uint8)
        if pixels.shape[2:] != (spec.image_size, spec.image_size):
            wanted = f"{spec.image_size}x{spec.image_size}"
            raise ValueError(f"{self.name}: images are of shape {tuple(pixels.shape)}; it takes {wanted} pixels")
        if spec.channels == 1 and not (pixels == pixels[:, :1]).all():
            raise ValueError(f"{self.name} takes grey images: the three channels must be equal")
        features, logits = self.classifier(pixels[:, : spec.channels])
        return features, logits


def open_digits_classifier(options: DigitsClassifierOptions, shape: tuple[int, int]) -> Extractor:
    """Return the one whose weights ship with this package. Raises UserError."""
    return open_classifier(DIGITS_WEIGHTS, shape)


def open_glyphs_classifier(options: GlyphsClassifierOptions, shape: tuple[int, int]) -> Extractor:
    """Return the one of 16x16 glyphs whose weights ship with this package; it resizes other images. Raises
    UserError.
    """
    return open_classifier(GLYPHS_WEIGHTS, shape, resizes=True)


def open_trained_classifier(options: TrainedClassifierOptions, shape: tuple[int, int]) -> Extractor:
    """Return one of `tread-bench features`. Raises UserError."""
    if options.weights is None:
        raise UserError(f"metrics.extractor {options.name} needs a local weights file: set metrics.extractor_weights")
    return open_classifier(options.weights, shape)


def open_classifier(path: str | Path, shape: tuple[int, int] | None = None, resizes: bool = False) -> Extractor:
    """Return a network of `tread-bench features`; `shape` is (channels, image_size) of the images to be measured."""
    network = ClassifierFeatures(path, resizes)
    spec = network.spec
    if shape and resizes and shape[0] != spec.channels:
        raise UserError(f"{network.name} takes grey images, the data have {shape[0]} channels: {GIVE_WEIGHTS}")
    if shape and not resizes and shape != (spec.channels, spec.image_size):
        raise UserError(
            f"{path} is a feature network for {spec.channels}x{spec.image_size}x{spec.image_size} images, the data are "
            f"{shape[0]}x{shape[1]}x{shape[1]}: {GIVE_WEIGHTS}"
        )
    return Extractor(network.name, network, hashlib.sha256(Path(path).read_bytes()).hexdigest(), spec.widths[-1])
