"""Random data in place of files that are missing, for a smoke run: in their layout, read by the same code. No torch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tread_bench.core.config.files import files_beside_data
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import is_missing
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.outputs import refuse_linked
from tread_bench.runner.folder import RunFolder
from tread_bench.suite.files import MIN_CLASSES
from tread_bench.suite.plan import Plan

COUNT = 64  # training samples
_NETWORK = "tread_bench.measure.quality.networks.classifier.network:write_random_network"


@dataclass(frozen=True)
class StandIns:
    """What stands in for missing files: data sources by the JSON of what is missing, feature networks by shape."""

    data: dict[str, DataOptions]
    networks: dict[tuple[int, int, int], str]

    def __bool__(self) -> bool:
        return bool(self.data or self.networks)

    @property
    def kinds(self) -> list[str]:
        """What is random, in words."""
        names = {f"data {options.name}" for options in self.data.values()}
        return [*sorted(names), *(["feature network"] if self.networks else [])]

    def replace(self, cell: Cell) -> Cell:
        """Return the cell with what stands in for its missing files."""
        changes: dict[str, object] = {}
        if (options := self.data.get(cell.data.model_dump_json())) is not None:
            changes["data"] = options
        if _lacks_network(cell) and (network := self.networks.get(_shape_of(cell))) is not None:
            unset = {"extractor": None, "inception_weights": None}
            changes["metrics"] = cell.metrics.model_copy(update={**unset, "extractor_weights": network})
        return cell.model_copy(update=changes)


def write_stand_ins(plan: Plan, folder: RunFolder) -> StandIns:
    """Write into the run folder what stands in for the plan's missing files; what is already there is kept.

    The run folder must be locked.

    Raises:
        UserError: nothing stands in for one of them; the message names them all.
    """
    # What has no stand-in: data of sources that write none, files of other kinds, runs.
    cells = list({cell.row_key: cell.cell for cell in plan.cells}.values())
    refused = dict.fromkeys(path for cell in cells for path in _irreplaceable(cell))
    if refused:
        rule = "nothing stands in for it in a smoke run; correct the path"
        raise UserError("\n".join(f"no such file: {path}: {rule}" for path in refused))

    # What has one.
    refuse_linked([folder.stand_ins])
    data, networks = {}, {}
    for cell in cells:
        key = cell.data.model_dump_json()
        if key not in data and _lacks_data(cell):
            data[key] = _data(cell.data, folder.stand_ins)
        if _lacks_network(cell) and (shape := _shape_of(cell)) not in networks:
            networks[shape] = _network(shape, folder.stand_ins)
    return StandIns(data, networks)


def _lacks_data(cell: Cell) -> bool:
    return any(is_missing(path) for _, path in cell.data.family.files(cell.data, cell.generates))


def _lacks_network(cell: Cell) -> bool:
    return cell.generates and (cell.metrics.lacks_network(cell.data) or any(_missing_of_network(cell)))


def _missing_of_network(cell: Cell) -> Iterable[str]:
    return (path for place, path in files_beside_data(cell) if _is_of_network(place) and is_missing(path))


def _is_of_network(place: tuple[str | int, ...]) -> bool:
    return place[0] == "metrics" and place[1] not in ("also", "reference")


def _irreplaceable(cell: Cell) -> Iterable[str]:
    if cell.data.family.stand_in is None:
        yield from (path for _, path in cell.data.family.files(cell.data, cell.generates) if is_missing(path))
    yield from (path for place, path in files_beside_data(cell) if not _is_of_network(place) and is_missing(path))
    for read in (cell.evaluate, cell.training.start):
        if read is not None and read.run is not None and not os.path.isdir(read.run):
            yield read.run


def _shape_of(cell: Cell) -> tuple[int, int, int]:
    """Channels, side and classes of the images that its feature network sees."""
    return (*cell.data.picture_shape, max(MIN_CLASSES, cell.data.num_classes))


def _data(options: DataOptions, folder: Path) -> DataOptions:
    """Options that name random data. These are written once, and the options last: a folder without them is left."""
    family = options.family
    assert family.stand_in is not None
    key = hashlib.sha256(options.model_dump_json().encode("utf-8", "surrogatepass")).hexdigest()[:16]
    for attempt in count():
        place = folder / f"{key}-{attempt}"
        written = place / "options.json"
        if not place.exists():
            place.mkdir(parents=True)
            made: DataOptions = named(family.stand_in)(options, place, COUNT)
            write_atomically(written, made.model_dump_json())
        if written.exists():
            break
    return family.options.model_validate_json(written.read_text(encoding="utf-8"))


def _network(shape: tuple[int, int, int], folder: Path) -> str:
    path = folder / f"network-{'x'.join(map(str, shape))}.safetensors"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        named(_NETWORK)(path, shape)
    return str(path)
