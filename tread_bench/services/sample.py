"""`sample`: images from the weights that a run has kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from tread_bench.cell.open import Job
from tread_bench.core.config.choices import DataChoice
from tread_bench.core.config.routed import setting_of, with_blocks
from tread_bench.core.config.sampling import misfits
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.core.names import unknown
from tread_bench.core.numbers.costs import sampling_macs
from tread_bench.core.stored.data_files import DataFiles
from tread_bench.core.stored.destinations import check_folder, claim_folders, refuse_taken
from tread_bench.core.stored.documents import CellRequest, WeightsRef
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.identity import canonical_json
from tread_bench.core.stored.outputs import make_below, refuse_linked, try_file
from tread_bench.core.stored.records import paired_seed
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.quality.decoder import open_decoder, to_pixels
from tread_bench.measure.quality.png import GRID, grid_png, image_png
from tread_bench.measure.sets.write import write_samples_npz
from tread_bench.model.network import Network
from tread_bench.runner.folder import RunFolder
from tread_bench.services.display import counted
from tread_bench.services.guidance import changed_sampling
from tread_bench.suite.plan import digest
from tread_bench.suite.weights import Source, Weights, guiding

COMMAND = "tread-bench sample"

Trained = tuple[Cell, Network]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """The requested samples; None: as the cell samples for its metrics.

    Args:
        cell: its id, or the name of its row and, where that has several seeds, `cell_seed`.
        changes: of the cell's sampling.
        noise_seed: of noise and masks.
        classes: that are sampled in turn, such as "0,1,2".
        npz: one file in place of the folder `out`; `overwrite` lets it be replaced.
    """

    root: Path
    cell: str
    cell_seed: int | None = None
    guidance: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    num: int
    noise_seed: int | None = None
    classes: str | None = None
    iteration: int | None = None
    out: Path | None = None
    npz: Path | None = None
    overwrite: bool = False


@dataclass(frozen=True)
class Sampled:
    """Files that were written, by what they are, and the MACs of an image."""

    files: Mapping[str, str | list[str]]
    macs: int


def sample(request: SampleRequest) -> Sampled:
    """Generate images and write them. Raises UserError."""
    return _sample_folder(request) if request.npz is None else _sample_npz(request, request.npz)


def _sample_folder(request: SampleRequest) -> Sampled:
    """Each image as a PNG file, and their grid."""
    # Check everything that can be refused before any work.
    if request.out:
        check_folder("--out", request.out, COMMAND)
    samples = SampledCell.open(request)
    out = request.out or _default_out(request, samples)
    refuse_linked([request.root / "samples", out.parent, out] if request.out is None else [])

    # Generate and decode.
    pixels = torch.cat([*samples.batches()])
    files = {_image_name(k): image_png(image) for k, image in enumerate(pixels)} | {GRID: grid_png(pixels)}

    # Write the images, and report what each cost.
    if request.out is None:
        make_below(request.root, out)
    else:
        claim_folders(COMMAND, {"--out": out})
    for name, content in files.items():
        write_atomically(out / name, content)
    *images, grid = (str(out / name) for name in files)
    return Sampled({"grid": grid, "images": images}, samples.macs)


def _sample_npz(request: SampleRequest, path: Path) -> Sampled:
    """All images in one file, in ADM's format."""
    if request.out is not None:
        raise UserError(f"--npz {path} writes one file, --out {request.out} a folder of images; give one of them")
    refuse_taken("--npz", path, request.overwrite)
    samples = SampledCell.open(request)
    try_file("--npz", path)
    with counted(Console(stderr=True), str(samples.job.device), "images are generated") as report:
        samples.write_npz(path, partial(report, samples.job.request.row), request.overwrite)
    return Sampled({"npz": str(path)}, samples.macs)


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
    def open(cls, request: SampleRequest) -> SampledCell:
        """Check everything that can be refused, and generate nothing. Raises UserError."""
        folder = RunFolder(request.root)
        job = Job(folder, _find(folder, request), folder.existing_plan())
        source = _source(job, request.iteration)
        trained, network = job.evaluated(source)
        cell = _requested_cell(trained, job.cell, request)
        weak = _weak(job, source, cell)
        classes = _classes(request.classes, cell) or range(network.spec.num_classes)
        _refuse_other_files(job, cell.data)
        seed = job.seed if request.noise_seed is None else request.noise_seed
        return cls(job, cell, network, weak, seed, source.iteration, request.num, classes)

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
        return (to_pixels(images, decoder, self.cell.metrics.pixels) for images in made)

    def write_npz(self, path: Path, progress: Callable[[int, int], object], overwrite: bool = False) -> None:
        """Write the images in ADM's format; see `write_samples_npz`."""
        write_samples_npz(path, self.batches(), self.count, self.shape, self.labels, progress, overwrite)


def _image_name(number: int) -> str:
    return f"{number:05d}.png"


def _find(folder: RunFolder, request: SampleRequest) -> CellRequest:
    """cell.json of the cell with that id, or of the row with that name and, where it has several seeds, `cell_seed`."""
    cells, damaged = folder.readable_requests()
    found = [cell for cell in cells if request.cell in (cell.cell, cell.row)]
    if not found:
        known = dict.fromkeys([*(cell.row for cell in cells), *(cell.cell for cell in cells)])
        raise UserError("\n".join([unknown("cell", request.cell, known), *damaged]))
    chosen = [cell for cell in found if cell.seed == request.cell_seed] if len(found) > 1 else found
    if len(chosen) != 1:
        seeds = ", ".join(str(cell.seed) for cell in found)
        raise UserError(f"row {request.cell!r} has a cell for each of the seeds {seeds}: choose one with --cell-seed")
    return chosen[0]


def _source(job: Job, iteration: int | None) -> WeightsRef:
    """The cell whose weights are sampled from, and their iteration."""
    own = WeightsRef(cell=job.id, iteration=job.cell.training.iterations)
    source = job.request.sources.get("network", own)
    return source if iteration is None else source.model_copy(update={"iteration": iteration})


def _requested_cell(trained: Cell, cell: Cell, request: SampleRequest) -> Cell:
    """The trained cell, sampled as the request says, its pixels as the metrics of `cell` see them."""
    sampling = changed_sampling(cell.sampling, request.guidance, **request.changes)
    if wrong := [message for _, message in misfits(sampling, trained.objective)]:
        raise UserError("\n".join(wrong))
    requested = trained.model_copy(update={"sampling": sampling, "metrics": cell.metrics})
    complete = with_blocks(setting_of(requested))
    if isinstance(complete, list):
        raise UserError("\n".join(problem.message for problem in complete))
    if (channels := complete.data.picture_shape[0]) not in (1, 3):
        raise UserError(f"images of {channels} channels cannot be shown: sample needs 1 or 3, or latents and a decoder")
    return complete


def _refuse_other_files(job: Job, data: DataChoice) -> None:
    """Raises ChangedDataError where decoder or captions are not those of the cell's images."""
    record = job.folder.record(job.id)
    known = {**job.plan.files, **(record.data_files if record else {})}
    if decoding := data.family.decoding(data):
        DataFiles(decoding.files, known)
    if data.text_shape is not None:
        DataFiles((path for _, path in data.family.files(data, True)), known)


def _weak(job: Job, source: WeightsRef, cell: Cell) -> Trained | None:
    """The network of the weak branch, where it has weights of its own."""
    rule: Any = cell.sampling.guidance
    if not any(branch and branch.other_weights for branch in rule.branches):
        return None
    root, row = Path(source.run or job.folder.root), rule.weak_row
    evaluated = Job.open(root, source.cell)
    weak = evaluated if row is None else Job.open(root, _cell_of_row(root, row, paired_seed(job.request)))
    try:
        found = guiding(cell, Weights(_as_source(evaluated), source.iteration), _as_source(weak))
    except ValueError as error:
        raise UserError(str(error)) from None
    return job.trained(WeightsRef(cell=weak.id, iteration=found.iteration, run=source.run))


def _as_source(job: Job) -> Source:
    return Source(job.request.row, job.cell)


def _cell_of_row(root: Path, row: str, seed: int) -> str:
    cells, _ = RunFolder(root).readable_requests()
    for cell in cells:
        if (cell.row, paired_seed(cell)) == (row, seed):
            return cell.cell
    raise UserError(unknown(f"row of seed {seed}", row, {cell.row for cell in cells if paired_seed(cell) == seed}))


def _classes(text: str | None, cell: Cell) -> list[int] | None:
    if text is None:
        return None
    classes = cell.data.num_classes
    if not classes:
        raise UserError("--classes: these data have no labels; leave it out")
    if not re.fullmatch(r"\s*[0-9]{1,18}(\s*,\s*[0-9]{1,18})*\s*", text) or max(map(int, text.split(","))) >= classes:
        raise UserError(f"--classes {text}: must be classes 0 to {classes - 1}, such as 0,1,2")
    return [int(label) for label in text.split(",")]


def _default_out(request: SampleRequest, samples: SampledCell) -> Path:
    sampling = samples.cell.sampling
    requested = [sampling.model_dump(mode="json"), request.classes, samples.iteration]
    guidance = f"{sampling.guidance.name}-{sampling.guidance_scale:g}"
    rule = f"{guidance}-{sampling.sampler}{sampling.steps}-seed{samples.seed}"
    return request.root / "samples" / samples.job.id / f"{rule}-{digest(canonical_json(requested))}"
