"""Feature networks behind one interface: pixels in, features for FID, KID, precision and recall, and logits for IS.

Networks have torch-fidelity's interface (`FeatureExtractorBase`) and come from local files only: nothing is downloaded,
and no file can run code.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tread_bench.core.plugins import named
from tread_bench.data.precision import full_float32

if TYPE_CHECKING:
    from tread_bench.core.config.data import DataChoice
    from tread_bench.core.config.metrics import Metrics


class Extractor:
    """A feature network and its identity.

    Args:
        name: as the report prints it next to "FID".
        network: uint8 (B, 3, H, W) -> (features (B, dims), logits (B, classes)); None in place of logits: it has none.
        sha256: of the weights file; settings that a suite gives are added to it.
        dims: length of a feature vector.
    """

    def __init__(self, name: str, network: nn.Module, sha256: str, dims: int) -> None:
        self.name = name
        self.network = network.eval().requires_grad_(False)
        self.sha256 = sha256
        self.dims = dims

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    def to(self, device: torch.device | str) -> Extractor:
        """The same extractor, with its network on that device."""
        self.network.to(device)
        return self

    def features(self, pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        """uint8 (B, C, H, W) -> float32 features (B, dims) and logits (B, classes) or None, on the CPU.

        A single channel is repeated to three. Computed in float32 whatever precision the run trains in.
        """
        if pixels.dtype != torch.uint8 or pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
            raise ValueError(
                f"feature networks take uint8 (B, 1 or 3, H, W), not {pixels.dtype} of shape {tuple(pixels.shape)}"
            )
        with torch.no_grad(), full_float32(self.device):
            features, logits = self.network(pixels.to(self.device).expand(-1, 3, -1, -1))
        return features.cpu(), None if logits is None else logits.cpu()


def choose_extractor(metrics: Metrics, data: DataChoice) -> Extractor:
    """The feature network that the metrics name, or the default for the data.

    Raises:
        UserError: the weights are missing or wrong, or the data have no default.
    """
    options = metrics.network(data)
    extractor: Extractor = named(options.family.builder)(options, data.picture_shape)
    files = {key for key, _ in options.family.files(options)}
    if settings := options.model_dump(mode="json", exclude={"name", *files}, exclude_none=True):
        content = json.dumps([extractor.sha256, settings], sort_keys=True)
        identity = hashlib.sha256(content.encode()).hexdigest()
        return Extractor(extractor.name, extractor.network, identity, extractor.dims)
    return extractor
