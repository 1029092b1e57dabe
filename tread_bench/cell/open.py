"""A cell of a run folder, and the networks that it needs."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from tread_bench.cell.numerics import apply_numerics, as_here, step_options
from tread_bench.cell.step import Trainer
from tread_bench.cell.weights import load_weights
from tread_bench.core.config.choices import BackboneChoice
from tread_bench.core.config.suite import Cell, files_of
from tread_bench.core.stored.conditions import Conditions, differences
from tread_bench.core.stored.data_files import contents_as_before
from tread_bench.core.stored.documents import CellRequest, RunPlan, WeightsRef, initial_record
from tread_bench.core.stored.files import StoreError
from tread_bench.core.stored.records import DataFile, Record
from tread_bench.data.ranks import ALONE, Ranks
from tread_bench.data.source import DataSource, open_data
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.backbone import Backbone, build_backbone
from tread_bench.model.network import Network, build_network
from tread_bench.runner.folder import RunFolder


@dataclass(frozen=True)
class Job:
    """A cell of a run folder, as its process reads it: `cells/<id>/cell.json` and the run's plan.json."""

    folder: RunFolder
    request: CellRequest
    plan: RunPlan
    ranks: Ranks = ALONE

    @classmethod
    def open(cls, root: Path, cell_id: str) -> Job:
        """Raises StoreError where the folder has no such cell."""
        folder = RunFolder(root)
        return cls(folder, folder.existing_request(cell_id), folder.existing_plan())

    def here(self) -> Job:
        """Return the same under the conditions of this process's machine, which may be another one than the runner's.

        Raises:
            StoreError: they are not those of the run, and the run does not accept others.
        """
        here = replace(self, plan=as_here(self.plan))
        changed = differences(self.conditions, here.conditions)
        if changed and not self.plan.accept_other_numerics:
            raise StoreError(
                f"on {platform.node()}, {'; '.join(changed)}, so this cell would not be comparable with the others: "
                "run on equal machines, or with --accept-other-numerics; then every record says where it ran"
            )
        return here

    def joined(self) -> Job:
        """Return the same as one of the ranks that compute it; returns when all are there."""
        return replace(self, ranks=Ranks.join(self.device))

    @property
    def conditions(self) -> Conditions:
        several = {"processes": self.ranks.size} if self.ranks.size > 1 else {}
        return self.plan.conditions.model_copy(update=several)

    @property
    def id(self) -> str:
        return self.request.cell

    @property
    def seed(self) -> int:
        return self.request.seed

    @property
    def cell(self) -> Cell:
        return self.request.configuration

    @property
    def equal_time(self) -> int | None:
        """The iteration at which it has trained as long as its reference, if it is evaluated there."""
        planned = self.plan.equal_time.get(self.id)
        return planned.iteration if planned else None

    @cached_property
    def device(self) -> torch.device:
        return apply_numerics(self.plan.numerics)

    @cached_property
    def files(self) -> dict[str, DataFile]:
        """What identifies the files that the cell reads. Raises ChangedDataError where the run began with others."""
        return contents_as_before((path for _, path in files_of(self.cell)), self.plan.files)

    @cached_property
    def data(self) -> DataSource:
        return open_data(self.cell.data)

    def build(self, kernels: Mapping[str, str] | None = None, choice: BackboneChoice | None = None) -> Backbone:
        """Return the cell's backbone, or another one, with the initial weights of its seed; with the run's kernels
        where none are given.
        """
        choice = choice or self.cell.backbone
        chosen = kernels or self.plan.numerics.kernels
        spec = choice.spec(self.cell.data)
        return build_backbone(choice.family(), spec, chosen, self.seed, self.cell.objective)

    def trainer(self, cell: Cell | None = None, *, drawn: bool = False) -> Trainer:
        """Return what a training step needs, before the first one; if given, for another `cell` on this data.

        Args:
            drawn: with drawn weights, whatever it starts from: for the speed and memory of its steps. Only then the
                other cell may have another backbone.

        Raises:
            StoreError: the weights that it starts from are not there, or not what was written.
        """
        cell = cell or self.cell
        network = build_network(cell, self.build(choice=cell.backbone) if drawn else self._begun(), self.seed)
        return Trainer(
            cell,
            self.seed,
            network,
            build_objective(cell.objective),
            self.data,
            self.device,
            step_options(self.plan.numerics),
            self.ranks,
            self.plan.numerics.draws,
        )

    def initial_record(self) -> Record:
        """Return a record that says what was requested and under which conditions."""
        record = initial_record(self.request, self.plan)
        return record.model_copy(update={"conditions": self.conditions})

    def trained(self, source: WeightsRef) -> tuple[Cell, Network]:
        """Return the cell that `source` (of cell.json) names, and its evaluated network with its kept weights,
        verified.

        Raises:
            StoreError: its training was not finished, its weights are not what was written, or plug-ins of its
                network have changed since, unless the run accepts that.
        """
        return self._opened(source, self._source(source).cell)

    def evaluated(self, source: WeightsRef) -> tuple[Cell, Network]:
        """Return the same, with this cell's method, which may have other options of evaluation. Raises StoreError."""
        return self._opened(source, self._source(source).cell.model_copy(update={"method": self.cell.method}))

    def _opened(self, source: WeightsRef, cell: Cell) -> tuple[Cell, Network]:
        network = self._source(source)._kept(cell, source.iteration, self.plan.numerics.kernels)
        return cell, network.to(self.device).eval().requires_grad_(False)

    def _kept(self, cell: Cell, iteration: int, kernels: Mapping[str, str]) -> Network:
        """The evaluated network of `cell`, with the weights that this cell kept of an iteration, without auxiliary
        losses.
        """
        cell = cell.model_copy(update={"auxiliary": ()})
        network = build_network(cell, self._begun(kernels) if cell.training.lora else self.build(kernels), self.seed)
        self.load(iteration, network)
        return network

    def _begun(self, kernels: Mapping[str, str] | None = None) -> Backbone:
        """The backbone with the weights that its training starts from."""
        backbone = self.build(kernels)
        if start := self.request.sources.get("start"):
            source = self._source(start)
            trained = source._kept(source.cell, start.iteration, kernels or self.plan.numerics.kernels)
            backbone.load_state_dict(trained.backbone.state_dict())
        return backbone

    def taught_by(self, source: WeightsRef) -> str:
        """Hash of the network whose features the cell that `source` names was aligned with; "" if there was none."""
        found = self._source(source).record
        return found.target_features_sha256 if found else ""

    def trained_on(self, source: WeightsRef) -> dict[str, DataFile]:
        """Return the files that the cell that `source` names was trained on, by path."""
        found = self._source(source).record
        return found.data_files if found else {}

    def _source(self, source: WeightsRef) -> Job:
        return Job.open(Path(source.run) if source.run else self.folder.root, source.cell)

    @property
    def record(self) -> Record | None:
        return self.folder.record(self.id)

    def load(self, iteration: int, network: Network) -> None:
        """Read the weights that this cell kept of an iteration. Raises StoreError."""
        name = self.id
        record = self.record
        if record is None or not record.is_trained:
            how = f"{record.status}: {record.reason}" if record else "not trained yet"
            raise StoreError(f"cell {name}, whose weights this one reads, is {how}")
        if str(iteration) not in record.weights:
            kept = ", ".join(record.weights) or "none"
            raise StoreError(f"cell {name} keeps no weights of iteration {iteration} (kept: {kept})")
        weights = self.folder.cell(name) / "weights"
        load_weights(weights, iteration, record.weights[str(iteration)], network)
