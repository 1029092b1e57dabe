"""Feature networks behind one interface: pixels in, features for FID, KID, precision and recall, and logits for IS.

Networks have torch-fidelity's interface (`FeatureExtractorBase`) and come from local files only: nothing is downloaded,
and no file can run code.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_fidelity import FeatureExtractorBase
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

from tread_bench.core.config.metrics import EXTRACTORS
from tread_bench.core.errors import UserError
from tread_bench.core.names import unknown
from tread_bench.measure.quality.classifier import DIGITS_WEIGHTS, ClassifierFeatures

if TYPE_CHECKING:
    from tread_bench.core.config.data import DataChoice
    from tread_bench.core.config.metrics import Metrics

INCEPTION = "inception"
TRAINED = "trained-classifier"
_WAYS_OUT = (
    "train one with `tread-bench features SUITE --out FILE` and set metrics.extractor_weights: FILE, "
    "or give torch-fidelity's Inception weights as metrics.inception_weights: FILE"
)


class Extractor:
    """A feature network and its identity.

    Args:
        name: as the report prints it next to "FID".
        network: uint8 (B, 3, H, W) -> (features (B, dims), logits (B, classes)).
        sha256: of the weights file.
    """

    def __init__(self, name: str, network: FeatureExtractorBase, sha256: str, dims: int) -> None:
        self.name = name
        self.network = network
        self.sha256 = sha256
        self.dims = dims

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    def to(self, device: torch.device | str) -> Extractor:
        """The same extractor, with its network on that device."""
        self.network.to(device)
        return self

    def features(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 (B, C, H, W) -> float32 features (B, dims) and logits (B, classes) on the CPU.

        A single channel is repeated to three. Computed in float32 whatever precision the run trains in.
        """
        if pixels.dtype != torch.uint8 or pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
            raise ValueError(
                f"feature networks take uint8 (B, 1 or 3, H, W), not {pixels.dtype} of shape {tuple(pixels.shape)}"
            )
        with torch.no_grad(), full_float32(self.device):
            features, logits = self.network(pixels.to(self.device).expand(-1, 3, -1, -1))
        return features.cpu(), logits.cpu()


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """No autocast, no TF32, no algorithm search: a metric must not depend on the precision of the training."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with (
            torch.autocast(device.type, enabled=False),
            torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False),
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)


def choose_extractor(metrics: Metrics, data: DataChoice) -> Extractor:
    """The feature network that the metrics name, or the default for the data.

    Raises:
        UserError: the name is unknown, the weights are missing or wrong, or the data have no default.
    """
    name = metrics.extractor or _suiting(metrics, data)
    if name not in EXTRACTORS:
        raise UserError(unknown("metrics.extractor", name, EXTRACTORS))
    if name == INCEPTION:
        return open_inception(_given(metrics.inception_weights, name, "metrics.inception_weights"))
    weights = DIGITS_WEIGHTS
    if name == TRAINED:
        weights = Path(_given(metrics.extractor_weights, name, "metrics.extractor_weights"))
    return open_classifier(weights, data.picture_shape)


def _suiting(metrics: Metrics, data: DataChoice) -> str:
    if metrics.inception_weights and metrics.extractor_weights:
        raise UserError(
            "metrics.inception_weights and metrics.extractor_weights are both given: "
            f"set metrics.extractor to {INCEPTION} or {TRAINED}"
        )
    if metrics.inception_weights:
        return INCEPTION
    if metrics.extractor_weights:
        return TRAINED
    if data.family.extractor is not None:
        return data.family.extractor
    raise UserError(f"FID needs a feature network, and none ships for data {data.name!r}: {_WAYS_OUT}")


def _given(weights: str | None, name: str, key: str) -> str:
    if not weights:
        raise UserError(f"metrics.extractor {name} needs a local weights file: set {key}")
    return weights


def open_classifier(path: str | Path, shape: tuple[int, int] | None = None) -> Extractor:
    """A network of `tread-bench features`; `shape` is (channels, image_size) of the images to be measured."""
    network = ClassifierFeatures(TRAINED, ["features", "logits"], path)
    spec = network.spec
    name = network.about.get("name", TRAINED)
    if shape and shape != (spec.channels, spec.image_size):
        raise UserError(
            f"{path} is a feature network for {spec.channels}x{spec.image_size}x{spec.image_size} images, the data are "
            f"{shape[0]}x{shape[1]}x{shape[1]}: {_WAYS_OUT}"
        )
    return Extractor(name, network, hashlib.sha256(Path(path).read_bytes()).hexdigest(), spec.widths[-1])


def open_inception(path: str | Path) -> Extractor:
    """torch-fidelity's InceptionV3 (2048 features) from a local file of its weights, loaded as tensors only."""
    try:
        content = Path(path).read_bytes()
        weights = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        network = FeatureExtractorInceptionV3(INCEPTION, ["2048", "logits_unbiased"], _plain_copy(weights))
    except OSError as error:
        raise UserError(f"{path}: cannot read Inception weights ({error.strerror})") from None
    except (pickle.UnpicklingError, RuntimeError, TypeError, AttributeError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path}: not a state dict of torch-fidelity's Inception, or not safe to load ({reason}); give "
            "weights-inception-2015-12-05-6726825d.pth of torch-fidelity's release v0.2.0"
        ) from None
    return Extractor(INCEPTION, network, hashlib.sha256(content).hexdigest(), 2048)


def _plain_copy(weights: object) -> io.BytesIO:
    """The tensors, written again: torch-fidelity unpickles without restriction, so it only gets what we wrote."""
    if not isinstance(weights, dict) or not all(isinstance(value, Tensor) for value in weights.values()):
        raise TypeError("not a dictionary of tensors")
    buffer = io.BytesIO()
    torch.save({str(name): tensor for name, tensor in weights.items()}, buffer)
    buffer.seek(0)
    return buffer
