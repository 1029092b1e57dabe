"""Several processes that train one cell compute what one does: draws, loss, gradients and weights."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tread_bench.cell.step import Trainer
from tread_bench.core.config.compute import StepOptions
from tread_bench.core.config.suite import Cell
from tread_bench.data.open import open_data
from tread_bench.data.ranks import ALONE, Ranks
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model.backbone import build_backbone
from tread_bench.model.losses.repa.network import Repa
from tread_bench.model.network import build_network

BATCH, STEPS = 7, 6
ATTENTION = {"depth": 6, "hidden": 16, "heads": 2, "patch": 2}
DROPS = {"hidden": 16, "patch": 2, "drop_path": 0.5}
FAMILIES = {
    **{name: {"name": name, **ATTENTION} for name in ("DiT", "LightningDiT", "U-ViT")},
    "DiS": {"name": "DiS", "depth": 6, **DROPS},
    "ZigMa": {"name": "ZigMa", "depth": 6, **DROPS},
    "DRWKV": {"name": "DRWKV", "depth": 7, **DROPS},
}
DENSE = {"method": "dense"}
ROUTED = {"method": "tread", "routes": "1:3@0.5"}
DECODER = {"name": "mask", "decoder_width": 16, "decoder_depth": 2, "decoder_heads": 2}
METHODS = {
    "mod": {"method": "mod", "routes": "1:3@0.5"},
    "sprint": {"method": "sprint", "routes": "1:-2@0.5"},
    "mask": {"method": DECODER, "routes": "0:-1@0.5"},
    "drop": {"method": "drop", "routes": "1:-1@0.5"},
    "layer_skip": {"method": "layer_skip", "routes": "1:-2@0.75"},
    "losses": {**ROUTED, "auxiliary": ["mae", {"name": "repa", "projector": 8}]},
}
CASES = {
    **{f"{family} {kind}": (FAMILIES[family], cell, {}) for family in FAMILIES
       for kind, cell in (("dense", DENSE), ("tread", ROUTED))},
    **{name: (FAMILIES["DiT"], cell, {}) for name, cell in METHODS.items()},
    **{f"{name} in micro batches": (FAMILIES["DiT"], METHODS[name], {"micro_batch": 2}) for name in METHODS},
    "DiS layer_skip": (FAMILIES["DiS"], METHODS["layer_skip"], {}),
    "checkpointed": (FAMILIES["ZigMa"], ROUTED, {"gradient_checkpointing": True, "micro_batch": 1}),
    "clipped": (FAMILIES["DiT"], {**ROUTED, "training": {"gradient_clip": 0.01}}, {}),
}  # fmt: skip


def trainer_of(name: str, ranks: Ranks) -> Trainer:
    """In float64, with zeros drawn, since they would leave blocks without a gradient."""
    backbone, changes, options = CASES[name]
    training = {"iterations": STEPS, "batch": BATCH, "learning_rate": 1e-3, **changes.get("training", {})}
    cell = Cell.model_validate({**changes, "backbone": backbone, "training": training})
    model = build_backbone(cell.backbone.family(), cell.backbone.spec(cell.data), {"attention": "math"}, seed=0)
    for k, parameter in enumerate(p for p in model.parameters() if p.requires_grad and not p.any()):
        torch.nn.init.normal_(parameter, std=0.02, generator=torch.Generator().manual_seed(k))
    network = build_network(cell, model, 0).double()
    for loss in network.auxiliaries:
        if isinstance(loss, Repa):
            loss.targets.network.double()
    objective, data = build_objective(cell.objective), open_data(cell.data)
    return Trainer(cell, 0, network, objective, data, torch.device("cpu"), StepOptions(**options), ranks)


def in_float64(batch):
    return batch.each(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


def figures(ranks: Ranks, cases: list[str]) -> dict[str, dict[str, torch.Tensor]]:
    """Of each case: this rank's draws, the loss and gradients of the first step, the weights after all steps."""
    found = {}
    for name in cases:
        trainer = trainer_of(name, ranks)
        drawn = trainer.prepared(3)
        batch = in_float64(trainer.prepared(0))
        loss = ranks.total(trainer.backward(batch))
        gradients = {n: p.grad.clone() for n, p in trainer.named_parameters() if p.grad is not None}
        trainer.optimizer.zero_grad(set_to_none=True)
        losses = [trainer.step(in_float64(trainer.prepared(step))) for step in range(STEPS)]
        found[name] = {
            "loss": loss,
            "losses": ranks.total(torch.stack(losses)),
            **{f"draws.{part}": getattr(drawn, part) for part in ("x", "y", "t", "noise")},
            **{f"draws.{key}": ids for key, ids in drawn.range.masks.items()},
            **({} if drawn.range.drop_draws is None else {"draws.drop path": drawn.range.drop_draws}),
            **{f"gradient.{n}": gradient for n, gradient in gradients.items()},
            **{f"weights.{n}": p.detach().clone() for n, p in trainer.named_parameters()},
        }
    return found


def run_rank(rank: int, size: int, folder: Path, cases: list[str]) -> None:
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), size), rank=rank, world_size=size)
    torch.save(figures(Ranks(rank, size, dist.new_group(backend="gloo")), cases), folder / f"{rank}.pt")
    dist.destroy_process_group()


def run_ranks(folder: Path, size: int, cases: list[str]) -> None:
    """All ranks are forks of one process, which has imported what they need."""
    torch.set_num_threads(1)
    children = []
    for rank in range(size):
        child = os.fork()
        if not child:
            try:
                run_rank(rank, size, folder, cases)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    if any(statuses):
        sys.exit("a rank failed")


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """A function that computes the figures of cases on several ranks, and in this process."""

    def compute(size, cases):
        folder = tmp_path_factory.mktemp("ranks")
        subprocess.run([sys.executable, __file__, folder, str(size), *cases], check=True, timeout=500)
        return [torch.load(folder / f"{rank}.pt") for rank in range(size)], figures(ALONE, cases)

    return compute


def error(found, expected):
    return (found - expected).abs().max().item() / max(expected.abs().max().item(), 1e-30)


def of(kind, figures):
    return {name.removeprefix(kind): value for name, value in figures.items() if name.startswith(kind)}


def check(ranks, expected):
    # Bit for bit the same draws, in slices that differ by one sample at most.
    slices = [of("draws.", figures) for figures in ranks]
    for name, whole in of("draws.", expected).items():
        assert torch.equal(torch.cat([one[name] for one in slices]), whole)
    counts = [len(one["x"]) for one in slices]
    assert sum(counts) == BATCH and max(counts) - min(counts) <= 1

    # The loss and every gradient of a step, and the same parameters without one.
    gradients = of("gradient.", expected)
    for figures in ranks:
        assert error(figures["loss"], expected["loss"]) < 1e-9
        assert set(of("gradient.", figures)) == set(gradients)
        for name, gradient in of("gradient.", figures).items():
            assert error(gradient, gradients[name]) < 1e-9, name

    # The losses and the weights of a training, equal on all ranks.
    for figures in ranks:
        assert error(figures["losses"], expected["losses"]) < 1e-9
        for name, weights in of("weights.", figures).items():
            assert torch.equal(weights, ranks[0][f"weights.{name}"])
            assert error(weights, expected[f"weights.{name}"]) < 1e-8, name


def test_ranks_compute_what_one_process_does(computed):
    """Seven samples on three ranks: a case of each kind."""
    cases = ["DiS tread", "mask in micro batches", "losses", "layer_skip in micro batches"]
    ranks, alone = computed(3, cases)
    for case in cases:
        check([figures[case] for figures in ranks], alone[case])


@pytest.mark.endurance
@pytest.mark.parametrize("size", [2, 3, 4])
def test_ranks_compute_every_family_and_method_as_one_process_does(computed, size):
    ranks, alone = computed(size, list(CASES))
    for case in CASES:
        check([figures[case] for figures in ranks], alone[case])


if __name__ == "__main__":
    run_ranks(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
