"""One cell's life: build, train, evaluate, leave a record. Runs in a process of its own."""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tread_bench.cell.checkpoint import remove_checkpoints
from tread_bench.cell.launch import RankError, launch
from tread_bench.cell.loop import DivergedError, History, Origin, train
from tread_bench.cell.open import Job
from tread_bench.cell.step import Batch, Trainer
from tread_bench.cell.tracking import Curves
from tread_bench.cell.weights import save_weights
from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import RoutingSchedule
from tread_bench.core.describe.plugins import named
from tread_bench.core.errors import LostError, failure_text, is_of_disk
from tread_bench.core.numbers.costs import cell_cost
from tread_bench.core.stored.data_files import check_unchanged, contents_as_before
from tread_bench.core.stored.files import temporaries
from tread_bench.core.stored.records import Evaluation, GradientNorms, Record, Trained
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.evaluation import Evaluator, Guide
from tread_bench.measure.inside.blocks import block_parameters, gradient_norms, layer_similarity
from tread_bench.measure.inside.validation import routed_gap
from tread_bench.model.network import Network
from tread_bench.runner.heartbeat import Heartbeat, Tell

log = logging.getLogger(__name__)
GRADIENT_BATCHES = 4


def run_cell(root: Path, cell_id: str, processes: int, tell: Tell) -> Record:
    """Train and evaluate, or evaluate what another cell trained, and write the cell's record, which still lacks speed
    and memory, and may be a failure with its reason.

    Raises:
        LostError: one of several processes was ended from outside.
    """
    job = Job.open(root, cell_id).here()
    with job.folder.cell_lock(cell_id):
        finished = job.folder.record(cell_id)  # by a process that outlived its runner
        if finished:
            return finished
        return _attempt(job, cell_id, processes, Heartbeat(job.folder.cell(cell_id), tell, job.id))


def _attempt(job: Job, cell_id: str, processes: int, tell: Tell) -> Record:
    try:
        for left in temporaries(job.folder.cell(cell_id)):
            left.unlink()
        processes = 1 if job.cell.is_timed_only else processes
        record = in_ranks("tread_bench.cell.run:work", job.folder.root, cell_id, processes, tell)
    except LostError:
        raise
    except RankError as error:  # whose log has the traceback
        record = job.initial_record().model_copy(update={"reason": str(error)})
    except Exception as error:  # a cell's failure is a result: its row stays, with the reason
        if is_of_disk(error):  # which is the run's
            raise
        log.error("%s", traceback.format_exc())
        record = job.initial_record().model_copy(update={"reason": failure_text(error)})
    job.folder.write_record(record)
    return record


def in_ranks(function: str, root: Path, cell_id: str, processes: int, tell: Tell = lambda *news: None) -> Any:
    """Return what `function` ("module:name") of a cell's `Job` and `tell` returns: in this process, or in the first of
    several ranks. Raises what `launch` raises.
    """
    if processes > 1:
        return launch("tread_bench.cell.run:in_rank", (function, root, cell_id), processes, tell)
    computed: Callable[[Job, Tell], Any] = named(function)
    return computed(Job.open(root, cell_id).here(), tell)


def in_rank(function: str, root: Path, cell_id: str, tell: Tell) -> Any:
    """As `in_ranks`, in one of the ranks."""
    return named(function)(Job.open(root, cell_id).here().joined(), tell)


def work(job: Job, tell: Tell) -> Record:
    """Compute a cell; of several ranks, the first one returns the whole record."""
    if job.cell.trains:
        return _train_and_evaluate(job, tell)
    return _count_costs(job, tell) if job.cell.is_timed_only else _evaluate_other_weights(job, tell)


def _count_costs(job: Job, tell: Tell) -> Record:
    """Nothing is trained or evaluated: speed and memory are measured afterwards, alone."""
    return job.initial_record().model_copy(update={"status": "done", "cost": cell_cost(job.cell)})


def _train_and_evaluate(job: Job, tell: Tell) -> Record:
    # Open what training and evaluation need, and check it before the first step.
    files = job.files  # recorded before anything is read
    trainer = job.trainer()
    initial = weights_sha256(trainer.network.backbone)
    folder = job.folder.cell(job.id)
    evaluator = Evaluator(job.cell, job.data, trainer.objective, folder, device=job.device, ranks=job.ranks)
    evaluator.check()

    # Train, measure the inside of the network, and train on to equal time where that comes later.
    history = _train(job, trainer, evaluator, tell)
    tell("measuring", job.cell.training.iterations, job.cell.training.iterations, None)
    inside = _figures_inside(job, trainer) if job.ranks.is_first else {}
    job.ranks.wait()
    final = weights_sha256(trainer.network.backbone)
    skipped = trainer.scaler.skipped_steps
    taught_by = "".join(str(loss.file_sha256) for loss in trainer.network.auxiliaries)
    at_equal_time, reason = _at_equal_time(job, trainer, evaluator, history, tell)

    # The record.
    record = job.initial_record()
    if not job.ranks.is_first:
        return record
    earlier = history.conditions[:-1]
    return record.model_copy(
        update={
            "status": "done",
            "reason": reason,
            "conditions": record.conditions.model_copy(update={"begun_under": earlier} if earlier else {}),
            **{name: getattr(history, name) for name in Trained.model_fields},
            **inside,
            "at_equal_time": at_equal_time,
            "data_files": contents_as_before(files, files),  # unchanged from its first step to its last figure
            "cost": cell_cost(job.cell),
            "sampling_macs": evaluator.sampling_macs(),
            "skipped_steps": skipped,
            "target_features_sha256": taught_by,
            "initial_weights_sha256": initial,
            "final_weights_sha256": final,
        }
    )


def _train(job: Job, trainer: Trainer, evaluator: Evaluator, tell: Tell) -> History:
    """The cell's training, with its evaluations, kept weights and progress reports."""
    iterations = job.cell.training.iterations
    folder = job.folder.cell(job.id)

    # What training calls at its stops, and to report progress.
    curves = Curves(job.cell, folder) if job.plan.track and job.ranks.is_first else None

    def evaluate(trainer: Trainer, iteration: int, seconds: float) -> Evaluation:
        evaluation = _evaluate(job, trainer, evaluator, iteration, seconds, tell)
        if curves:
            curves.evaluation(evaluation)
        return evaluation

    def keep(trainer: Trainer, iteration: int) -> str:
        return save_weights(folder / "weights", iteration, _evaluated(trainer))

    def progress(done: int, loss: float | None, phase: str = "training") -> None:
        tell(phase, done, iterations, loss)
        if curves and phase == "training":
            curves.progress(done, loss)

    try:
        return train(
            trainer,
            folder / "checkpoints",
            Origin(job.id, job.conditions, job.files),
            evaluate,
            progress,
            keep=keep if job.request.role == "study" else None,
            equal_time=None if job.cell.depends_on_length else job.equal_time,
        )
    finally:
        if curves:
            curves.close()


def _at_equal_time(
    job: Job, trainer: Trainer, evaluator: Evaluator, history: History, tell: Tell
) -> tuple[Evaluation | None, str]:
    """The evaluation at equal time; or why there is none.

    Beyond the cell's own length it trains on. Where a step depends on the length, it trains anew, to that length.
    """
    cell, until = job.cell, job.equal_time
    if until is None or (until <= cell.training.iterations and not cell.depends_on_length):
        return history.at_equal_time, ""

    # From here on, the cell is one of that length, evaluated at its end alone.
    training = cell.training.model_copy(update={"iterations": until, "snapshots": ()})
    metrics = cell.metrics.model_copy(update={"at": (until,)})
    longer = cell.model_copy(update={"training": training, "metrics": metrics})
    if cell.depends_on_length:
        trainer = job.trainer(longer)
        begun = History()
    else:
        begun = History(
            step=history.step,
            train_seconds=history.train_seconds,
            conditions=history.conditions,
        )
    trainer.cell = longer
    evaluator.cell = longer

    def evaluate(trainer: Trainer, iteration: int, seconds: float) -> Evaluation:
        return _evaluate(job, trainer, evaluator, iteration, seconds, tell)

    def progress(done: int, loss: float | None, phase: str = "training") -> None:
        tell(phase, done, until, loss)

    folder = job.folder.cell(job.id) / "equal_time"
    evaluation, reason = None, ""
    try:
        history = train(
            trainer,
            folder,
            Origin(job.id, job.conditions, job.files),
            evaluate,
            progress,
            begun=begun,
        )
        evaluation = history.evaluations[-1]
    except (DivergedError, FloatingPointError) as error:  # what was measured before stays
        reason = f"not evaluated at equal time, after {until} iterations: {failure_text(error)}"
    if job.ranks.is_first:
        remove_checkpoints(folder)
    return evaluation, reason


def _evaluate(
    job: Job, trainer: Trainer, evaluator: Evaluator, iteration: int, seconds: float, tell: Tell
) -> Evaluation:
    progress = partial(tell, "evaluating", iteration, max(iteration, job.cell.training.iterations), None)
    progress()
    return evaluator(_evaluated(trainer), iteration=iteration, train_seconds=seconds, seed=job.seed, progress=progress)


def _figures_inside(job: Job, trainer: Trainer) -> dict[str, Any]:
    """Measurements inside the trained network. Raises FloatingPointError where its last steps diverged."""
    metrics = job.cell.metrics
    objective = trainer.objective
    held_out = job.data.held_out
    network = _evaluated(trainer)
    network.eval()

    # Similarity of layers, and gradients by block.
    times = metrics.similarity_times or objective.similarity_times
    similarity = layer_similarity(network, objective, held_out, metrics.similarity_samples, times)
    norms = _gradient_norms(trainer)
    figures = torch.tensor([*norms.training, *norms.dense, *chain(*similarity.matrix)])
    if not torch.isfinite(figures).all():
        raise FloatingPointError("a layer similarity or gradient norm is NaN or infinite: the last steps diverged")

    # The gap of training to inference, where the suite requests it.
    gap = routed_gap(network, objective, held_out, metrics) if metrics.routed_rates else None
    return {"similarity": similarity, "gradient_norms": norms, "gap": gap}


def _evaluated(trainer: Trainer) -> Network:
    """The network that is evaluated and kept: of the average of the weights, or of the weights."""
    return trainer.average if trainer.cell.metrics.ema else trainer.network


def _evaluate_other_weights(job: Job, tell: Tell) -> Record:
    """The network that another cell trained, under this cell's sampling and metrics; neither trained nor timed."""
    cell = job.cell
    sources = job.request.sources
    progress = partial(tell, "evaluating", 0, 1, None)
    progress()

    # Open the weights, if the data are those that they were trained on.
    files = job.files  # recorded before anything is read
    for source in sources.values():
        check_unchanged(job.trained_on(source), files, f"cell {source.cell}, whose weights this one reads, was trained")
    _, network = job.evaluated(sources["network"])
    guide = Guide(*job.trained(sources["weak"])) if "weak" in sources else None

    # Evaluate them.
    objective = build_objective(cell.objective)
    evaluator = Evaluator(cell, job.data, objective, job.folder.cell(job.id), guide, job.device, job.ranks)
    evaluator.check()
    evaluation = evaluator(network, sources["network"].iteration, 0.0, job.seed, progress)
    if not job.ranks.is_first:
        return job.initial_record()
    gap = routed_gap(network, objective, job.data.held_out, cell.metrics) if cell.metrics.routed_rates else None

    # The record.
    return job.initial_record().model_copy(
        update={
            "status": "done",
            "cost": cell_cost(cell),
            "evaluations": [evaluation],
            "gap": gap,
            "sampling_macs": evaluator.sampling_macs(),
            "data_files": contents_as_before(files, files),  # unchanged from its start to its last figure
            "target_features_sha256": job.taught_by(sources["network"]),
            "final_weights_sha256": weights_sha256(network.backbone),
        }
    )


def _gradient_norms(trainer: Trainer) -> GradientNorms:
    """Gradient norms on the batches that would have come next, with the cell's own method and without routes."""
    iterations = trainer.cell.training.iterations
    batches = [trainer.batch(iterations + k) for k in range(GRADIENT_BATCHES)]
    trainer.network.train()
    first = batches[0]
    blocks = block_parameters(trainer.network.backbone, first.x, first.t, first.y)
    routed_losses = [partial(_seeded_loss, trainer, batch) for batch in batches]
    dense_losses = [partial(_seeded_loss, trainer, _dense(batch)) for batch in batches]
    return GradientNorms(
        training=gradient_norms(blocks, routed_losses),
        dense=gradient_norms(blocks, dense_losses),
        batches=len(batches),
    )


def _dense(batch: Batch) -> Batch:
    """The same samples at a step without routing; none loses SPRINT's deep path."""
    return replace(batch, range=replace(batch.range, routing=0.0, path_drop=False))


def _seeded_loss(trainer: Trainer, batch: Batch) -> Tensor:
    """The loss; what a plug-in draws is seeded by the batch alone: the same with and without routing, and resumed."""
    trainer.seed_torch("gradient norms", batch.range.first)
    return trainer.loss(batch)


def unscheduled(cell: Cell) -> Cell:
    """Return the same cell, routed as configured at every step."""
    return cell.model_copy(update={"schedule": RoutingSchedule()})


def dense_twin(cell: Cell) -> Cell:
    """Return the same cell without anything that a method, a schedule or an auxiliary loss changes."""
    return unscheduled(cell).model_copy(update={"method": PLAINLY_DENSE, "routes": (), "auxiliary": ()})


def weights_sha256(model: nn.Module) -> str:
    """Hash of all parameters and buffers, names included."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
