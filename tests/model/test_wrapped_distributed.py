"""A wrapped network in somebody's own training: on several ranks, and with its blocks compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tread_bench import RoutedNetwork

ROUTE, RANKS, IMAGES, TOKENS = "1:2@0.5", 2, 4, 16


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Linear(3, 8)
        self.time = nn.Linear(1, 8)
        layers = [nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(4)]
        self.blocks = nn.ModuleList(layers)
        self.out = nn.Linear(8, 3)


def wrapped() -> RoutedNetwork:
    torch.manual_seed(0)
    return RoutedNetwork(
        Net().double(),
        embed=lambda net, x, t, y: net.tokens(x) + net.time(t[:, None])[:, None],
        blocks=lambda net: net.blocks,
        head=lambda net, tokens: net.out(tokens),
    )


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(IMAGES, TOKENS, 3, generator=generator, dtype=torch.float64)
    return x, torch.rand(IMAGES, generator=generator, dtype=torch.float64)


def kept(network: RoutedNetwork, seed: int, images: int) -> torch.Tensor:
    """The tokens that a generator of this seed keeps."""
    (route,) = network.family.resolve(network.spec, ROUTE, "random")
    state = network.start(*(one[:images] for one in inputs()), None)
    return network._draw(route, "random", state, torch.Generator().manual_seed(seed))


def gradients(network: nn.Module) -> list[np.ndarray]:
    return [parameter.grad.numpy() for parameter in network.parameters()]


def train_on_rank(rank: int, folder: Path) -> None:
    """One step on this rank's images, with a generator of its own, as docs/extending/backbone.md says."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    network = wrapped()
    x, t = (one.chunk(RANKS)[rank] for one in inputs())
    generator = torch.Generator().manual_seed(rank)
    model = DistributedDataParallel(network)
    model(x, t, routes=ROUTE, generator=generator).square().mean().backward()
    np.savez(folder / f"{rank}.npz", *gradients(network))
    dist.barrier()  # the group ends for both, or gloo may abort the one that is still in it
    dist.destroy_process_group()


def on_ranks(folder: Path) -> list[list[np.ndarray]]:
    """The gradients of each rank, which is a process that runs this file."""
    ranks = [subprocess.Popen([sys.executable, __file__, str(rank), folder]) for rank in range(RANKS)]
    assert [rank.wait(timeout=200) for rank in ranks] == [0] * RANKS
    return [list(np.load(folder / f"{rank}.npz").values()) for rank in range(RANKS)]


def test_ranks_have_the_gradients_of_one_process_and_masks_of_their_own(tmp_path):
    by_rank = on_ranks(tmp_path)

    # One process, on all images, with the tokens that each rank keeps.
    network = wrapped()
    ids = [kept(network, rank, IMAGES // RANKS) for rank in range(RANKS)]
    assert not torch.equal(*ids)
    network(*inputs(), routes=ROUTE, ids=[torch.cat(ids)]).square().mean().backward()
    for of_rank in by_rank:
        for own, expected in zip(of_rank, gradients(network), strict=True):
            assert own == pytest.approx(expected, rel=1e-9, abs=1e-14)


@pytest.mark.filterwarnings("ignore")
def test_compiled_blocks_compute_the_same_on_all_tokens_and_on_those_of_a_route():
    plain, compiled = wrapped(), wrapped()
    torch._dynamo.reset()
    for block in compiled.network.blocks:
        block.compile(backend="aot_eager")
    ids = [kept(plain, 0, IMAGES)]
    for options in ({}, {"routes": ROUTE, "ids": ids}):
        outputs = [network(*inputs(), **options) for network in (plain, compiled)]
        assert torch.allclose(*outputs, rtol=1e-9)
        for network, output in zip((plain, compiled), outputs, strict=True):
            network.zero_grad()
            output.square().mean().backward()
        for own, expected in zip(gradients(compiled), gradients(plain), strict=True):
            assert own == pytest.approx(expected, rel=1e-8, abs=1e-13)
    torch._dynamo.reset()


if __name__ == "__main__":
    train_on_rank(int(sys.argv[1]), Path(sys.argv[2]))
