"""Feature networks behind one interface: pixels in, features for FID, KID, precision and recall, logits for the
Inception score, spatial features for sFID.

Networks come from local files only: nothing is downloaded, and no file can run code.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from tread_bench.core.describe.metrics import settings_of
from tread_bench.core.describe.plugins import named
from tread_bench.data.check import message_of
from tread_bench.data.pretrained import full_float32

if TYPE_CHECKING:
    from tread_bench.core.config.choices import DataChoice
    from tread_bench.core.config.metrics import Metrics
    from tread_bench.core.describe.metrics import ExtractorOptions

_BATCH_ON_THE_CPU, _BATCH_ON_A_GPU = 8, 128  # images; docs/performance.md has the figures of the first


class Features(NamedTuple):
    """What a feature network gives of n images, float32 on the CPU.

    Args:
        pooled: (n, d), one vector for each image.
        logits: (n, classes); None: the network has none.
        spatial: (n, s), which keep the places in the image; None: not requested, or the network has none.
    """

    pooled: Tensor
    logits: Tensor | None = None
    spatial: Tensor | None = None


class Extractor:
    """A feature network and its identity.

    Args:
        name: as the report prints it next to "FID".
        network: uint8 (B, 3, H, W) -> (features (B, dims), logits (B, classes)); None in place of logits: it has none.
            One with spatial features returns them, (B, spatial_dims), as third output if it is called with
            `spatial=True`.
        sha256: of the weights file; settings that a suite gives are added to it.
        dims: length of a feature vector.
        spatial_dims: length of a vector of spatial features; None: it has none.
    """

    def __init__(self, name: str, network: nn.Module, sha256: str, dims: int, spatial_dims: int | None = None) -> None:
        self.name = name
        self.network = network.eval().requires_grad_(False)
        self.sha256 = sha256
        self.dims = dims
        self.spatial_dims = spatial_dims
        self.settings: Mapping[str, Any] = {}  # `open_extractor` sets them

    @property
    def device(self) -> torch.device:
        tensors = chain(self.network.parameters(), self.network.buffers())
        return next((tensor.device for tensor in tensors), torch.device("cpu"))

    def to(self, device: torch.device | str) -> Extractor:
        """Return the same extractor, with its network on that device."""
        self.network.to(device)
        return self

    @property
    def batch(self) -> int:
        """Images at a time on its device, beyond which more cost memory and save no time."""
        return _BATCH_ON_THE_CPU if self.device.type == "cpu" else _BATCH_ON_A_GPU

    def features(self, pixels: Tensor, spatial: bool = False) -> Features:
        """Features of images, uint8 (B, C, H, W), with the spatial ones if requested.

        A single channel is repeated to three. Computed in float32 whatever precision the run trains in.

        Raises:
            ValueError: these are not such images, or the network has no spatial features.
        """
        if pixels.dtype != torch.uint8 or pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
            raise ValueError(
                f"feature networks take uint8 (B, 1 or 3, H, W), not {pixels.dtype} of shape {tuple(pixels.shape)}"
            )
        if spatial and self.spatial_dims is None:
            raise ValueError(f"feature network {self.name} has no spatial features")
        requested = {"spatial": True} if spatial else {}
        with torch.no_grad(), full_float32(self.device):
            pooled, *others = self.network(pixels.to(self.device).expand(-1, 3, -1, -1), **requested)
        return Features(pooled.cpu(), *(None if one is None else one.cpu() for one in others))


def images_to_features(
    batches: Iterable[Tensor],
    extractor: Extractor,
    *,
    spatial: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> Features:
    """Features of images, uint8 (B, C, H, W), batch by batch, in their order: (n, d), (n, classes) and (n, s), float32.

    Args:
        spatial: also compute spatial features.
        progress: called with the number of images that are done.

    Raises:
        ValueError: no images.
    """
    seen: list[Features] = []
    done = 0
    for pixels in batches:
        seen.append(extractor.features(pixels, spatial))
        done += len(pixels)
        progress(done)
    if not done:
        raise ValueError("0 images, where there must be at least one")
    columns = zip(*seen, strict=True)
    return Features._make(None if parts[0] is None else torch.cat(parts) for parts in columns)


def machine_of(device: torch.device) -> tuple[object, ...]:
    """Return what changes last bits of features, for the keys of those that are stored."""
    if device.type == "cuda":
        return torch.__version__, torch.cuda.get_device_name(device)
    return torch.__version__, str(device), torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()


def choose_extractor(metrics: Metrics, data: DataChoice) -> Extractor:
    """Return the feature network that the metrics name, or the default for the data.

    Raises:
        UserError: the weights are missing or wrong, or the data have no default.
    """
    return open_extractor(metrics.network(data), data.picture_shape)


def open_extractor(options: ExtractorOptions, shape: tuple[int, int]) -> Extractor:
    """Return the feature network that the options name, for images of that shape (channels, side).

    All settings but files are added to its identity.

    Raises:
        UserError: the weights are missing or wrong.
    """
    extractor: Extractor = named(options.family.builder)(options, shape)
    settings = settings_of(options)
    if not settings:
        return extractor
    content = json.dumps([extractor.sha256, settings], sort_keys=True)
    with_settings = copy.copy(extractor)
    with_settings.settings = settings
    with_settings.sha256 = hashlib.sha256(content.encode()).hexdigest()
    return with_settings


def extractor_problems(options: ExtractorOptions, shape: tuple[int, int]) -> Iterator[str]:
    """A message where the feature network cannot be opened for images of that shape."""
    yield from message_of(open_extractor, options, shape)
