"""The network compiled as a whole: the same losses, few compilations, and what is done where it cannot be."""

from __future__ import annotations

import pytest
import torch

from tests.cell.test_compute import CPU, DENSE, FAMILIES, NEIGHBOURS, ROUTED, WITH_LOSSES, counter, error, losses
from tests.cell.test_compute import make_trainer as trainer_of
from tests.pairs import in_turn
from tests.toy_suite import OWNER, no_figures
from tread_bench.cell import compiling
from tread_bench.cell.compiling import Compilation
from tread_bench.cell.loop import Origin, train
from tread_bench.core.config.compute import StepOptions
from tread_bench.model.methods.base import Method

__all__ = ["counter"]
pytestmark = [
    pytest.mark.plain_bits,
    # torch.compile looks at gradients and hides the warning itself, where warnings are no errors.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]
STEPS = 4
ELIT = {"method": {"name": "elit", "groups": 2, "heads": 2}, "routes": "1:-2@0.5"}
CELLS = {"dense": DENSE, "tread": ROUTED, "losses": WITH_LOSSES, **NEIGHBOURS, "elit": ELIT}
PAIRS = [(FAMILIES[name], CELLS[cell]) for name, cell in in_turn(FAMILIES, CELLS)]
CUDA = torch.device("cuda")


@pytest.mark.parametrize(
    ("backbone", "cell"),
    [
        *((backbone, ROUTED) for backbone in FAMILIES.values()),
        *((FAMILIES["DiT"], NEIGHBOURS[name]) for name in ("layer_skip", "sprint")),
        *(pytest.param(*pair, marks=pytest.mark.full) for pair in PAIRS),
    ],
    ids=str,
)
def test_a_network_compiled_as_a_whole_has_the_same_losses_and_is_compiled_once(backbone, cell, counter):
    """Where the number of samples differs, once more for any number. Fused operations differ by 1e-5."""
    plain, compiled = (trainer_of(cell, backbone, compile=way) for way in (False, "network"))
    compiled.compile(0, STEPS)
    graphs = counter.frame_count
    assert (compiled.compilation.instead, graphs > 0) == ("", True)
    assert error(losses(compiled, STEPS), losses(plain, STEPS)) < 1e-5
    assert counter.frame_count <= graphs + compiled.cell.method.family.varies


def test_with_micro_batches_checkpointing_and_autocast_losses_are_the_same(counter):
    options = {"micro_batch": 4, "gradient_checkpointing": True, "autocast": "bfloat16"}
    plain, compiled = (trainer_of(ROUTED, compile=way, **options) for way in (False, "network"))
    assert error(losses(compiled, STEPS), losses(plain, STEPS)) < 2**-8


WARMED = {**ROUTED, "schedule": {"warmup": 0.5}}
AS_RELEASED = {**ROUTED, "method": {"name": "tread", "float32_after_route": True}}


@pytest.mark.parametrize(
    ("requested", "cell", "options", "device", "ranks", "way", "reason"),
    [
        (False, ROUTED, {}, CPU, 1, "none", ""),
        (True, ROUTED, {}, CUDA, 2, "blocks", ""),
        ("network", NEIGHBOURS["layer_skip"], {"autocast": "float16", "micro_batch": 2}, CPU, 1, "network", ""),
        ("network", WARMED, {}, CPU, 1, "blocks", "blocks: the number of tokens changes"),
        ("network", ROUTED, {}, CPU, 2, "blocks", "blocks: several processes"),
        ("captured", ROUTED, {}, CUDA, 1, "captured", ""),
        ("captured", ROUTED, {}, CPU, 1, "network", "network: a CPU has no CUDA graphs"),
        ("captured", ROUTED, {"autocast": "float16"}, CUDA, 1, "network", "network: the scale of the loss changes"),
        ("captured", ROUTED, {"micro_batch": 2}, CUDA, 1, "network", "network: gradients of micro batches are summed"),
        ("captured", ROUTED, {"micro_batch": 64}, CUDA, 1, "captured", ""),
        ("captured", NEIGHBOURS["layer_skip"], {}, CUDA, 1, "network", "network: the shapes of layer_skip change"),
        ("captured", ELIT, {}, CUDA, 1, "network", "network: the shapes of elit change"),
        ("captured", AS_RELEASED, {"autocast": "bfloat16"}, CUDA, 1, "blocks", "blocks: a float32 block in the middle"),
        ("network", AS_RELEASED, {}, CPU, 1, "network", ""),
        ("captured", WARMED, {}, CUDA, 1, "blocks", "blocks: the number of tokens changes"),
        ("captured", ROUTED, {}, CUDA, 8, "blocks", "blocks: several processes"),
    ],
)
def test_what_stands_in_the_way_is_said(requested, cell, options, device, ranks, way, reason):
    trainer = trainer_of(cell)
    options = StepOptions(compile=requested, **options)
    found = Compilation(trainer.network, trainer.cell, options, device, ranks)
    assert found.way == way
    assert found.instead.startswith(reason) and bool(found.instead) == bool(reason)


def test_captured_steps_are_recorded_as_cuda_graphs(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function, **how: asked.append(how["mode"]) or function)
    trainer = trainer_of(ROUTED)
    for way in ("network", "captured"):
        Compilation(trainer.network, trainer.cell, StepOptions(compile=way), CUDA, 1)
    assert asked == [None, "reduce-overhead"]


@pytest.mark.parametrize("way", ["network", "captured"])
def test_a_plug_in_that_cannot_be_compiled_is_compiled_by_blocks(way, counter, monkeypatch):
    """It asks for a value on the host in the middle of the network."""
    begin = Method.draw

    def draws_by_value(method, backbone, batch_range, device):
        assert torch.rand(3, device=device).sum().item() > 0
        return begin(method, backbone, batch_range, device)

    monkeypatch.setattr(Method, "draw", draws_by_value)
    monkeypatch.setattr(compiling, "_not_captured", lambda cell, options, device: "")  # as on a GPU
    trainer = trainer_of(ROUTED, compile=way)
    trainer.compile(0)
    assert trainer.compilation.way == "blocks"
    assert trainer.compilation.instead.startswith("blocks: ")
    assert error(losses(trainer, STEPS), losses(trainer_of(ROUTED), STEPS)) < 1e-5
    assert "computed" not in vars(trainer.network)


@pytest.mark.parametrize(("cell", "instead"), [(ROUTED, ""), (WARMED, "blocks: the number of tokens changes")])
def test_a_training_says_how_its_steps_were_compiled(cell, instead, counter, tmp_path):
    """Before its clock starts; compilations change nothing that is trained."""
    trainers = {way: trainer_of(cell, compile=way) for way in (False, "network")}
    plain, compiled = (
        train(trainer, tmp_path / str(way), Origin(OWNER), no_figures) for way, trainer in trainers.items()
    )
    assert [loss for _, loss in compiled.train_loss] == pytest.approx([loss for _, loss in plain.train_loss], rel=1e-5)
    assert compiled.compiled_instead.startswith(instead) and bool(compiled.compiled_instead) == bool(instead)
    assert compiled.compile_seconds > 0
    assert not {"compile_seconds", "compiled_instead"} & plain.model_dump().keys()


@pytest.mark.gpu
@pytest.mark.parametrize("cell", [DENSE, ROUTED, *(NEIGHBOURS[name] for name in ("layer_skip", "sprint"))], ids=str)
def test_on_a_gpu_fifty_steps_that_are_compiled_or_captured_have_the_losses_of_eager_ones(cell):
    """To 1e-3 of them: fused kernels sum in another order."""
    eager, compiled, captured = (trainer_of(cell, device=CUDA, compile=way) for way in (False, "network", "captured"))
    for trainer in (compiled, captured):
        trainer.compile(0)
    assert captured.compilation.way == ("network" if captured.cell.method.family.varies else "captured")
    expected = losses(eager, 50)
    assert error(losses(compiled, 50), expected) < 1e-3
    assert error(losses(captured, 50), expected) < 1e-3
