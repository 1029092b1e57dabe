"""Random data and feature networks in place of files that a smoke run lacks. No torch."""

from __future__ import annotations

import os
from dataclasses import replace

from tread_bench.core.config.suite import Cell, files_beside_data
from tread_bench.core.describe.data_sources import DataOptions, data_sources
from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import is_missing
from tread_bench.core.stored.files import refuse_linked
from tread_bench.runner.folder import RunFolder
from tread_bench.suite.files import MIN_CLASSES
from tread_bench.suite.plan import Plan

_NETWORK = "tread_bench.measure.quality.networks.classifier.network:write_random_network"
_ENLARGED = 8  # images beside latents whose size is not stated


def smoke_with_stand_ins(plan: Plan, folder: RunFolder) -> Plan:
    """Return a plan's smoke run, with random data and networks in place of missing files.

    A file is written into the run folder, which must be locked, unless it is there.

    Raises:
        UserError: nothing stands in for one of them; the message names them all.
    """
    # What has no stand-in: files that are no data and no feature network, runs.
    refused: list[str] = []
    for cell in {cell.row_key: cell.cell for cell in plan.cells}.values():
        refused += _missing(cell, of_network=False)
        for read in (cell.evaluate, cell.training.start):
            if read is not None and read.run and not os.path.isdir(read.run):
                refused.append(read.run)
    if refused:
        rule = "nothing stands in for it in a smoke run; correct the path"
        raise UserError("\n".join(f"no such file: {path}: {rule}" for path in dict.fromkeys(refused)))
    refuse_linked([folder.stand_ins])
    folder.stand_ins.mkdir(exist_ok=True)
    kinds = set[str]()  # in words, what is random

    def replaced(cell: Cell) -> Cell:
        """The cell with what stands in for its missing files."""
        if any(is_missing(path) for _, path in cell.data.family.files(cell.data, cell.generates)):
            kinds.add(f"data {cell.data.name}")
            cell = cell.model_copy(update={"data": _data(cell.data)})
        if cell.generates and (cell.metrics.lacks_network(cell.data) or _missing(cell, of_network=True)):
            # Random weights, for channels, side and classes of the images that the network sees.
            kinds.add("feature network")
            shape = (*cell.data.picture_shape, max(MIN_CLASSES, cell.data.num_classes))
            path = folder.stand_ins / f"network-{'x'.join(map(str, shape))}.safetensors"
            if not path.exists():
                named(_NETWORK)(path, shape)
            network = {"extractor": None, "inception_weights": None, "extractor_weights": str(path)}
            cell = cell.model_copy(update={"metrics": cell.metrics.model_copy(update=network)})
        return cell

    return replace(plan.as_smoke(replaced), stand_ins=tuple(sorted(kinds)))


def _missing(cell: Cell, of_network: bool) -> list[str]:
    """The missing files of a cell's feature network, or those beside it and the data."""
    found = []
    for place, path in files_beside_data(cell):
        is_of_network = place[0] == "metrics" and place[1] not in ("also", "reference")
        if is_of_network == of_network and is_missing(path):
            found.append(path)
    return found


def _data(options: DataOptions) -> DataOptions:
    """Random data of the same shapes."""
    settings: dict[str, object] = {
        "channels": options.channels,
        "image_size": options.image_size,
        "num_classes": options.num_classes,
        "text": options.text_shape,
    }
    if options.family.decoding(options) is not None:
        settings |= {"picture_size": options.picture_shape[1], "is_decoded": True}
    elif options.family.has_pictures(options):
        settings["picture_size"] = _ENLARGED * options.image_size
    return data_sources.find("stand_in").options(**settings)
