"""Samples of a cell that a run has trained, as a set of images: generated when they are first read, and kept."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tread_bench.cell.run import weights_sha256
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.identity import canonical_json
from tread_bench.core.stored.outputs import make_below, refuse_irregular, refuse_linked
from tread_bench.measure.quality.decoder import open_decoder
from tread_bench.measure.quality.fingerprint import GUIDANCE, how_generated
from tread_bench.measure.sets.samples import SampleSet, open_samples
from tread_bench.services.sample import SampledCell, SampleRequest
from tread_bench.suite.plan import digest


def open_run_samples(request: SampleRequest, num: int | None, report: ReportProgress) -> SampleSet:
    """Return the samples of a cell, under the sampling of its metrics; nothing is generated yet.

    Args:
        num: how many; None: as many as the cell generates for its metrics.

    Raises:
        UserError: there is no such cell, or it cannot be sampled.
    """
    # What they are made from; a file's name says it.
    sampled = SampledCell.open(request)
    cell = sampled.cell
    sampled = replace(sampled, count=num or cell.metrics.num_samples)
    sampling = cell.sampling.model_dump(mode="json")
    made = {
        "cell": sampled.job.id,
        "row": sampled.job.request.row,
        "iteration": sampled.iteration,
        "seed": sampled.seed,
        "weights_sha256": weights_sha256(sampled.network),
        "weak_weights_sha256": weights_sha256(sampled.weak[1]) if sampled.weak else None,
        "ema": cell.metrics.ema,
        "pixels": cell.metrics.pixels,
        "sampling": sampling,
    }
    path = (
        request.root
        / "samples"
        / sampled.job.id
        / f"{sampled.count}-{digest(canonical_json([made, sampled.count]))}.npz"
    )

    # What figures depend on of that, with guidance: figures of sets have no axis of it.
    guidance = {f"sampling_{key}": value for key, value in sampling.items() if key in GUIDANCE}
    read_by_figures = how_generated(cell, open_decoder(cell.data)) | guidance

    @cache
    def written() -> SampleSet:
        refuse_linked([request.root / "samples", path.parent])
        refuse_irregular(path)
        if not path.exists():
            make_below(request.root, path.parent)
            sampled.write_npz(path, lambda done, of: report("samples", done, of))
        return open_samples(path)

    return SampleSet(
        name=f"{sampled.job.request.row}-seed{sampled.seed}",
        count=sampled.count,
        shape=sampled.shape,
        hashed=lambda: written().sha256,
        read=lambda size: written().batches(size),
        made=made,
        sampling=read_by_figures,
    )
