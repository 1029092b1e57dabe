"""Every way of computing a step gives the loss of the plain one; the tolerances are stated beside the tests."""

from __future__ import annotations

import hashlib

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from tests.captioned_digits import CaptionedDigits
from tests.cell.test_step import interrupted
from tests.pairs import in_turn
from tests.toy_suite import OWNER, no_figures
from tread_bench.cell import compiling
from tread_bench.cell.compiling import Compilation
from tread_bench.cell.loop import DivergedError, Origin, train
from tread_bench.cell.numerics import check_step_options, matmul_error, resolve_numerics, step_options
from tread_bench.cell.step import Trainer, _Loss, _summed
from tread_bench.core.config.compute import Compute, StepOptions
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.core.stored.conditions import Numerics
from tread_bench.data.ranks import ALONE
from tread_bench.data.source import open_data
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.backbone import Backbone, build_backbone
from tread_bench.model.network import build_network

# torch.compile looks at gradients and hides the warning itself, where warnings are no errors.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
CPU = torch.device("cpu")
DIT = {"name": "DiT", "depth": 6, "hidden": 16, "heads": 2, "patch": 2}
FAMILIES = {
    "DiT": DIT,
    "LightningDiT": {**DIT, "name": "LightningDiT"},
    "U-ViT": {**DIT, "name": "U-ViT"},
    "MMDiT": {**DIT, "name": "MMDiT"},
    "DiS": {"name": "DiS", "depth": 6, "hidden": 16, "patch": 2},
    "ZigMa": {"name": "ZigMa", "depth": 6, "hidden": 16, "patch": 2},
    "DRWKV": {"name": "DRWKV", "depth": 7, "hidden": 16, "patch": 2},
}
DENSE = {"method": "dense"}
ROUTED = {"method": "tread", "routes": "1:3@0.5"}
WITH_LOSSES = {**ROUTED, "auxiliary": ["mae", {"name": "repa", "projector": 8}]}
# A block is compiled once for a number of tokens and once for any number; first, inner and skip blocks are three
# kinds, and so is MMDiT's last; DRWKV shifts along the grid by another function while tokens are away.
COMPILATIONS = {"DiT": 2, "LightningDiT": 2, "MMDiT": 4, "U-ViT": 4, "DiS": 6, "ZigMa": 4, "DRWKV": 5}
NEIGHBOURS = {  # where long skips allow them
    "mask": {
        "method": {"name": "mask", "decoder_width": 16, "decoder_depth": 2, "decoder_heads": 2},
        "routes": "0:-1@0.5",
    },
    "drop": {"method": "drop", "routes": "1:-1@0.5"},
    "sprint": {"method": "sprint", "routes": "1:-2@0.5"},
    "mod": {"method": "mod", "routes": "1:3@0.5"},
    "layer_skip": {"method": "layer_skip", "routes": "1:-2@0.5"},
}


def make_trainer(cell=ROUTED, backbone=DIT, training=None, device=CPU, ranks=ALONE, dtype=torch.float32, **options):
    """Weights that are zero at first would leave blocks without a gradient: they are drawn too."""
    defaults = {"iterations": 8, "batch": 8, "learning_rate": 1e-3, "checkpoint_every": 3}
    cell = Cell.model_validate({**cell, "backbone": backbone, "training": {**defaults, **(training or {})}})
    family = cell.backbone.family()
    if not family.spec.model_fields["num_classes"].default:  # it takes text alone
        cell = cell.model_copy(update={"data": CaptionedDigits()})
    spec = cell.backbone.spec(cell.data)
    model = build_backbone(family, spec, {"attention": "math"}, seed=0)
    for k, parameter in enumerate(p for p in model.parameters() if p.requires_grad and not p.any()):
        torch.nn.init.normal_(parameter, std=0.02, generator=torch.Generator().manual_seed(k))
    network, objective, data = (
        build_network(cell, model, 0).to(dtype),
        build_objective(cell.objective),
        open_data(cell.data),
    )
    return Trainer(cell, 0, network, objective, data, device, StepOptions(**options), ranks)


def at_scale(trainer, scale):
    """The same trainer as if its loss scale had come to that."""
    trainer.scaler.restore({**trainer.scaler.tensors(), "scaler.scale": torch.tensor(scale)})
    return trainer


def losses(trainer, steps=4):
    return torch.stack([trainer.step(trainer.batch(k)) for k in range(steps)])


def gradient(trainer):
    """The loss and all gradients of the first batch, in one vector."""
    torch.manual_seed(0)
    loss = trainer.backward(trainer.batch(0))
    return loss, torch.cat([p.grad.flatten() for p in trainer.parameters if p.grad is not None])


def error(found, exact):
    return ((found - exact).norm() / exact.norm()).item()


def fingerprint(trainer):
    return {name: hashlib.sha256(t.numpy().tobytes()).hexdigest() for name, t in trainer.tensors().items()}


@pytest.fixture
def counter(monkeypatch):
    """Counts compilations in place of making them fast; needs no C++ compiler."""
    torch._dynamo.reset()
    counting = CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(compiling, "BACKEND", counting)
    yield counting
    torch._dynamo.reset()


# bfloat16 keeps 8 bits, float16 11: one rounding is at most 2^-9 and 2^-12 of a value, and a mean evens them out.
@pytest.mark.parametrize(("autocast", "tolerance"), [("bfloat16", 2**-10), ("float16", 2**-13)])
@pytest.mark.parametrize("backbone", FAMILIES)
def test_autocast_gives_the_loss_within_a_rounding(backbone, autocast, tolerance):
    trainer = make_trainer(ROUTED, FAMILIES[backbone], autocast=autocast)
    plain = losses(make_trainer(ROUTED, FAMILIES[backbone]), 2)
    other = losses(at_scale(trainer, 2.0**12), 2)  # at the first scale of 2^16 one of ZigMa's steps overflows
    assert not torch.equal(plain, other)
    torch.testing.assert_close(other, plain, rtol=tolerance, atol=0)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_step_that_overflows_is_left_out_and_counted(optimizer):
    trainer = at_scale(make_trainer(autocast="float16", training={"optimizer": optimizer}), 2.0**60)
    before = [p.clone() for p in trainer.parameters]
    assert trainer.step(trainer.batch(0)).isfinite()
    assert all(map(torch.equal, trainer.parameters, before))
    assert trainer.scaler.skipped_steps == 1
    assert trainer.scaler.tensors()["scaler.scale"] == 2.0**59
    assert not trainer.scaler.collapsed


@pytest.mark.parametrize("autocast", ["none", "float16"])
def test_clipping_bounds_the_norm_of_gradients_without_their_scale(autocast):
    trainer = make_trainer(training={"gradient_clip": 1e-3}, autocast=autocast)
    norms = []
    note = lambda *given: norms.extend(p.grad.norm() for p in trainer.parameters)  # noqa: E731
    trainer.optimizer.register_step_pre_hook(note)
    trainer.step(trainer.batch(0))
    assert torch.stack(norms).norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_overflow_that_a_smaller_scale_mends_is_no_divergence(tmp_path):
    trainer = at_scale(make_trainer(training={"iterations": 60}, autocast="float16"), 2.0**60)
    history = train(trainer, tmp_path, Origin(OWNER), no_figures)
    assert 30 < trainer.scaler.skipped_steps < 55
    assert history.step == 60


def test_overflow_at_any_scale_is_divergence(tmp_path):
    trainer = make_trainer(training={"iterations": 60}, autocast="float16")
    trainer.parameters[0].register_hook(lambda g: g * torch.inf)
    with pytest.raises(DivergedError, match="overflow at any loss scale by iteration 30"):
        train(trainer, tmp_path, Origin(OWNER), no_figures)


@pytest.mark.parametrize("autocast", ["none", "bfloat16", "float16"])
def test_a_run_that_diverges_fails_under_every_precision(tmp_path, autocast):
    trainer = make_trainer(training={"learning_rate": 1e30}, autocast=autocast)
    with pytest.raises(DivergedError, match="by iteration"):
        train(trainer, tmp_path, Origin(OWNER), no_figures)


@pytest.mark.parametrize("at", [1, 4, 7])
def test_float16_goes_on_from_a_checkpoint_bit_for_bit(tmp_path, at):
    def begin():
        """A scale that is too large at first, so that it moves on both sides of the break."""
        return at_scale(make_trainer(autocast="float16"), 2.0**34)

    whole, again = begin(), begin()
    train(whole, tmp_path / "a", Origin(OWNER), no_figures)
    interrupted(begin(), tmp_path / "b", at)
    train(again, tmp_path / "b", Origin(OWNER), no_figures)
    assert fingerprint(again) == fingerprint(whole)
    assert again.scaler.skipped_steps == whole.scaler.skipped_steps > 1


CHECKPOINTED = {"tread": ROUTED, **NEIGHBOURS}


@pytest.mark.parametrize(("method", "backbone"), in_turn(CHECKPOINTED, FAMILIES))
def test_gradient_checkpointing_changes_no_bit(method, backbone):
    """Drop path of DiS, ZigMa and DRWKV included."""
    cell = CHECKPOINTED[method]
    kept, again = (make_trainer(cell, FAMILIES[backbone], gradient_checkpointing=g) for g in (False, True))
    assert torch.equal(losses(again, 2), losses(kept, 2))
    assert fingerprint(again) == fingerprint(kept)


def saved_for_backward(cell, gradient_checkpointing):
    """Numbers that one forward pass keeps."""
    trainer, sizes = make_trainer(cell, gradient_checkpointing=gradient_checkpointing), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (sizes.append(t.numel()), t)[1], lambda t: t):
        trainer.loss(trainer.batch(0))
    return sum(sizes)


@pytest.mark.parametrize("method", CHECKPOINTED)
def test_gradient_checkpointing_keeps_less_for_the_backward_pass(method):
    cell = CHECKPOINTED[method]
    assert saved_for_backward(cell, True) < saved_for_backward(cell, False) / 2


@pytest.mark.parametrize("micro_batch", [1, 3, 4, 8, 100])
@pytest.mark.parametrize("cell", [DENSE, ROUTED, WITH_LOSSES], ids=["dense", "tread", "auxiliary"])
def test_micro_batches_add_up_to_the_batch(cell, micro_batch):
    """Whether they divide it or not. Only the order of summation differs: float32 rounds by 2^-24 a time."""
    (loss, exact), (sum_of_losses, found) = (gradient(make_trainer(cell, micro_batch=m)) for m in (None, micro_batch))
    assert sum_of_losses.item() == pytest.approx(loss.item(), rel=1e-6)
    assert error(found, exact) < 1e-5


@pytest.mark.parametrize("method", [DENSE, NEIGHBOURS["layer_skip"]], ids=["dense", "layer_skip"])
@pytest.mark.parametrize("family", ["DiS", "ZigMa", "DRWKV"])
def test_drop_path_is_drawn_by_sample_whatever_the_micro_batch(family, method):
    found = {}
    for rate, micro_batch in ((0.5, None), (0.5, 3), (0.0, None)):
        trainer = make_trainer(method, {**FAMILIES[family], "drop_path": rate}, micro_batch=micro_batch)
        found[rate, micro_batch] = gradient(trainer)[1]
    assert error(found[0.5, 3], found[0.5, None]) < 1e-5
    assert error(found[0.0, None], found[0.5, None]) > 1e-3


AFTER_ROUTE = {"method": {"name": "tread", "float32_after_route": True}, "routes": "1:3@0.5"}


@pytest.mark.parametrize(
    ("backbone", "autocast", "checkpointing"),
    [
        *(("DiT", "bfloat16", False), ("DiT", "float16", True), ("DiS", "bfloat16", True), ("DiS", "float16", False)),
        *(("LightningDiT", "bfloat16", True), ("U-ViT", "float16", True)),
        *(("ZigMa", "float16", False), ("DRWKV", "bfloat16", False)),
    ],
)
def test_exactly_the_block_after_a_route_runs_in_float32(backbone, autocast, checkpointing, monkeypatch):
    trainer = make_trainer(AFTER_ROUTE, FAMILIES[backbone], autocast=autocast, gradient_checkpointing=checkpointing)
    run_block, found = trainer.network.backbone.run_block, {}

    def noting(block, state):
        parts = (*state.streams.values(), *([] if state.c is None else [state.c]))
        found[block] = torch.is_autocast_enabled("cpu"), {part.dtype for part in parts} == {torch.float32}
        return run_block(block, state)

    monkeypatch.setattr(trainer.network.backbone, "run_block", noting)
    loss, _ = gradient(trainer)
    assert [block for block, (autocast_on, _) in found.items() if not autocast_on] == [4]
    assert found[4][1]
    plain, _ = gradient(make_trainer(ROUTED, FAMILIES[backbone]))
    assert loss.item() == pytest.approx(plain.item(), rel=2**-7)


MORE = (("tread", "DiS"), ("sprint", "U-ViT"), ("drop", "LightningDiT"), ("mod", "ZigMa"), ("layer_skip", "DRWKV"))


@pytest.mark.plain_bits
@pytest.mark.parametrize(
    ("method", "backbone"),
    [
        *(("tread", "DiT"), ("mask", "DiT")),
        *(pytest.param(*pair, marks=pytest.mark.full) for pair in MORE),
        *(pytest.param("tread", name, marks=pytest.mark.endurance) for name in FAMILIES if name not in ("DiT", "DiS")),
    ],
)
def test_compiled_blocks_give_the_same_gradients_and_routes_compile_nothing_again(method, backbone, counter):
    """Drop path included. Rounding differs where operations are fused or split: 1e-5 of the gradient's norm."""
    others = [{"method": "tread", "routes": "2:3@0.5"}] if method == "tread" else []
    for cell in (CHECKPOINTED[method], *others):
        (loss, exact), (again, found) = (gradient(make_trainer(cell, FAMILIES[backbone], compile=c)) for c in (0, 1))
        assert again.item() == pytest.approx(loss.item(), rel=1e-6)
        assert error(found, exact) < 1e-5
        assert 0 < counter.frame_count <= COMPILATIONS[backbone] + (method == "mask")  # its decoder is another kind


@pytest.mark.gpu
@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        {"autocast": "bfloat16"},
        {"autocast": "float16"},
        {"compile": True},
        {"compile": True, "autocast": "float16", "gradient_checkpointing": True, "micro_batch": 4},
    ],
    ids=str,
)
def test_a_gpu_gives_the_losses_of_the_cpu(options):
    trainer = make_trainer(device=torch.device("cuda"), **options)
    trainer.draws = "device"
    torch.testing.assert_close(losses(trainer).cpu(), losses(make_trainer()), rtol=2**-9, atol=0)
    assert trainer.scaler.skipped_steps == 0


@pytest.mark.gpu
@pytest.mark.parametrize(
    "options",
    [{}, {"autocast": "bfloat16"}, {"autocast": "float16", "micro_batch": 3}, {"gradient_checkpointing": True}],
    ids=str,
)
@pytest.mark.parametrize("draws", ["host", "device"])
@pytest.mark.parametrize("cell", [DENSE, *NEIGHBOURS.values()], ids=["dense", *NEIGHBOURS])
def test_a_step_on_a_gpu_waits_for_nothing(cell, draws, options):
    """Backward pass, clipping, loss scale, optimiser and average included; torch raises where the host would wait."""
    clipped = {"iterations": 12, "batch": 6, "gradient_clip": 1.0}
    trainer = make_trainer(cell, device=torch.device("cuda"), training=clipped, **options)
    trainer.draws = draws
    first, *others = (trainer.prepared(step) for step in range(3))
    trainer.step(first)  # which makes what is made once
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in others:
            trainer.step(batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def alone_in_a_group():
    """A group of one rank, whose gradients go the way of several."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.plain_bits
def test_under_ddp_compiled_blocks_give_the_same_and_compile_as_little(alone_in_a_group, counter):
    """DDP splits what is compiled inside it at its buckets, and once compiled for each number of tokens."""
    cell = {"method": "tread", "routes": "1:3@0.9", "schedule": {"warmup": 0.99}}
    plain, compiled = (make_trainer(cell, training={"iterations": 16, "batch": 6}, compile=c) for c in (False, True))
    compiled._loss = _summed(_Loss(compiled))
    assert error(losses(compiled, 16), losses(plain, 16)) < 1e-5
    assert 0 < counter.frame_count <= 3


@pytest.mark.gpu
def test_tf32_is_used_exactly_where_it_is_asked_for():
    """It keeps 11 bits of a factor: a product of 512 terms is wrong by about 2^-12, in float32 by 2^-22."""
    assert matmul_error("highest", "cuda") < 1e-5 < matmul_error("high", "cuda") < 1e-2
    assert resolve_numerics(Compute(matmul_precision="high"), "cuda").tf32
    assert not resolve_numerics(Compute(), "cuda").tf32


@pytest.mark.gpu
def test_a_gpu_draws_what_the_host_draws():
    """Masks and labels to the bit, noise up to float32's rounding; it is what a run on a GPU uses."""
    assert resolve_numerics(Compute(), "cuda").draws == "device"
    cell = {"method": "sprint", "routes": "1:-2@0.5", "selector": "stratified"}
    here, there = (make_trainer(cell, device=device) for device in (CPU, torch.device("cuda")))
    there.draws = "device"
    expected, found = here.batch(3), there.batch(3).to(CPU)
    torch.testing.assert_close(found.noise, expected.noise, rtol=0, atol=1e-4)
    torch.testing.assert_close(found.t, expected.t, rtol=0, atol=1e-4)
    tensors = [
        (batch.x, batch.y, *batch.range.masks.values(), *batch.range.drawn.values()) for batch in (found, expected)
    ]
    assert all(map(torch.equal, *tensors))


def test_a_backbone_without_a_list_of_blocks_is_refused():
    trainer = make_trainer()
    trainer.network.backbone = Backbone()
    with pytest.raises(UserError, match=r"compute\.compile: Backbone has no nn\.ModuleList"):
        Compilation(trainer.network, trainer.cell, StepOptions(compile=True), CPU, 1)


def test_what_does_not_work_here_is_refused_before_anything_is_trained(monkeypatch):
    def missing(*args, **kwargs):
        raise RuntimeError("not implemented for 'Half'\nand more")

    monkeypatch.setattr(torch.nn.functional, "gelu", missing)
    with pytest.raises(UserError, match=r"autocast: float16 does not work here \(not implemented for 'Half'\)"):
        check_step_options(StepOptions(autocast="float16"), "cpu")
    monkeypatch.setattr(torch, "compile", missing)
    with pytest.raises(UserError, match=r"compute\.compile: torch\.compile does not work here .* to false"):
        check_step_options(StepOptions(compile=True), "cpu")


def test_numerical_choices_hold_every_option_of_a_step():
    compute = Compute(autocast="float16", gradient_checkpointing=True, micro_batch=3)
    resolved = resolve_numerics(compute, "cpu")
    assert (resolved.device, resolved.device_count) == ("cpu", 1)
    assert step_options(resolved) == StepOptions(autocast="float16", gradient_checkpointing=True, micro_batch=3)
    assert resolved.tf32 is False
    assert step_options(Numerics(autocast="bfloat16")) == StepOptions(autocast="bfloat16")  # a plan from before
