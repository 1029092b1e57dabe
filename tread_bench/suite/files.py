"""The files that a suite names: which are missing, and which mistakes show in those that are there. No torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from itertools import takewhile
from typing import Any

from tread_bench.core.config.base import MAX_NUMBER
from tread_bench.core.config.suite import Cell, files_beside_data
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.plugins import named
from tread_bench.core.problems import Loc, Problem
from tread_bench.core.stored.data_paths import is_folder_name, is_missing
from tread_bench.suite.merge import Draft

_FOUND = "tread_bench.data.check:messages_of"
_DECODER = "tread_bench.measure.quality.decoder:decoder_problems"
_NETWORK = "tread_bench.measure.quality.features:extractor_problems"
_REFERENCE = "tread_bench.measure.quality.reference:reference_problems"
MIN_CLASSES = 2  # of the data that a feature network can be trained on


class Look(IntEnum):
    """How far the files that a suite names are looked at."""

    NOT_AT_ALL = 0
    EXISTENCE = 1
    HEADERS = 2  # with labels, and what they decide: the number of samples, the feature network
    NETWORKS = 3  # decoders and feature networks are opened, too
    CONTENTS = 4  # every sample is read, too, once; the result is cached


@dataclass
class Files:
    """What a plan does about the files that its suite names.

    Args:
        look: how far they are looked at.
        allows_missing: missing ones are listed in the plan; otherwise they are mistakes.
        missing: what has been found missing, with locations in the suite.
    """

    look: Look = Look.EXISTENCE
    allows_missing: bool = False
    missing: list[Problem] = field(default_factory=list)
    _known: dict[object, Any] = field(default_factory=dict)  # what many cells share, found once

    def problems(self, cell: Cell, draft: Draft) -> Iterator[Problem]:
        """Yield the mistakes in a cell's files, and in what it requests of them; note which are missing."""
        if self.look is Look.NOT_AT_ALL:
            return
        key = (cell.data.model_dump_json(), cell.generates)
        missing, mistakes, counts = self._once(key, lambda: self._of(cell.data, cell.generates))
        self.missing += draft.moved([*missing, *_missing(files_beside_data(cell))])
        yield from mistakes
        if self.look >= Look.HEADERS:
            self.missing += draft.moved(_missing_network(cell))
        if self.look >= Look.NETWORKS and cell.generates:
            yield from self._of_networks(cell)

        # Evaluations on more held-out samples than there are.
        held_out = MAX_NUMBER if counts is None or cell.is_timed_only else counts[1]
        for name in ("validation_samples", "similarity_samples"):
            requested = getattr(cell.metrics, name)
            if requested > held_out:
                message = f"metrics.{name} {requested}: data {cell.data.name} holds out {held_out} samples"
                yield Problem(f"{message}; request fewer", draft.latest(("metrics", name), ("data", "name")))

    def lacks_run(self, cell: Cell, draft: Draft) -> bool:
        """Return whether a cell reads weights of a run that is not read; note it where it is missing."""
        requested = cell.evaluate or cell.training.start
        if requested is None or requested.run is None:
            return False
        if self.look is Look.NOT_AT_ALL:
            return True
        if os.path.isdir(requested.run):
            return False
        loc: Loc = ("evaluate", "run") if cell.evaluate else ("training", "start", "run")
        rule = "is not a run folder, since it does not exist; correct the path, or run its suite first"
        self.missing += draft.moved([Problem(f"{requested.run} {rule}", loc)])
        return True

    def _once(self, key: object, find: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]

    def _of(self, options: DataOptions, generates: bool) -> tuple[list[Problem], list[Problem], tuple[int, int] | None]:
        """What is missing; if nothing is, mistakes in what is there, and numbers of training and held-out samples."""
        family = options.family
        files: list[tuple[Loc, str]] = [(("data", *place), path) for place, path in family.files(options, generates)]
        missing = [*_missing(files)]
        if missing or self.look < Look.HEADERS:
            return missing, [], None
        mistakes = []
        if family.check_files or family.check_all:
            check = named("tread_bench.data.check:data_problems")
            for message in check([(options, generates)], self.look is Look.CONTENTS):
                mistakes.append(Problem(message, _place_of(message, files)))
        if (decoding := family.decoding(options)) is not None and generates and self.look >= Look.NETWORKS:
            for message in named(_FOUND)(_DECODER, (options,), decoding.files):
                mistakes.append(Problem(message, ("data", "decoder")))
        return [], mistakes, family.counts(options)

    def _of_networks(self, cell: Cell) -> Iterator[Problem]:
        """Mistakes in the weights of the feature network and in the file that samples are compared with, if there."""
        metrics, reference = cell.metrics, cell.metrics.reference
        checks: list[tuple[Loc, str, tuple[Any, ...], list[str]]] = []
        if not metrics.lacks_network(cell.data):
            network = metrics.network(cell.data)
            keys = [key for key in ("extractor_weights", "inception_weights") if getattr(metrics, key) is not None]
            files = [path for _, path in network.family.files(network)]
            checks.append((("metrics", *keys[:1]), _NETWORK, (network, cell.data.picture_shape), files))
        if reference is not None:
            checks.append((("metrics", "reference"), _REFERENCE, (reference,), [reference]))
        for loc, check, arguments, paths in checks:
            if paths and not any(map(is_missing, paths)):
                for message in self._once((check, str(arguments)), partial(named(_FOUND), check, arguments, paths)):
                    yield Problem(message, loc)


def _place_of(message: str, files: Sequence[tuple[Loc, str]]) -> Loc:
    """The place of the file, or of the key (`data.num_classes`), that a message begins with."""
    begins = [(len(path), loc) for loc, path in files if message.startswith(path.rstrip(os.sep))]
    if begins:
        return max(begins, key=lambda one: one[0])[1]
    part, _, key = message.partition(" ")[0].rstrip(":").partition(".")
    return ("data", key) if part == "data" and key.isidentifier() else ("data", "name")


def _missing(files: Iterable[tuple[Loc, str]]) -> Iterator[Problem]:
    for loc, path in files:
        if is_missing(path):
            kind = "folder" if is_folder_name(path) else "file"
            what = f"no such {kind}: {path}"
            if os.path.exists(path.rstrip(os.sep)):
                what = f"{path.rstrip(os.sep)} is not a {kind}"
            keys = takewhile(lambda part: not isinstance(part, int), loc)  # of a list, that of the whole list
            key = ".".join(map(str, keys))
            way_out = "" if loc[0] == "auxiliary" else f", or --set {key}=..."
            yield Problem(f"{what}; correct the path{way_out}", loc)


def _missing_network(cell: Cell) -> Iterator[Problem]:
    """The problem of a cell that measures FID by no feature network."""
    data = cell.data
    if not cell.generates or data.family.not_comparable(data) or not cell.metrics.lacks_network(data):
        return
    inception = "give torch-fidelity's Inception weights as metrics.inception_weights: FILE"
    ways_out = f"{inception}, or set metrics.generate: false"
    if data.family.decoding(data) is None and data.num_classes >= MIN_CLASSES:
        file = f"{data.name}-classifier.safetensors"  # it is trained on labelled images
        train = f"train one: `tread-bench features SUITE --out {file}`, and --set metrics.extractor_weights={file}"
        ways_out = f"{train}, or {ways_out}"
    yield Problem(f"FID needs a feature network, and none ships for data {data.name!r}: {ways_out}", ("data", "name"))
