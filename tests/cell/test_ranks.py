"""Several processes that train one cell compute what one does: draws, loss, gradients and weights."""

from __future__ import annotations

import os
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from tests.cell.test_compute import DENSE, DIT, FAMILIES, NEIGHBOURS, ROUTED, WITH_LOSSES, make_trainer
from tread_bench.cell.launch import launch
from tread_bench.cell.step import Trainer
from tread_bench.data.ranks import ALONE, Ranks
from tread_bench.model.losses.repa.network import Repa

CHECKOUT = Path(__file__).parents[2]
BATCH, STEPS = 7, 6
DROPS = {name: {**FAMILIES[name], "drop_path": 0.5} for name in ("DiS", "ZigMa", "DRWKV")}
CASES = {
    "DiS tread": (DROPS["DiS"], ROUTED, {}),
    "drawn on the device": (DROPS["DiS"], NEIGHBOURS["sprint"], {"draws": "device", "micro_batch": 2}),
    "mask in micro batches": (DIT, NEIGHBOURS["mask"], {"micro_batch": 2}),
    "losses": (DIT, WITH_LOSSES, {}),
    "layer_skip in micro batches": (DIT, {"method": "layer_skip", "routes": "1:-2@0.75"}, {"micro_batch": 2}),
}
MORE = {
    **{name: (FAMILIES[name], ROUTED, {}) for name in ("DiT", "LightningDiT", "U-ViT")},
    **{name: (DIT, NEIGHBOURS[name], {}) for name in ("drop", "sprint", "mod")},
    "dense": (DROPS["DRWKV"], DENSE, {}),
    "skipping": (DROPS["DiS"], NEIGHBOURS["layer_skip"], {}),
    "checkpointed": (DROPS["ZigMa"], ROUTED, {"gradient_checkpointing": True, "micro_batch": 1}),
    "clipped": (DIT, ROUTED, {"training": {"gradient_clip": 0.01}}),
}


def trainer_of(name: str, ranks: Ranks) -> Trainer:
    backbone, cell, options = {**CASES, **MORE}[name]
    training = {"iterations": STEPS, "batch": BATCH, **options.get("training", {})}
    options = {**options, "training": training}
    draws = options.pop("draws", "host")
    trainer = make_trainer(cell, backbone, ranks=ranks, dtype=torch.float64, **options)
    trainer.draws = draws
    for loss in trainer.network.auxiliaries:
        if isinstance(loss, Repa):
            loss.targets.network.double()
    return trainer


def in_float64(batch):
    return batch.each(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


def figures(ranks: Ranks, cases: list[str]) -> dict[str, dict[str, Any]]:
    """Of each case: this rank's draws, the loss and gradients of the first step, the weights after all steps."""
    found = {}
    for name in cases:
        trainer = trainer_of(name, ranks)
        drawn = trainer.on_device(trainer.prepared(3))
        draws = {part: getattr(drawn, part) for part in ("x", "y", "t", "noise")} | dict(drawn.range.masks)
        if drawn.range.drop_draws is not None:
            draws["drop path"] = drawn.range.drop_draws
        loss = ranks.total(trainer.backward(in_float64(trainer.on_device(trainer.prepared(0)))))
        results = {f"gradient of {n}": p.grad.clone() for n, p in trainer.named_parameters() if p.grad is not None}
        trainer.optimizer.zero_grad(set_to_none=True)
        losses = [trainer.step(in_float64(trainer.on_device(trainer.prepared(step)))) for step in range(STEPS)]
        results |= {"loss": loss, "losses": ranks.total(torch.stack(losses))}
        results |= {n: p.detach().clone() for n, p in trainer.named_parameters()}
        found[name] = {"draws": draws, "results": results}
    return found


def compute_and_listen(folder: Path, cases: list[str], tell: Any) -> None:
    """In a rank: write its figures, and the addresses at which its sockets and those of its launcher are."""
    torch.set_num_threads(1)
    ranks = Ranks.join(torch.device("cpu"))
    found = figures(ranks, cases)
    processes = [psutil.Process(pid) for pid in (os.getpid(), os.getppid())]
    addresses = {socket.laddr.ip for process in processes for socket in process.net_connections()}
    assert ranks.any(ranks.is_first)  # both are still there
    torch.save((found, addresses), folder / f"{ranks.rank}.pt")


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """A function that computes the figures of cases on several ranks, and in this process."""

    def compute(size, cases):
        folder = tmp_path_factory.mktemp("ranks")
        command = [sys.executable, "-m", "tests.cell.test_ranks", folder, str(size), *cases]
        subprocess.run(command, check=True, timeout=500, cwd=CHECKOUT)
        found, addresses = zip(*(torch.load(folder / f"{rank}.pt") for rank in range(size)), strict=True)
        for address in set.union(*addresses):
            assert ip_address(address.removeprefix("::ffff:")).is_loopback, "another machine can reach it"
        return found, figures(ALONE, cases)

    return compute


def error(found, expected):
    return (found - expected).abs().max().item() / max(expected.abs().max().item(), 1e-30)


def check(ranks, expected):
    # Bit for bit the same draws, in slices that differ by one sample at most.
    for name, whole in expected["draws"].items():
        assert torch.equal(torch.cat([one["draws"][name] for one in ranks]), whole)
    counts = [len(one["draws"]["x"]) for one in ranks]
    assert sum(counts) == BATCH and max(counts) - min(counts) <= 1

    # Losses, the gradients of a step, and the weights of a training, equal on all ranks.
    for one in ranks:
        assert one["results"].keys() == expected["results"].keys()
        for name, value in one["results"].items():
            assert torch.equal(value, ranks[0]["results"][name])
            assert error(value, expected["results"][name]) < 1e-8, name


@pytest.mark.parametrize("size", range(1, 9))
def test_ranks_share_all_samples_in_their_order(size):
    shares = [Ranks(rank, size).share(BATCH) for rank in range(size)]
    assert [sample for share in shares for sample in share] == [*range(BATCH)]
    assert len(max(shares, key=len)) - len(min(shares, key=len)) <= 1


def test_ranks_compute_what_one_process_does(computed):
    """Seven samples on two ranks, which meet where no other machine can reach them."""
    ranks, alone = computed(2, list(CASES))
    for case in CASES:
        check([figures[case] for figures in ranks], alone[case])


@pytest.mark.endurance
@pytest.mark.parametrize("size", [2, 3, 4])
def test_ranks_compute_every_family_and_method_as_one_process_does(computed, size):
    ranks, alone = computed(size, list(MORE))
    for case in MORE:
        check([figures[case] for figures in ranks], alone[case])


if __name__ == "__main__":
    arguments = Path(sys.argv[1]), sys.argv[3:]
    launch("tests.cell.test_ranks:compute_and_listen", arguments, int(sys.argv[2]), lambda *news: None)
