"""A small image classifier whose penultimate features stand in for Inception's where no Inception weights are at hand.

The weights file is a safetensors file that also holds the architecture, so that one file is the whole network.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch_fidelity import FeatureExtractorBase, register_feature_extractor
from torch_fidelity.registry import FEATURE_EXTRACTORS_REGISTRY

DIGITS_CLASSIFIER = "digits-classifier"
DIGITS_WEIGHTS = Path(__file__).parent / "weights" / "digits_classifier.safetensors"
_SMALLEST_GRID = 4  # pixels: strides stop here, global pooling does the rest


class ClassifierSpec(BaseModel):
    """Architecture: one 3x3 convolution per width, the first with stride 1, then stride 2 down to a grid of 4."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image_size: int = Field(ge=1)
    channels: int = Field(ge=1)
    num_classes: int = Field(ge=2)
    widths: tuple[int, ...] = Field(min_length=1, description="channels after each convolution; the last are the features")

    @property
    def strides(self) -> list[int]:
        size, strides = self.image_size, [1]
        for _ in self.widths[1:]:
            strides.append(2 if size > _SMALLEST_GRID else 1)
            size = -(-size // strides[-1])
        return strides


class Classifier(nn.Module):
    """uint8 (B, C, H, W) -> features (B, d), logits (B, num_classes); convolution, batch norm, ReLU, mean over pixels."""

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


def save_classifier(classifier: Classifier, path: Path, about: dict[str, str]) -> None:
    """Write weights, architecture and `about` (how they came to be) into one safetensors file."""
    tensors = {name: tensor.contiguous() for name, tensor in classifier.state_dict().items()}
    save_file(tensors, path, metadata={**about, "spec": classifier.spec.model_dump_json()})


def load_classifier(path: str | Path) -> tuple[Classifier, dict[str, str]]:
    """The network in a file of `save_classifier`, in evaluation mode, and the file's other entries. Raises ValueError."""
    try:
        with safe_open(path, framework="pt") as file:
            about = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        classifier = Classifier(ClassifierSpec.model_validate_json(about.pop("spec")))
        classifier.load_state_dict(tensors)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; train one with `tread-bench features SUITE --out FILE`") from None
    except (OSError, SafetensorError, KeyError, ValidationError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path}: no feature network written by `tread-bench features` ({reason})") from None
    return classifier.eval().requires_grad_(False), about


class ClassifierFeatures(FeatureExtractorBase):
    """A classifier under torch-fidelity's interface: uint8 (B, 3, H, W) -> the tuple of the features asked for.

    Args:
        feature_extractor_weights_path: a file of `tread-bench features`; None: the digits classifier of this package.
    """

    def __init__(
        self,
        name: str,
        features_list: list[str],
        feature_extractor_weights_path: str | Path | None = None,
        **unused: Any,
    ) -> None:
        super().__init__(name, features_list)
        self.classifier, self.about = load_classifier(feature_extractor_weights_path or DIGITS_WEIGHTS)

    @property
    def spec(self) -> ClassifierSpec:
        return self.classifier.spec

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        features, logits = self.classifier(self._suited(pixels))
        provided = {"features": features, "logits": logits}
        return tuple(provided[name] for name in self.features_list)

    def _suited(self, pixels: Tensor) -> Tensor:
        spec, shape = self.spec, tuple(pixels.shape)
        if pixels.dtype != torch.uint8 or len(shape) != 4 or shape[1:] != (3, spec.image_size, spec.image_size):
            wanted = f"uint8 Bx3x{spec.image_size}x{spec.image_size}"
            raise ValueError(f"{self.name}: images are {pixels.dtype} of shape {shape}; it takes {wanted}")
        if spec.channels == 1 and not (pixels == pixels[:, :1]).all():
            raise ValueError(f"{self.name} judges grey images: the three channels must be equal")
        return pixels[:, : spec.channels]

    @staticmethod
    def get_provided_features_list() -> tuple[str, ...]:
        return "features", "logits"

    @staticmethod
    def get_default_feature_layer_for_metric(metric: str) -> str:
        return "logits" if metric == "isc" else "features"

    @staticmethod
    def can_be_compiled() -> bool:
        return True

    @staticmethod
    def get_dummy_input_for_compile() -> Tensor:
        return torch.zeros(1, 3, 8, 8, dtype=torch.uint8)


if DIGITS_CLASSIFIER not in FEATURE_EXTRACTORS_REGISTRY:  # a second registration of a name is an error there
    register_feature_extractor(DIGITS_CLASSIFIER, ClassifierFeatures)


def metadata_of(**about: object) -> dict[str, str]:
    """Values as the texts that safetensors keeps."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in about.items()}
