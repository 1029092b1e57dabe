"""One cell's life: build, train, evaluate, leave an outcome. Runs in a process of its own."""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tread_bench.backbone import Backbone
from tread_bench.blank import blank_record
from tread_bench.config import Cell, DenseMethod
from tread_bench.costs import cost_figures
from tread_bench.data import DataSource, open_data
from tread_bench.draws import key_of
from tread_bench.measure.evaluation import Evaluator
from tread_bench.measure.gradients import block_parameters, gradient_norms
from tread_bench.measure.similarity import layer_similarity
from tread_bench.methods import Method, Network, build_method
from tread_bench.numerics import apply_numerics
from tread_bench.objectives import build_objective
from tread_bench.records import Evaluation, GradientNorms, Record
from tread_bench.store import RunFolder, StoreError, read_json
from tread_bench.training.loop import train
from tread_bench.training.step import Batch, Trainer

log = logging.getLogger(__name__)
GRADIENT_BATCHES = 4

Tell = Callable[[str, int, int, float | None], None]  # (phase, done, of, loss)


@dataclass(frozen=True)
class Job:
    """A cell of a run folder, as its process finds it: `cells/<id>/cell.json` and the run's plan.json."""

    folder: RunFolder
    about: dict[str, Any]  # cell, suite, row, seed, reference, backbone, config
    plan: dict[str, Any]

    @classmethod
    def open(cls, root: Path, cell_id: str) -> Job:
        """Raises StoreError where the folder holds no such cell."""
        folder = RunFolder(root)
        about, plan = read_json(folder.cell(cell_id) / "cell.json"), folder.plan()
        if about is None or plan is None:
            raise StoreError(f"{root} holds no cell {cell_id}; `tread-bench run` with its suite makes one")
        return cls(folder, about, plan)

    @cached_property
    def cell(self) -> Cell:
        return Cell.model_validate(self.about["config"])

    @cached_property
    def device(self) -> torch.device:
        return apply_numerics(self.plan["numerics"])

    @cached_property
    def data(self) -> DataSource:
        return open_data(self.cell.data)

    def build(self) -> Backbone:
        """The cell's backbone with the initial weights of its seed."""
        choice = self.cell.backbone
        model = choice.family().build(choice.spec(self.cell.data), self.plan["numerics"]["kernels"])
        model.initialise(self.about["seed"])
        return model

    def trainer(self, cell: Cell | None = None) -> Trainer:
        """What a training step needs, before the first one; of another `cell` on the same backbone and data."""
        cell, backbone = cell or self.cell, self.build()
        network = Network(backbone, build_method(cell, backbone))
        return Trainer(
            cell,
            self.about["seed"],
            network,
            build_objective(cell.objective),
            self.data,
            self.device,
            self.plan["numerics"]["autocast"],
        )

    def blank(self) -> Record:
        """A record that says what was asked and under which conditions."""
        return blank_record(self.about, self.plan)


def run_cell(root: Path, cell_id: str, tell: Tell) -> Record:
    """Train and evaluate; what came of it, a failure with its reason too, is written as the cell's outcome."""
    job = Job.open(root, cell_id)
    try:
        outcome = _train_and_judge(job, tell)
    except Exception as error:  # a cell's failure is a result: its row stays, with the reason
        log.error("%s", traceback.format_exc())
        outcome = job.blank().model_copy(update={"reason": reason_of(error)})
    job.folder.write_record(outcome, "outcome.json")
    return outcome


def _train_and_judge(job: Job, tell: Tell) -> Record:
    cell, folder = job.cell, job.folder.cell(job.about["cell"])
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    trainer = job.trainer()
    initial = weights_sha256(trainer.network.backbone)
    iterations = cell.training.iterations
    evaluator = Evaluator(cell, job.data, trainer.objective, folder)
    evaluator.check()

    def evaluate(trainer: Trainer, iteration: int, seconds: float) -> dict[str, Any]:
        tell("evaluating", iteration, iterations, None)
        judged = trainer.average if cell.metrics.ema else trainer.network
        return evaluator(judged, iteration, seconds, job.about["seed"]).model_dump(mode="json")

    history = train(
        trainer, folder / "checkpoints", evaluate, lambda done, loss: tell("training", done, iterations, loss)
    )
    judged = trainer.average if cell.metrics.ema else trainer.network
    metrics = cell.metrics
    similarity = layer_similarity(
        judged.eval(), trainer.objective, job.data.held_out, metrics.similarity_samples, metrics.similarity_times
    )
    norms = _gradient_norms(trainer)
    figures = torch.tensor([*norms.training, *norms.dense, *chain(*similarity.matrix)])
    if not torch.isfinite(figures).all():
        raise FloatingPointError("a layer similarity or a gradient norm is no finite number: the last steps diverged")
    return job.blank().model_copy(
        update={
            "status": "done",
            "gradient_norms": norms,
            "cost": cost_figures(family, spec, cell.routes, cell.selector),
            "evaluations": [Evaluation.model_validate(e) for e in history.evaluations],
            "similarity": similarity,
            "train_loss": history.train_loss,
            "train_seconds": history.train_seconds,
            "initial_weights_sha256": initial,
            "final_weights_sha256": weights_sha256(trainer.network.backbone),
        }
    )


def _gradient_norms(trainer: Trainer) -> GradientNorms:
    """Of the batches that would have come next, with the cell's own method and without routes."""
    iterations = trainer.cell.training.iterations
    batches = [trainer.batch(iterations + k) for k in range(GRADIENT_BATCHES)]
    first = batches[0]
    trainer.network.train()
    backbone = trainer.network.backbone
    blocks = block_parameters(backbone, first.x, first.t, first.y)
    own, dense = trainer.network.method, build_method(dense_twin(trainer.cell), backbone)
    return GradientNorms(
        training=gradient_norms(blocks, (partial(_seeded_loss, trainer, batch, own) for batch in batches)),
        dense=gradient_norms(blocks, (partial(_seeded_loss, trainer, batch, dense) for batch in batches)),
        batches=len(batches),
    )


def _seeded_loss(trainer: Trainer, batch: Batch, method: Method) -> Tensor:
    """The loss with drop path drawn by the batch alone: the same for both methods and after a break."""
    torch.manual_seed(key_of(trainer.seed, "gradient norms", batch.rows.first) % 2**63)
    return trainer.loss(batch, method)


def dense_twin(cell: Cell) -> Cell:
    """The same cell without routes."""
    return cell.model_copy(update={"method": DenseMethod(), "routes": ()})


def weights_sha256(model: nn.Module) -> str:
    """Hash of all parameters and buffers, names included."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def reason_of(error: BaseException) -> str:
    """One line that says why a cell failed."""
    text = str(error).strip().splitlines()
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error):
        return f"out of memory: {text[0] if text else type(error).__name__}"
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"
