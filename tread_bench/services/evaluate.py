"""`evaluate`: figures of a set of images, whoever made them, against a reference."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from pydantic import ValidationError
from rich.console import Console

from tread_bench.cell.numerics import machine, usable_device, versions
from tread_bench.core.config.metrics import PROTOCOLS, ProtocolName, in_protocol, standard_metrics
from tread_bench.core.describe.extractors import ExtractorFamily, ExtractorOptions, find_extractor
from tread_bench.core.describe.metrics import MetricFamily, MetricOptions, find_metric, metrics
from tread_bench.core.errors import UserError, collected
from tread_bench.core.names import unknown
from tread_bench.core.problems import Place, SuiteError, shortened, validation_problems
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.destinations import check_folder, claim_folders
from tread_bench.core.stored.evaluations import EVALUATED, EvaluatedSet, SetEvaluation, by_reason
from tread_bench.core.stored.files import write_json
from tread_bench.core.stored.identity import canonical_json
from tread_bench.measure.quality.png import COLUMNS, grid_png
from tread_bench.measure.set_evaluation import (
    OF_NETWORK,
    NetworkChoice,
    SetRequest,
    can_measure,
    evaluate_sets,
    foreseen_refusals,
    images_protocol,
    needs_met,
    network_problem,
    refused_rows,
)
from tread_bench.measure.sets.reference import ReferenceSet, open_reference
from tread_bench.measure.sets.samples import SampleSet, open_samples
from tread_bench.measure.weights_folder import MissingWeightsError, with_weights
from tread_bench.runner.folder import disk_errors_reported
from tread_bench.services.display import counted
from tread_bench.services.run_samples import GeneratedStore, RunSamples, is_run, open_run_samples
from tread_bench.suite.plan import digest
from tread_bench.suite.yaml import read_yaml

if TYPE_CHECKING:
    from tread_bench.reports.page.evaluation import Grid

DOCUMENT = "evaluation.json"
DEFAULT_PROTOCOL: ProtocolName = "adm"
DEFAULT_NETWORKS = ("inception", "dinov2")  # those of published figures
_GRID_SIDE = 64  # most pixels of an image in a grid, so that the page can embed it
_GRID_ROWS = 5
_GRID_PIXELS = 100_000  # of a grid, about

Named = str | Mapping[str, Any]  # a name, or settings with a name
Options = TypeVar("Options", MetricOptions, ExtractorOptions)
Family = MetricFamily | ExtractorFamily


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest:
    """What was requested; empty or None: the default.

    Args:
        samples: an .npz file, a folder of PNG files, or a run folder.
        reference: what `open_reference` takes.
        metrics: to be measured, also as one text, "fid, {name: kid, subsets: 100}"; default: all that the networks
            and the samples allow.
        networks: whose features are compared, each also as a text, "{name: NAME, ...}"; default: inception and dinov2.
        weights: folder of published weights.
        labels: .npy file with the class of each sample.
        of_run: which samples are generated, where `samples` is a run folder.
        protocol: whose settings the metrics have, where none are given.
        batch: images at a time.
        data_root: folder that `$data_root` in a reference's paths stands for.
        out: folder of the document and its page.
    """

    samples: str | Path
    reference: str | Path
    metrics: str | Sequence[Named] | None = None
    networks: Sequence[Named] = ()
    weights: Path | None = None
    labels: Path | None = None
    of_run: RunSamples = field(default_factory=RunSamples)
    protocol: str = DEFAULT_PROTOCOL
    batch: int | None = None
    device: str = "auto"
    data_root: Path | None = None
    out: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A request after everything that can be refused was checked."""

    sets: SetRequest
    protocol: str
    named_metrics: frozenset[str]
    named_networks: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """An evaluation, the folder that it was written into, and whether all that was named has a figure."""

    evaluation: SetEvaluation
    out: Path | None
    is_complete: bool


def evaluate_request(request: EvaluateRequest, is_kept: bool = False) -> Evaluated:
    """Evaluate, and write the document and its page.

    Args:
        is_kept: write them without `request.out` as well, into a folder of this request.

    Raises:
        UserError: all mistakes; or nothing can be measured.
    """
    with counted(Console(stderr=True)) as report:
        opened = open_request(request, report)
        out = _default_out(opened) if request.out is None and is_kept else request.out
        evaluation = evaluate(opened, report) if out is None else _written(opened, out, report)
    return Evaluated(evaluation=evaluation, out=out, is_complete=not _lacks_what_was_named(evaluation, opened))


def _written(opened: Opened, out: Path, report: ReportProgress) -> SetEvaluation:
    """What was measured and written. Raises UserError."""
    claim_folders(EVALUATED, {"--out": out})
    evaluation = evaluate(opened, report)
    write_evaluation(evaluation, opened, out)
    return evaluation


# Before any work


def open_request(request: EvaluateRequest, report: ReportProgress) -> Opened:
    """Open the sets and check everything. Raises UserError with all mistakes."""
    # The sets.
    problems: list[str] = []
    samples = reference = None
    with collected(problems):
        samples = _open_samples(request, report)
    with collected(problems):
        reference = open_reference(request.reference, request.data_root)

    # What is measured.
    chosen: list[MetricOptions] = []
    networks: list[ExtractorOptions] = []
    protocol = next((name for name in PROTOCOLS if name == request.protocol), DEFAULT_PROTOCOL)
    if protocol != request.protocol:
        problems.append(f"--protocol: {unknown('protocol', request.protocol, PROTOCOLS)}")
    with collected(problems):
        named = _entries("--metrics", request.metrics)
        chosen = _each_once("--metrics", named, find_metric, partial(_metric, protocol))
    with collected(problems):
        named = [one for text in request.networks for one in _entries("--network", text)]
        networks = _each_once("--network", named or DEFAULT_NETWORKS, find_extractor, _network)
    problems += _without_outputs(chosen, networks)

    # How much, which the command line has checked and Python has not.
    problems += _too_small(request)

    # Where.
    device = "cpu"
    with collected(problems):
        device = usable_device(request.device)
    if request.weights is not None and not request.weights.is_dir():
        problems.append(f"--weights {request.weights}: no such folder; give the one that holds the published weights")
    if request.out is not None:
        with collected(problems):
            check_folder("--out", request.out, EVALUATED)
    if problems or samples is None or reference is None:
        raise UserError("\n".join(problems))

    # What can be measured with the weights that are there.
    measured = chosen or _default_metrics(protocol, samples)
    if not any(metric.family.needs_network for metric in measured):
        networks = []
    sets = SetRequest(
        samples=samples,
        reference=reference,
        metrics=measured,
        networks=[_with_weights(options, request.weights, samples, reference) for options in networks],
        device=device,
        batch=request.batch,
        sampling=samples.store.protocol if isinstance(samples.store, GeneratedStore) else {},
    )
    refusals = foreseen_refusals(sets)
    if all(reason for _, _, reason in refusals):
        rows = [row for metric, network, reason in refusals for row in refused_rows(metric.family, network, reason)]
        raise UserError("\n".join(["nothing can be measured", *map(str, by_reason(rows))]))
    return Opened(
        sets=sets,
        protocol=protocol,
        named_metrics=frozenset(metric.name for metric in chosen),
        named_networks=frozenset(network.name for network in networks if request.networks),
    )


def _too_small(request: EvaluateRequest) -> Iterator[str]:
    """A message for each number below its least."""
    of_run = request.of_run
    counts = {"batch": request.batch, "num": of_run.num, "iteration": of_run.iteration}
    seeds = {"cell-seed": of_run.cell_seed, "noise-seed": of_run.noise_seed}
    for name, value in {**counts, **seeds}.items():
        least = 0 if name in seeds else 1
        if value is not None and value < least:
            yield f"--{name} {value}: must be at least {least}"


def _open_samples(request: EvaluateRequest, report: ReportProgress) -> SampleSet:
    """Raises UserError with all mistakes."""
    # Those of a run.
    path = Path(request.samples)
    if is_run(path):
        if request.labels is not None:
            raise UserError(f"--labels {request.labels}: samples of a run have the classes that they are generated for")
        return open_run_samples(path, request.of_run, report)

    # Those of a file or a folder.
    problems: list[str] = []
    samples = None
    with collected(problems):
        samples = open_samples(path, request.labels, request.of_run.num)
    if given := [option for option in request.of_run.given if option != "--num" or not path.is_dir()]:
        problems.append(f"{', '.join(given)}: for the folder of a run, and {path} is not one; leave it out")
    if problems or samples is None:
        raise UserError("\n".join(problems))
    return samples


def _entries(option: str, given: str | Named | Sequence[Named] | None) -> list[Named]:
    """What an option names, which may be one text of YAML. Raises UserError."""
    if given is None:
        return []
    if not isinstance(given, str):
        return [given] if isinstance(given, Mapping) else [*given]
    place = Place(f"{option} {given}")
    value, _, problems = read_yaml(f"[{given}]", place.source, whole=place)
    if problems:
        raise SuiteError(problems)
    if not value:
        raise UserError(f"{option} {given!r} names nothing: leave it out for the default")
    entries: list[Named] = value
    return entries


def _each_once(
    option: str,
    entries: Sequence[Named],
    find: Callable[[str], Family],
    options_of: Callable[[str, Mapping[str, Any]], Options],
) -> list[Options]:
    """The settings of everything that is named. Raises UserError with all mistakes."""
    found: dict[str, Options] = {}
    problems: list[str] = []
    for entry in entries:
        # Its name.
        settings = {"name": entry} if isinstance(entry, str) else entry
        name = settings.get("name") if isinstance(settings, Mapping) else None
        if not isinstance(name, str):
            problems.append(f"{option} {shortened(entry)}: must be a name, or settings such as {{name: NAME, ...}}")
            continue
        if name in found:
            problems.append(f"{option}: {name} is given twice; give it once")
            continue

        # Its settings.
        try:
            family = find(name)
            found[name] = options_of(name, {key: value for key, value in settings.items() if key != "name"})
        except ValidationError as error:
            problems += [f"{option} {name}: {one.message}" for one in validation_problems(error, family.options)]
        except ValueError as error:
            problems.append(f"{option}: {error}")
    if problems:
        raise UserError("\n".join(problems))
    return list(found.values())


def _network(name: str, settings: Mapping[str, Any]) -> ExtractorOptions:
    return find_extractor(name).options.model_validate({"name": name, **settings})


def _metric(protocol: ProtocolName, name: str, settings: Mapping[str, Any]) -> MetricOptions:
    return in_protocol(name, protocol, **settings)


def _without_outputs(chosen: Sequence[MetricOptions], networks: Sequence[ExtractorOptions]) -> Iterator[str]:
    """A message for each metric that reads what none of the networks gives."""
    names = ", ".join(network.name for network in networks)
    for metric in chosen:
        if (
            networks
            and metric.family.needs_network
            and not any(can_measure(metric.family, network.family) for network in networks)
        ):
            reads = " and ".join(sorted(metric.family.needs & OF_NETWORK))
            yield f"--metrics: {metric.name} reads {reads}, which {names} cannot give; name another --network"


def _default_metrics(protocol: ProtocolName, samples: SampleSet) -> list[MetricOptions]:
    """All metrics that need no settings, those of every cell first; none that reads what no set has beside its images,
    or classes that these samples do not have.
    """
    found = []
    for family in dict.fromkeys([*standard_metrics(), *metrics().values()]):
        needs_settings = any(one.is_required() for one in family.options.model_fields.values())
        if not needs_settings and family.needs <= needs_met(samples):
            found.append(in_protocol(family.name, protocol))
    return found


def _with_weights(
    options: ExtractorOptions, folder: Path | None, samples: SampleSet, reference: ReferenceSet
) -> NetworkChoice:
    """A network with its weights, or why it cannot be used."""
    try:
        complete = with_weights(options, folder)
    except MissingWeightsError as error:
        return NetworkChoice(options, str(error))
    return NetworkChoice(complete, network_problem(complete, samples, reference))


def _default_out(opened: Opened) -> Path:
    """A folder for this request: another one has another name."""
    sets = opened.sets
    samples = sets.samples
    identity = samples.store.path.name if isinstance(samples.store, GeneratedStore) else samples.sha256
    requested = {
        "samples": identity,
        "labels": samples.labels_sha256,
        "reference": sets.reference.sha256,
        "metrics": [metric.model_dump(mode="json") for metric in sets.metrics],
        "networks": [_identity(network.options) for network in sets.networks],
    }
    return Path("evaluations") / f"{samples.name}-{digest(canonical_json(requested))}"


def _identity(network: ExtractorOptions) -> dict[str, Any]:
    """A network's settings, with the hash of each file in place of its path."""
    files = {key: content_sha256(file) for key, file in network.family.files(network)}
    return network.model_dump(mode="json") | files


# The work


def evaluate(opened: Opened, report: ReportProgress) -> SetEvaluation:
    """Compute the features and the figures. Raises UserError."""
    began = time.monotonic()
    sets = opened.sets
    networks, rows = evaluate_sets(sets, report)
    return SetEvaluation(
        version=version("tread-bench"),
        samples=_about_samples(sets.samples),
        reference=_about_reference(sets.reference),
        protocol=opened.protocol,
        networks=networks,
        images_protocol=images_protocol(sets, sets.metrics),
        rows=rows,
        warnings=_warnings(sets),
        device=machine(sets.device)["device_name"],
        batch=sets.batch,
        seconds=time.monotonic() - began,
        versions=versions(),
    )


def _about_samples(samples: SampleSet) -> EvaluatedSet:
    return EvaluatedSet(
        name=samples.name,
        sha256=samples.sha256,
        count=samples.count,
        shape=samples.shape,
        has_labels=samples.labels is not None,
        labels_sha256=samples.labels_sha256,
        generated=samples.store.about if isinstance(samples.store, GeneratedStore) else {},
    )


def _about_reference(reference: ReferenceSet) -> EvaluatedSet:
    images = reference.images
    return EvaluatedSet(
        name=reference.name,
        sha256=reference.sha256,
        count=None if images is None else images.count,
        shape=None if images is None else images.shape,
        has_labels=images is not None and images.labels is not None,
        labels_sha256="" if images is None else images.labels_sha256,
        statistics=sorted(reference.stored),
    )


def _warnings(sets: SetRequest) -> list[str]:
    """What concerns all figures."""
    images = sets.reference.images
    found = [warning for one in (sets.samples, images) if one is not None for warning in one.warnings()]
    if images is None or images.shape == sets.samples.shape:
        return found
    ours, theirs = ("×".join(map(str, shape)) for shape in (sets.samples.shape, images.shape))
    return [*found, f"Samples are {ours} and reference images {theirs}: their sizes alone change the features."]


# What is written


def write_evaluation(evaluation: SetEvaluation, opened: Opened, out: Path) -> None:
    """Write evaluation.json, and index.html with its pictures, into a folder that is there. Raises UserError."""
    from tread_bench.reports.page.evaluation import write_evaluation_page

    images = opened.sets.reference.images
    with disk_errors_reported(out):
        write_json(out / DOCUMENT, evaluation.model_dump(mode="json"))
        write_evaluation_page(evaluation, _grid(opened.sets.samples), None if images is None else _grid(images), out)


def _grid(images: SampleSet) -> Grid:
    """The first images of a set in rows of ten, as many as a page can embed."""
    from tread_bench.reports.page.evaluation import Grid

    height, width = images.shape[1:]
    factor = math.ceil(max(height, width) / _GRID_SIDE)
    kernel = min(factor, height), min(factor, width)
    rows = max(1, min(_GRID_ROWS, _GRID_PIXELS // (COLUMNS * (height // kernel[0]) * (width // kernel[1]))))
    pixels = images.picture(COLUMNS * rows)
    pooled = F.avg_pool2d(pixels.float(), kernel).round().to(torch.uint8)
    return Grid(png=grid_png(pooled), images=len(pooled), side=max(pooled.shape[-2:]))


def _lacks_what_was_named(evaluation: SetEvaluation, opened: Opened) -> bool:
    """Whether a metric or a network that was named has no figure."""
    has_figures = {row.metric for row in evaluation.measured}, {row.network for row in evaluation.measured}
    return not (opened.named_metrics <= has_figures[0] and opened.named_networks <= has_figures[1])
