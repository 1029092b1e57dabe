"""`evaluate`: figures of a set of images, whoever made them, against a reference."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import PositiveInt, ValidationError
from rich.console import Console

from tread_bench.cell.numerics import machine, usable_device, versions
from tread_bench.core.config.base import Model
from tread_bench.core.config.metrics import Further, Network, ProtocolName, in_protocol, standard_metrics
from tread_bench.core.describe.metrics import metrics as all_metrics
from tread_bench.core.errors import UserError
from tread_bench.core.problems import SuiteError, validation_problems
from tread_bench.core.stored.destinations import claim_folders
from tread_bench.core.stored.evaluations import EVALUATED, EvaluatedSet, SetEvaluation
from tread_bench.core.stored.files import write_document
from tread_bench.measure.quality.png import COLUMNS, grid_png
from tread_bench.measure.set_evaluation import OF_SETS, SetEvaluator
from tread_bench.measure.sets.reference import open_reference
from tread_bench.measure.sets.samples import SampleSet, open_samples
from tread_bench.services.choices import Device
from tread_bench.services.display import counted
from tread_bench.services.samples import SampledCell
from tread_bench.suite.yaml import read_value

DEFAULT_NETWORKS = ("inception", "dinov2")  # those of published figures
_GRID_SIDE = 64  # most pixels of an image in a grid, so that the page can embed it

Named = str | Mapping[str, Any]  # a name, or settings with a name


class _Options(Model):
    """Those of an evaluation that are checked together, as the keys of a suite are."""

    metrics: Further
    network: tuple[Network, ...]
    protocol: ProtocolName
    batch: PositiveInt | None
    num: PositiveInt | None


def evaluate(
    samples: str | Path,
    reference: str | Path,
    /,
    *,
    metrics: Named | Sequence[Named] = (),
    networks: Named | Sequence[Named] = (),
    weights: str | Path | None = None,
    cell: str | None = None,
    num: int | None = None,
    iteration: int | None = None,
    cell_seed: int | None = None,
    noise_seed: int | None = None,
    protocol: str = "adm",
    batch: int | None = None,
    device: Device = "auto",
    data_root: str | Path | None = None,
    out: str | Path | None = None,
) -> SetEvaluation:
    """Measure figures of a set of images against a reference.

    As `tread-bench evaluate`, whose options the arguments are: progress goes to stderr, and features that were computed
    before are found again.

    Args:
        samples: an .npz file with images uint8 (n, H, W, C) in `arr_0`, an .npy file of such images, a folder of PNG
            files, or a run folder.
        reference: ADM's or EDM2's .npz file, a folder of images, or data by name, suite or settings.
        metrics: names, or settings with a name: `["fid", {"name": "kid", "subsets": 100}]`; none: all that apply.
        networks: feature networks in the same way; none: inception and dinov2.
        weights: folder of published weights.
        cell, num, iteration, cell_seed, noise_seed: what is sampled, where `samples` is a run folder; `num` of another
            folder: its first images.
        protocol: "adm" or "torch-fidelity", whose settings metrics have where none are given.
        batch: images at a time.
        data_root: folder that `$data_root` in a reference's paths stands for.
        out: folder for evaluation.json and the page; None: nothing is written.

    Raises:
        UserError: the input is wrong; or something that was named, or everything, cannot be measured.
    """
    # What is measured.
    began = time.monotonic()
    of_run = {"--cell": cell, "--iteration": iteration, "--cell-seed": cell_seed, "--noise-seed": noise_seed}
    given = {"metrics": _entries("--metrics", metrics), "network": _entries("--network", networks or DEFAULT_NETWORKS)}
    try:
        chosen = _Options.model_validate({**given, "protocol": protocol, "batch": batch, "num": num})
    except ValidationError as error:
        raise SuiteError(validation_problems(error, _Options)) from None
    names = [*(one.name for one in chosen.metrics), *(one.name for one in chosen.network)]
    if len(set(names)) < len(names):
        raise UserError(f"{', '.join(names)}: one is named twice; evaluate its settings one after the other")
    own = {one.name: one.model_dump(exclude={"name"}, exclude_unset=True) for one in chosen.metrics}
    measured = own or {name: {} for name in _free_metrics()}

    with counted(Console(stderr=True)) as report:
        # The sets.
        path = Path(samples)
        of_runs = [option for option, value in of_run.items() if value is not None]
        if (path / "plan.json").exists():
            if cell is None:
                raise UserError(f"{path} is a run: name the row, or the cell, whose samples are evaluated with --cell")
            sampled = SampledCell.open(path, cell, num, iteration=iteration, cell_seed=cell_seed, noise_seed=noise_seed)
            scored = sampled.as_set(report)
        elif of_runs:
            raise UserError(f"{', '.join(of_runs)}: for the folder of a run, and {path} is not one; leave it out")
        else:
            scored = open_samples(path, num)
        compared = open_reference(reference, None if data_root is None else Path(data_root))

        # What can be measured of it.
        ways = [in_protocol(name, chosen.protocol, **settings) for name, settings in measured.items()]
        on, planned, reasons = usable_device(device), [], []
        for network in chosen.network:
            try:
                one = SetEvaluator(network, scored, compared, ways, weights, on, batch, report)
            except UserError as error:
                reasons.append(f"{network.name}: {error}")
                continue
            reasons += one.reasons
            if one.metrics:
                planned.append(one)
        found = {one.network.name for one in planned} | {metric.name for one in planned for metric in one.metrics}
        named = [*own, *(one.name for one in chosen.network if networks)]
        missing = [name for name in named if name not in found]
        if missing or not planned:
            lead = f"{', '.join(missing)} cannot be measured" if missing else "nothing can be measured"
            raise UserError("\n".join([f"{lead}; `tread-bench list metrics` says what each metric reads", *reasons]))
        claim_folders(EVALUATED, {"--out": None if out is None else Path(out)})

        # The figures.
        about, rows = [], []
        for one in planned:
            try:
                on_network, figures = one()
            except FloatingPointError as error:
                raise UserError(f"feature network {one.network.name}: {error}; name another --network") from None
            about.append(on_network)
            rows += figures

    evaluation = SetEvaluation(
        version=version("tread-bench"),
        samples=EvaluatedSet(
            name=scored.name, sha256=scored.sha256, count=scored.count, shape=scored.shape, generated=dict(scored.made)
        ),
        reference=EvaluatedSet(
            name=compared.name,
            sha256=compared.sha256,
            count=None if compared.images is None else compared.images.count,
            shape=None if compared.images is None else compared.images.shape,
            statistics=sorted(compared.stored),
        ),
        protocol=protocol,
        networks=about,
        rows=rows,
        warnings=[*_warnings(scored, compared.images), *(f"Not measured: {reason}" for reason in reasons)],
        device=machine(on)["device_name"],
        batch=batch,
        seconds=time.monotonic() - began,
        versions=versions(),
    )
    if out is not None:
        from tread_bench.reports.page.evaluation import write_evaluation_page

        real = None if compared.images is None else _grid(compared.images)
        write_document(Path(out) / "evaluation.json", evaluation)
        write_evaluation_page(evaluation, _grid(scored), real, Path(out))
    return evaluation


def _entries(option: str, given: Named | Sequence[Named]) -> list[Any]:
    """What is named; texts are lists in YAML, "fid, {name: kid, subsets: 100}". Raises UserError."""
    entries: list[Any] = []
    for one in [given] if isinstance(given, str | Mapping) else given:
        if isinstance(one, str):
            entries += read_value(f"[{one}]", f"{option} {one}")
        else:
            entries.append(one)
    return entries


def _free_metrics() -> list[str]:
    """All metrics that need no settings and read nothing beside images, those of every cell first."""
    families = dict.fromkeys([*standard_metrics(), *all_metrics().values()])
    free = [one for one in families if not any(key.is_required() for key in one.options.model_fields.values())]
    return [family.name for family in free if family.needs <= OF_SETS]


def _warnings(samples: SampleSet, reference: SampleSet | None) -> list[str]:
    """What concerns all figures."""
    if reference is None:
        return [*samples.warnings]
    found = [*samples.warnings, *reference.warnings]
    if reference.shape != samples.shape:
        ours, theirs = ("×".join(map(str, one.shape)) for one in (samples, reference))
        found.append(f"Samples are {ours} and reference images {theirs}: their sizes alone change the features.")
    return found


def _grid(images: SampleSet) -> bytes:
    """PNG of the first images of a set in rows of ten, small enough for a page to embed."""
    _, height, width = images.shape
    factor = math.ceil(max(height, width) / _GRID_SIDE)
    sides = max(1, height // factor), max(1, width // factor)
    pixels = images.picture(2 * COLUMNS).float()
    return grid_png(F.adaptive_avg_pool2d(pixels, sides).round().to(torch.uint8))
