"""Samples of a cell that a run has trained, as a set of images: generated when they are first read, and kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from tread_bench.cell.run import weights_sha256
from tread_bench.core.errors import UserError
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.identity import canonical_json
from tread_bench.core.stored.outputs import make_below, refuse_irregular, refuse_linked
from tread_bench.measure.quality.decoder import open_decoder
from tread_bench.measure.quality.fingerprint import GUIDANCE, how_generated
from tread_bench.measure.sets.npz import Npz
from tread_bench.measure.sets.npz_images import NpzStore
from tread_bench.measure.sets.samples import SampleSet
from tread_bench.services.sample import SampledCell, SampleRequest
from tread_bench.suite.plan import digest

WORK = "samples"  # name of the work whose progress is reported


@dataclass(frozen=True)
class RunSamples:
    """Which samples of a run are requested; None: of its only seed, as many as its cells generate, the last weights."""

    cell: str | None = None
    num: int | None = None
    iteration: int | None = None
    cell_seed: int | None = None
    noise_seed: int | None = None

    @property
    def given(self) -> list[str]:
        """The options that were given, as they are typed."""
        return [f"--{name.replace('_', '-')}" for name, value in vars(self).items() if value is not None]


def is_run(path: Path) -> bool:
    """Return whether a folder is that of a run."""
    return (path / "plan.json").exists()


def open_run_samples(root: Path, requested: RunSamples, report: ReportProgress) -> SampleSet:
    """Return the samples of a cell, under the sampling of its metrics; nothing is generated yet. Raises UserError."""
    if requested.cell is None:
        raise UserError(f"{root} is a run: name the row, or the cell, whose samples are evaluated with --cell")
    sampled = SampledCell.open(
        SampleRequest(
            root=root,
            cell=requested.cell,
            cell_seed=requested.cell_seed,
            num=1,
            noise_seed=requested.noise_seed,
            iteration=requested.iteration,
        )
    )
    sampled = replace(sampled, count=requested.num or sampled.cell.metrics.num_samples)
    store = GeneratedStore(root, sampled, report)
    return SampleSet(f"{sampled.job.request.row}-seed{sampled.seed}", sampled.labels, store)


@dataclass(frozen=True)
class GeneratedStore:
    """Samples in the run's folder, in a file whose name says what they are made from."""

    root: Path
    sampled: SampledCell
    report: ReportProgress = field(repr=False)

    @property
    def count(self) -> int:
        return self.sampled.count

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        return self.sampled.shape

    @property
    def sha256(self) -> str:
        """Hash of the file."""
        return self._written.sha256

    def batches(self, size: int, start: int) -> Iterator[Tensor]:
        """(B, C, H, W) uint8."""
        return self._written.batches(size, start)

    @property
    def about(self) -> dict[str, Any]:
        """How they are generated, as JSON values."""
        sampled = self.sampled
        return {
            "cell": sampled.job.id,
            "row": sampled.job.request.row,
            "iteration": sampled.iteration,
            "seed": sampled.seed,
            "weights_sha256": weights_sha256(sampled.network),
            "weak_weights_sha256": weights_sha256(sampled.weak[1]) if sampled.weak else None,
            "ema": sampled.cell.metrics.ema,
            "pixels": sampled.cell.metrics.pixels,
            "sampling": sampled.cell.sampling.model_dump(mode="json"),
        }

    @property
    def protocol(self) -> dict[str, Any]:
        """What figures depend on of how they are generated, with guidance: figures of sets have no axis of it."""
        cell = self.sampled.cell
        guidance = cell.sampling.model_dump(mode="json", include=GUIDANCE)
        return how_generated(cell, open_decoder(cell.data)) | {f"sampling_{key}": guidance[key] for key in guidance}

    @cached_property
    def path(self) -> Path:
        """Of the file; another content has another name."""
        requested = canonical_json([self.about, self.count])
        return self.root / "samples" / self.sampled.job.id / f"{self.count}-{digest(requested)}.npz"

    @cached_property
    def _written(self) -> NpzStore:
        """The file, generated unless an earlier call has."""
        path = self.path
        refuse_linked([self.root / "samples", path.parent])
        refuse_irregular(path)
        if not path.exists():
            make_below(self.root, path.parent)
            self.sampled.write_npz(path, lambda done, of: self.report(WORK, done, of))
        return NpzStore.open(Npz(path))
