"""Images from the weights that a run has kept: what `sample` writes, and `evaluate` measures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from tread_bench.cell.open import Job
from tread_bench.cell.run import weights_sha256
from tread_bench.core.config.choices import DataChoice, GuidanceChoice
from tread_bench.core.config.routed import setting_of, with_blocks
from tread_bench.core.config.sampling import Sampling, misfits
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.guidance import GuidanceOptions
from tread_bench.core.errors import UserError
from tread_bench.core.names import canonical_json, unknown
from tread_bench.core.numbers.costs import sampling_macs
from tread_bench.core.problems import SuiteError, validation_problems
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.data_files import contents_as_before
from tread_bench.core.stored.documents import CellRequest, WeightsRef
from tread_bench.core.stored.files import make_below, refuse_irregular, refuse_linked
from tread_bench.core.stored.records import paired_seed
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.quality.decoder import open_decoder, to_pixels
from tread_bench.measure.quality.fingerprint import GUIDANCE, how_generated
from tread_bench.measure.sets.samples import SampleSet, open_samples
from tread_bench.measure.sets.write import write_samples_npz
from tread_bench.model.network import Network
from tread_bench.runner.folder import RunFolder
from tread_bench.suite.resolve import digest
from tread_bench.suite.weights import Source, Weights, guiding
from tread_bench.suite.yaml import read_value

Trained = tuple[Cell, Network]


@dataclass(frozen=True)
class SampledCell:
    """A trained cell whose samples were requested.

    Args:
        cell: the trained cell, sampled as requested.
        seed: of noise and masks.
        iteration: of the weights.
        count: images in all.
        classes: that are generated in turn; empty: the data have no labels.
    """

    job: Job
    cell: Cell
    network: Network
    weak: Trained | None
    seed: int
    iteration: int
    count: int
    classes: Sequence[int]

    @classmethod
    def open(
        cls,
        root: Path,
        name: str,
        count: int | None,
        *,
        cell_seed: int | None = None,
        iteration: int | None = None,
        noise_seed: int | None = None,
        classes: str | None = None,
        guidance: str | None = None,
        **changes: Any,
    ) -> SampledCell:
        """Check everything that can be refused, and generate nothing; None: as the cell samples for its metrics.

        Args:
            name: the cell's id, or the name of its row and, where that has several seeds, `cell_seed`.
            noise_seed: of noise and masks.
            classes: that are sampled in turn, such as "0,1,2".
            guidance: a rule as typed.
            changes: of the cell's sampling.

        Raises:
            UserError: there is no such cell, or it cannot be sampled so.
        """
        # The cell, and the weights that it is sampled from.
        folder = RunFolder(root)
        job = Job(folder, find_cell(folder, name, cell_seed), folder.existing_plan())
        own = WeightsRef(cell=job.id, iteration=job.cell.training.iterations)
        source = job.request.sources.get("network", own)
        if iteration is not None:
            source = source.model_copy(update={"iteration": iteration})
        trained, network = job.evaluated(source)

        # How it is sampled, and the files that this needs, which are those of its images.
        cell = sampled_as(trained, job.cell, guidance, **changes)
        weak = _weak(job, source, cell)
        labels = _classes(classes, cell) or range(network.spec.num_classes)
        refuse_other_files(job, cell.data)
        seed = job.seed if noise_seed is None else noise_seed
        return cls(job, cell, network, weak, seed, source.iteration, count or cell.metrics.num_samples, labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of an image."""
        channels, side = self.cell.data.picture_shape
        return channels, side, side

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """(n,), the class that each image is generated for; None: the data have no labels."""
        return np.resize(np.array(self.classes, dtype=np.int64), self.count) if self.classes else None

    @property
    def macs(self) -> int:
        """MACs of one image."""
        times = build_objective(self.cell.objective).sampling_times(self.cell.sampling.steps)
        return sampling_macs(setting_of(self.cell), times, setting_of(self.weak[0]) if self.weak else None)

    def batches(self) -> Iterator[Tensor]:
        """Generate and decode the images, (B, C, H, W) uint8, in order."""
        decoder = open_decoder(self.cell.data)
        made = generate(
            self.network,
            build_objective(self.cell.objective),
            self.cell.sampling,
            self.seed,
            self.count,
            self.cell.metrics.batch,
            self.weak[1] if self.weak else None,
            self.classes,
            held_out=self.job.data.held_out if self.network.spec.context_shape else None,
        )
        return (to_pixels(images, decoder) for images in made)

    def write_npz(self, path: Path, progress: Callable[[int, int], object], overwrite: bool = False) -> None:
        """Write the images in ADM's format; see `write_samples_npz`."""
        write_samples_npz(path, self.batches(), self.count, self.shape, self.labels, progress, overwrite)

    def as_set(self, report: ReportProgress) -> SampleSet:
        """Return the samples as a set of images: generated when they are first read, and kept in the run's folder."""
        # What they are made from; a file's name says it.
        root, sampling = self.job.folder.root, self.cell.sampling.model_dump(mode="json")
        made = {
            "cell": self.job.id,
            "row": self.job.request.row,
            "iteration": self.iteration,
            "seed": self.seed,
            "weights_sha256": weights_sha256(self.network),
            "weak_weights_sha256": weights_sha256(self.weak[1]) if self.weak else None,
            "ema": self.cell.metrics.ema,
            "sampling": sampling,
        }
        name = f"{self.count}-{digest(canonical_json([made, self.count]))}.npz"
        path = root / "samples" / self.job.id / name

        # What figures depend on of that, with guidance: figures of sets have no axis of it.
        guidance = {f"sampling_{key}": value for key, value in sampling.items() if key in GUIDANCE}

        @cache
        def written() -> SampleSet:
            refuse_linked([root / "samples", path.parent])
            refuse_irregular(path)
            if not path.exists():
                make_below(root, path.parent)
                self.write_npz(path, lambda done, of: report("samples", done, of))
            return open_samples(path)

        return SampleSet(
            name=f"{self.job.request.row}-seed{self.seed}",
            count=self.count,
            shape=self.shape,
            hashed=lambda: written().sha256,
            batches=lambda size: written().batches(size),
            made=made,
            sampling=how_generated(self.cell, open_decoder(self.cell.data)) | guidance,
        )


def find_cell(folder: RunFolder, name: str, seed: int | None) -> CellRequest:
    """Return cell.json of the cell with that id, or of the row with that name and, where it has several, that seed."""
    cells, damaged = folder.readable_requests()
    named = [cell for cell in cells if name in (cell.cell, cell.row)]
    if not named:
        known = dict.fromkeys([*(cell.row for cell in cells), *(cell.cell for cell in cells)])
        raise UserError("\n".join([unknown("cell", name, known), *damaged]))
    chosen = [cell for cell in named if cell.seed == seed] if len(named) > 1 else named
    if len(chosen) != 1:
        seeds = ", ".join(str(cell.seed) for cell in named)
        raise UserError(f"row {name!r} has a cell for each of the seeds {seeds}: choose one with --cell-seed")
    return chosen[0]


def sampled_as(trained: Cell, cell: Cell, guidance: str | None = None, **changes: Any) -> Cell:
    """Return the trained cell, sampled with these changes, its pixels as the metrics of `cell` see them.

    A rule as typed keeps the scale of `cell`, unless that is the scale of no guidance.
    """
    # The sampling as requested.
    kept = cell.sampling.model_dump()
    requested = {key: value for key, value in changes.items() if value is not None}
    if guidance is not None:
        typed = requested["guidance"] = read_value(guidance, f"--guidance {guidance}")
        if cell.sampling.guidance_scale == 1:
            del kept["guidance_scale"]
        with suppress(ValidationError):  # which the sampling that holds it reports
            rule: GuidanceOptions = TypeAdapter(GuidanceChoice).validate_python(typed)
            if rule.branches[1] is None:
                requested.setdefault("guidance_scale", 1.0)
    try:
        sampling = Sampling.model_validate({**kept, **requested})
    except ValidationError as error:
        raise SuiteError(replace(problem, loc=()) for problem in validation_problems(error, Sampling)) from None

    # What it must fit.
    if wrong := [message for _, message in misfits(sampling, trained.objective)]:
        raise UserError("\n".join(wrong))
    complete = trained.model_copy(update={"sampling": sampling, "metrics": cell.metrics})
    try:
        complete = with_blocks(setting_of(complete))
    except SuiteError as error:
        raise UserError("\n".join(problem.message for problem in error.problems)) from None
    if (channels := complete.data.picture_shape[0]) not in (1, 3):
        raise UserError(f"images of {channels} channels cannot be shown: sample needs 1 or 3, or latents and a decoder")
    return complete


def refuse_other_files(job: Job, data: DataChoice) -> None:
    """Raise ChangedDataError where decoder or captions are not those of the cell's images."""
    record = job.folder.record(job.id)
    known = {**job.plan.files, **(record.data_files if record else {})}
    if decoding := data.family.decoding(data):
        contents_as_before(decoding.files, known)
    if data.text_shape is not None:
        contents_as_before((path for _, path in data.family.files(data, True)), known)


def _weak(job: Job, source: WeightsRef, cell: Cell) -> Trained | None:
    """The network of the weak branch, where it has weights of its own."""
    rule: Any = cell.sampling.guidance
    if not any(branch and branch.other_weights for branch in rule.branches):
        return None
    root, row, seed = Path(source.run or job.folder.root), rule.weak_row, paired_seed(job.request)
    evaluated = weak = Job.open(root, source.cell)
    if row is not None:
        cells, _ = RunFolder(root).readable_requests()
        of_seed = {other.row: other.cell for other in cells if paired_seed(other) == seed}
        if row not in of_seed:
            raise UserError(unknown(f"row of seed {seed}", row, set(of_seed)))
        weak = Job.open(root, of_seed[row])
    try:
        strong = Weights(Source(evaluated.request.row, evaluated.cell), source.iteration)
        found = guiding(cell, strong, Source(weak.request.row, weak.cell))
    except ValueError as error:
        raise UserError(str(error)) from None
    return job.trained(WeightsRef(cell=weak.id, iteration=found.iteration, run=source.run))


def _classes(text: str | None, cell: Cell) -> list[int] | None:
    if text is None:
        return None
    classes = cell.data.num_classes
    if not classes:
        raise UserError("--classes: these data have no labels; leave it out")
    if not re.fullmatch(r"\s*[0-9]{1,18}(\s*,\s*[0-9]{1,18})*\s*", text) or max(map(int, text.split(","))) >= classes:
        raise UserError(f"--classes {text}: must be classes 0 to {classes - 1}, such as 0,1,2")
    return [int(label) for label in text.split(",")]
