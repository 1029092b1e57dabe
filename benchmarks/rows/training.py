"""Training steps of DiT: against a plain eager one, routed against dense, and as a share of the yardstick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count

import torch

from benchmarks.figure import Agreement, Figure, agree
from benchmarks.peers.dit import PlainDiT, PlainTraining
from benchmarks.row import row
from benchmarks.timing import Bench, always
from tread_bench.backbones.dit.family import DiTSpec
from tread_bench.cell.ema import decay_at
from tread_bench.cell.numerics import apply_numerics, resolve_numerics, step_options
from tread_bench.cell.speed import Steps
from tread_bench.cell.step import Batch, Trainer
from tread_bench.core.config.compute import Compute
from tread_bench.core.config.suite import Cell
from tread_bench.core.numbers.costs import cell_cost
from tread_bench.data.source import open_data
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.speed.throughput import Ready
from tread_bench.model.backbone import build_backbone
from tread_bench.model.network import build_network
from tread_bench.suite.load import find_suite, load_plan

ROUTE = "2:8@0.5"
COMPARED_STEPS = 2  # of training, before anything is timed; the loss of the second depends on the gradients
# Networks at the sizes of S/2, by the name of their row. MMDiT reads text, which these data have not.
S2 = {"depth": 12, "hidden": 384, "heads": 6, "patch": 2}  # of families that publish no such size
OF_SIZE_S2: Mapping[str, str | Mapping[str, str | int]] = {
    "dit-linear": {"name": "DiT-S/2", "attention": "linear"},
    "lightningdit": {"name": "LightningDiT", **S2},
    "jit": {"name": "JiT", **S2},
    "u-vit": "U-ViT-S/2",
    "dis": "DiS-S/2",
    "dis-mamba2": {"name": "DiS-S/2", "mixer": "mamba2"},
    "zigma": "ZigMa-S/2",
    "zigma-mamba2": {"name": "ZigMa-S/2", "mixer": "mamba2"},
    "drwkv": "DRWKV-S/2",
    "dig-gla": "DiG-S/2",
    "dig-gated-delta": {"name": "DiG-S/2", "mixer": "gated_delta"},
    "dig-mamba2": {"name": "DiG-S/2", "mixer": "mamba2"},
    "dig-rwkv7": {"name": "DiG-S/2", "mixer": "rwkv7"},
}
ROUNDING = 2e-5  # of a loss in float32, relative
BFLOAT16 = 2e-2


@dataclass(frozen=True, slots=True)
class Training:
    """A network, dense and routed, and how its steps compute."""

    dense: Cell
    routed: Cell
    compute: Compute

    def on(self, threads: int) -> Training:
        return replace(self, compute=self.compute.model_copy(update={"threads": threads}))

    def autocast(self) -> Training:
        return replace(self, compute=self.compute.model_copy(update={"autocast": "bfloat16"}))

    @property
    def tolerance(self) -> float:
        return ROUNDING if self.compute.autocast == "none" else BFLOAT16

    @property
    def macs_ratio(self) -> float:
        """Of a dense training step over a routed one."""
        return cell_cost(self.dense).train_step_macs / cell_cost(self.routed).train_step_macs


@cache
def embedded() -> Training:
    """The network of the study that comes with the package: DiT, depth 12, width 64, batch 32 of 8 x 8 digits."""
    plan = load_plan(find_suite("route_placement"))
    dense, routed = (plan.rows[name][0].cell for name in ("dense", "tread-2:8"))
    return Training(dense, routed, plan.suite.compute)


@cache
def dit_s2() -> Training:
    """DiT-S/2 on 4 x 32 x 32 latents, batch 8."""
    return on_latents("DiT-S/2")


def on_latents(backbone: str | Mapping[str, str | int]) -> Training:
    """A network on 4 x 32 x 32 latents, batch 8."""
    common = {
        "backbone": backbone,
        "data": {"name": "random_latents", "count": 640},
        "training": {"iterations": 10**6, "batch": 8},
        "metrics": {"generate": False},
    }
    dense = Cell.model_validate(common)
    routed = Cell.model_validate({**common, "method": "tread", "routes": ROUTE})
    return Training(dense, routed, Compute())


def trainer_of(cell: Cell, compute: Compute) -> Trainer:
    """As a cell of a run has it, but for weights: noise is added to them all, so that no layer is zero."""
    numerics = resolve_numerics(compute, "cpu")
    device = apply_numerics(numerics)
    spec = cell.backbone.spec(cell.data)
    backbone = build_backbone(cell.backbone.family(), spec, numerics.kernels, 0, cell.objective)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, parameter in sorted(backbone.named_parameters()):
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    network = build_network(cell, backbone, 0)
    objective = build_objective(cell.objective)
    return Trainer(cell, 0, network, objective, open_data(cell.data), device, step_options(numerics))


def plain_training(
    trainer: Trainer, network: Callable[..., PlainDiT] = PlainDiT, loop: type[PlainTraining] = PlainTraining
) -> PlainTraining:
    """The plain network with the same weights, and its loop with the same settings."""
    backbone = trainer.network.backbone
    spec = backbone.spec
    assert isinstance(spec, DiTSpec)
    model = network(
        image_size=spec.image_size,
        patch=spec.patch,
        channels=spec.channels,
        num_classes=spec.num_classes,
        depth=spec.depth,
        hidden=spec.hidden,
        heads=spec.heads,
        mlp_ratio=spec.mlp_ratio,
        learn_sigma=spec.learn_sigma,
    )
    model.load_state_dict(backbone.state_dict())
    training = trainer.cell.training
    return loop(model, training.learning_rate, training.betas, training.weight_decay)


def at_precision(precision: str, ready: Ready) -> Ready:
    """The same calls, under a precision of float32 products."""

    def prepared() -> Callable[[], object]:
        call = ready()
        torch.set_float32_matmul_precision(precision)
        return call

    return prepared


def steps_of(trainer: Trainer, compute: Compute) -> Ready:
    """Training steps, each with the batch of its turn, which is ready before the clock starts."""
    return at_precision(resolve_numerics(compute, "cpu").matmul_precision or "highest", Steps(trainer))


def plain_steps(plain: PlainTraining, trainer: Trainer) -> Ready:
    """Steps of the plain loop on the batches that `trainer` draws, at torch's own default precision; with the tokens
    that a route keeps.
    """
    numbers = count()

    def ready() -> Callable[[], object]:
        batch = trainer.batch(next(numbers))
        assert batch.y is not None
        decay = decay_at(batch.step, trainer.cell.training.ema_decay)
        return partial(plain.step, batch.x, batch.y, batch.t, batch.noise, decay, *batch.range.masks.values())

    return at_precision("highest", ready)


def same_losses(one: Ready, other: Ready, tolerance: float) -> Agreement:
    """The losses of the first steps of training."""
    losses = [(one()(), other()()) for _ in range(COMPARED_STEPS)]
    ours, theirs = zip(*losses, strict=True)
    return agree(ours, theirs, tolerance)


def against_plain(bench: Bench, training: Training) -> Figure:
    """Whole training steps of ours against those of the plain loop, in float32."""
    training = training.on(bench.threads)
    trainer = trainer_of(training.dense, training.compute)
    theirs = plain_steps(plain_training(trainer), trainer)
    ours = steps_of(trainer, training.compute)
    return bench.faster(theirs, ours, same_losses(ours, theirs, training.tolerance))


def routed_gain(bench: Bench, training: Training) -> Figure:
    """Speed-up of routed steps over dense ones, as a share of the ratio of their MACs."""
    training = training.on(bench.threads)
    dense = trainer_of(training.dense, training.compute)
    routed = trainer_of(training.routed, training.compute)
    agreement = agree([routed.loss(unrouted(routed.batch(0)))], [dense.loss(dense.batch(0))], training.tolerance)
    sides = [steps_of(one, training.compute) for one in (dense, routed)]
    for ready in sides:
        ready()()
    facts = {"macs_ratio": training.macs_ratio}
    return bench.faster(sides[0], sides[1], agreement, facts=facts).times(1 / training.macs_ratio)


def unrouted(batch: Batch) -> Batch:
    """The same samples at a step without routing."""
    return replace(batch, range=replace(batch.range, routing=0.0))


def share_of_yardstick(bench: Bench, training: Training) -> Figure:
    """FLOPs per second of a training step over those of the fastest product of its precision, timed in turn."""
    training = training.on(bench.threads)
    cell = training.dense
    trainer = trainer_of(cell, training.compute)
    steps = steps_of(trainer, training.compute)

    # The loss of the first batch is that of the plain network.
    plain = plain_training(trainer)
    batch = trainer.batch(0)
    assert batch.y is not None
    agreement = agree(
        [trainer.loss(unrouted(batch))], [plain.loss(batch.x, batch.y, batch.t, batch.noise)], training.tolerance
    )
    steps()()

    # The fastest product that this precision allows, often enough for about a quarter of the step's time.
    numerics = resolve_numerics(training.compute, "cpu")
    allowed = ["bfloat16"] if numerics.autocast == "bfloat16" else ["highest", numerics.matmul_precision or "highest"]
    product = max((bench.products[precision] for precision in allowed), key=lambda one: one.gflops_per_s)
    step_flops = 2 * cell_cost(cell).train_step_macs * cell.training.batch
    calls = max(1, round(step_flops / product.flops / 4))
    facts = {"step_flops": step_flops, "product_flops": product.flops * calls}
    figure = bench.faster(always(product, calls), steps, agreement, facts=facts)
    return figure.times(100 * step_flops / (product.flops * calls))


@row("dit-tiny/step", required=1.3, aim=1.8)
def tiny_step(bench: Bench) -> Figure:
    """The embedded study's training step (DiT 12 x 64, 16 tokens, batch 32; optimiser and average included) against an
    eager float32 DiT with timm's layers and a plain training loop, on the same weights and batches.
    """
    return against_plain(bench, embedded())


@row("dit-tiny/routed", unit="of MACs", required=0.93, aim=1.0)
def tiny_routed(bench: Bench) -> Figure:
    """Speed-up of the embedded study's training step under the route 2:8@0.5 over the dense one, divided by the ratio
    of their MACs.
    """
    return routed_gain(bench, embedded())


@row("dit-s2/step")
def s2_step(bench: Bench) -> Figure:
    """A training step of DiT-S/2 (batch 8, 256 tokens) in float32 against the plain eager one."""
    return against_plain(bench, dit_s2())


@row("dit-s2/share-fp32", unit="%", required=70, aim=85)
def s2_share(bench: Bench) -> Figure:
    """FLOPs per second of a dense training step of DiT-S/2, batch 8, in float32, as a share of the fastest float32
    product's (MFU).
    """
    return share_of_yardstick(bench, dit_s2())


@row("dit-s2/share-bf16", unit="%", required=55, aim=75)
def s2_share_bf16(bench: Bench) -> Figure:
    """FLOPs per second of a dense training step of DiT-S/2, batch 8, under autocast to bfloat16, as a share of the
    fastest bfloat16 product's.
    """
    return share_of_yardstick(bench, dit_s2().autocast())


@row("dit-s2/routed-fp32", unit="of MACs", required=0.95)
def s2_routed(bench: Bench) -> Figure:
    """Speed-up of DiT-S/2's step in float32 under the route 2:8@0.5 over the dense one, divided by the MAC ratio."""
    return routed_gain(bench, dit_s2())


def against_dit(bench: Bench, backbone: str | Mapping[str, str | int]) -> Figure:
    """Training steps of another network against DiT-S/2's. They compute different functions of the same batches."""
    ours, theirs = (training.on(bench.threads) for training in (on_latents(backbone), dit_s2()))
    macs_ratio = cell_cost(theirs.dense).train_step_macs / cell_cost(ours.dense).train_step_macs
    sides = [steps_of(trainer_of(one.dense, one.compute), one.compute) for one in (theirs, ours)]
    for ready in sides:
        ready()()
    return bench.faster(sides[0], sides[1], facts={"macs_ratio": macs_ratio})


for name, network in OF_SIZE_S2.items():
    row(
        f"s2-step/{name}",
        claim=f"A training step of {name} at S/2 (batch 8, 256 tokens) in float32 against one of DiT-S/2.",
    )(partial(against_dit, backbone=network))
