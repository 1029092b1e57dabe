"""Power-function averages of the weights, their snapshots, and the network that an average of any width makes.

EDM2's post-hoc EMA (arXiv 2312.02696, section 3); the mathematics are in core/numbers/power_averages.py.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tread_bench.cell import ema
from tread_bench.cell.checkpoint import file_sha256
from tread_bench.core.numbers.power_averages import Profile, decay_at, exponent_of, fit
from tread_bench.core.stored.files import StoreError, replacing
from tread_bench.core.stored.identity import Identity, stamp_of
from tread_bench.data.ranks import ALONE, Ranks
from tread_bench.model.network import Network

SNAPSHOTS = "averages"  # their folder in that of a cell


class PowerAverages:
    """Averages of named weights, one of each width."""

    def __init__(self, weights: Mapping[str, Tensor], widths: Sequence[float]) -> None:
        self.exponents = {width: exponent_of(width) for width in widths}
        self.names = list(weights)
        self._weights = list(weights.values())
        self._averages = {width: [p.detach().clone() for p in self._weights] for width in widths}

    def update(self, step: int) -> None:
        """Follow the weights after `step` (from 0)."""
        for width, average in self._averages.items():
            ema.update(average, self._weights, decay_at(step, self.exponents[width]))

    def tensors(self) -> dict[str, Tensor]:
        """Return all averages as they are now, by `<width>.<name>`."""
        return {
            f"{width}.{name}": tensor
            for width, average in self._averages.items()
            for name, tensor in zip(self.names, average, strict=True)
        }

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `tensors` gave, bit for bit."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])


@dataclass(eq=False)
class Snapshots:
    """Power-function averages on disk: `<iteration>.safetensors`, after a prefix, in `averages` of a `cell`'s folder.

    `written` are the SHA-256 of the files that belong to a training, by name. The first of several `ranks` writes, and
    all of them read.
    """

    cell: Path
    owner: Identity
    ranks: Ranks = ALONE
    prefix: str = ""
    written: dict[str, str] = field(default_factory=dict)

    def save(self, averages: PowerAverages, iteration: int) -> None:
        """Write the averages atomically; on all ranks, returns when they are there."""
        name = f"{self.prefix}{iteration}.safetensors"
        self.written[name] = self.ranks.told(self._write(averages, name, iteration) if self.ranks.is_first else "")

    def _write(self, averages: PowerAverages, name: str, iteration: int) -> str:
        path = self._path(name)
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as temporary:
            tensors = {key: tensor.cpu().contiguous() for key, tensor in averages.tensors().items()}
            save_file(tensors, temporary, self.owner.metadata(iteration))
            return file_sha256(temporary)

    def _path(self, name: str) -> Path:
        return self.cell / SNAPSHOTS / name

    @torch.no_grad()
    def network(self, like: Network, averages: PowerAverages, iteration: int, width: float) -> tuple[Network, float]:
        """Return the network of the average of any width after `iteration` steps, and the correlation of its profile
        with that of the width.

        Args:
            like: a network of the same sizes.
            averages: those after `iteration` steps, which complete the snapshots before.

        Raises:
            StoreError: a snapshot is missing, or is not the one that was written.
            StrangerError: it is another cell's, or its iteration is not the one in its name.
        """
        # The share of each average, (snapshots, widths).
        before = sorted((moment, name) for name in self.written if (moment := _iteration_of(name)) < iteration)
        moments = [*(moment for moment, _ in before), iteration]
        profiles = [Profile(exponent, moment) for moment in moments for exponent in averages.exponents.values()]
        coefficients, correlation = fit(profiles, Profile(exponent_of(width), iteration))
        shares = coefficients.reshape(len(moments), -1)

        # Their sum in float64, with one snapshot in memory at a time.
        network = copy.deepcopy(like)
        parameters = dict(network.named_parameters())
        sums = {name: torch.zeros(parameters[name].shape, dtype=torch.float64) for name in averages.names}
        snapshots = (self._read(name, moment) for moment, name in before)
        for tensors, row in zip(chain(snapshots, [averages.tensors()]), shares, strict=True):
            for stored, share in zip(averages.exponents, row, strict=True):
                for name, total in sums.items():
                    total.add_(tensors[f"{stored}.{name}"].cpu(), alpha=float(share))
        for name, total in sums.items():
            parameters[name].copy_(total)
        return network, correlation

    def _read(self, name: str, iteration: int) -> dict[str, Tensor]:
        path = self._path(name)
        try:
            is_intact = file_sha256(path) == self.written[name]
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}); train its cell again") from None
        if not is_intact:
            if stamp := stamp_of(path):
                self.owner.check(stamp, path, iteration)
            raise StoreError(f"{path} is damaged: its sha256 is not the recorded one; train its cell again")
        return load_file(path)


def _iteration_of(name: str) -> int:
    return int(name.removesuffix(".safetensors").rpartition("-")[2])


def remove_snapshots(cell: Path, prefix: str = "") -> None:
    """Remove the snapshots with a prefix from a cell's folder, and their folder where nothing else is in it."""
    for path in (cell / SNAPSHOTS).glob(f"{prefix}*.safetensors"):
        path.unlink()
    with suppress(OSError):
        (cell / SNAPSHOTS).rmdir()
