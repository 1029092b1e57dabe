"""Random data and feature networks in place of files that a smoke run lacks. No torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tread_bench.core.config.suite import Cell, files_beside_data
from tread_bench.core.describe.data_sources import DataOptions, find_data_source
from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import is_missing
from tread_bench.core.stored.files import refuse_linked
from tread_bench.runner.folder import RunFolder
from tread_bench.suite.files import MIN_CLASSES
from tread_bench.suite.plan import Plan

_NETWORK = "tread_bench.measure.quality.networks.classifier.network:write_random_network"
_ENLARGED = 8  # images beside latents whose size is not stated


@dataclass(frozen=True)
class StandIns:
    """What stands in for missing files, in a folder of the run; a file is written when it is first needed.

    `kinds` says in words what is random.
    """

    folder: Path
    kinds: list[str]

    def replace(self, cell: Cell) -> Cell:
        """Return the cell with what stands in for its missing files."""
        if any(is_missing(path) for _, path in cell.data.family.files(cell.data, cell.generates)):
            cell = cell.model_copy(update={"data": _data(cell.data)})
        if cell.generates and (cell.metrics.lacks_network(cell.data) or _missing(cell, of_network=True)):
            # Random weights, for channels, side and classes of the images that the network sees.
            shape = (*cell.data.picture_shape, max(MIN_CLASSES, cell.data.num_classes))
            path = self.folder / f"network-{'x'.join(map(str, shape))}.safetensors"
            if not path.exists():
                named(_NETWORK)(path, shape)
            network = {"extractor": None, "inception_weights": None, "extractor_weights": str(path)}
            cell = cell.model_copy(update={"metrics": cell.metrics.model_copy(update=network)})
        return cell


def write_stand_ins(plan: Plan, folder: RunFolder) -> StandIns:
    """Write into the run folder what stands in for the plan's missing files; what is already there is kept.

    The run folder must be locked.

    Raises:
        UserError: nothing stands in for one of them; the message names them all.
    """
    # What has no stand-in: files that are no data and no feature network, runs.
    cells = list({cell.row_key: cell.cell for cell in plan.cells}.values())
    refused: list[str] = []
    for cell in cells:
        refused += _missing(cell, of_network=False)
        for read in (cell.evaluate, cell.training.start):
            if read is not None and read.run and not os.path.isdir(read.run):
                refused.append(read.run)
    if refused:
        rule = "nothing stands in for it in a smoke run; correct the path"
        raise UserError("\n".join(f"no such file: {path}: {rule}" for path in dict.fromkeys(refused)))

    # What has one.
    refuse_linked([folder.stand_ins])
    folder.stand_ins.mkdir(exist_ok=True)
    written = StandIns(folder.stand_ins, [])
    replaced = [written.replace(cell) for cell in cells]
    kinds = {f"data {cell.data.name}" for cell, other in zip(cells, replaced, strict=True) if other.data != cell.data}
    written.kinds.extend(sorted(kinds))
    if any(other.metrics != cell.metrics for cell, other in zip(cells, replaced, strict=True)):
        written.kinds.append("feature network")
    return written


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
    return find_data_source("stand_in").options(**settings)
