"""What a training step costs the host: its CPU time where arithmetic is negligible, beside plain code that trains."""

from __future__ import annotations

import tempfile
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.figure import Figure
from benchmarks.peers.dit import FusedTraining, RoutedDiT
from benchmarks.peers.loading import WRITERS
from benchmarks.row import row
from benchmarks.rows.training import ROUTE, plain_steps, plain_training, same_losses, steps_of, trainer_of
from benchmarks.timing import Bench, always
from tread_bench.core.config.compute import Compute
from tread_bench.core.config.suite import Cell

NARROW = {
    "backbone": {"name": "DiT", "depth": 12, "hidden": 32, "heads": 2, "patch": 2},
    "data": {"name": "random_latents", "image_size": 8, "count": 640},
    "training": {"iterations": 10**6, "batch": 2},
    "metrics": {"generate": False},
}
OF_A_GPU = {"attention": "sdpa", "adaln": "torch"}
LATENTS, BATCH, CALLS = 5120, 256, 4
ROUTED = {"method": "tread", "routes": ROUTE}


def host_time(bench: Bench, routing: dict[str, str], compile: bool) -> Figure:
    """Steps of ours over those of a plain network; compiled, both are compiled as a whole before they are timed."""
    compute = Compute(
        compile="network" if compile else False, threads=bench.threads, matmul_precision="highest", kernels=OF_A_GPU
    )
    trainer = trainer_of(Cell.model_validate({**NARROW, **routing}), compute)
    trainer.compile(0)
    route = [*trainer.network.method.routes, None][0]
    plain = plain_training(trainer, partial(RoutedDiT, route=route.blocks if route else range(0)), FusedTraining)
    if compile:
        plain.model.compile()
    ours, theirs = steps_of(trainer, compute), plain_steps(plain, trainer)
    return bench.faster(ours, theirs, same_losses(ours, theirs, 1e-4))


CLAIM = (
    "A {row} training step of a DiT of depth 12 and width 32 (16 tokens, batch 2), {way}: its CPU time over that of a "
    "plain loop with fused AdamW and averages updated together, {way} too."
)
for name, routing in {"dense": {}, "routed": ROUTED}.items():
    for compile in (False, True):
        way = "compiled" if compile else "eager"
        row(
            f"host/step-{way}-{name}",
            unit="× the CPU time",
            required=1.10,
            is_cost=True,
            claim=CLAIM.format(row=name, way=way),
        )(partial(host_time, routing=routing, compile=compile))


@row("host/batch", unit="× the CPU time", required=1.5, is_cost=True)
def host_batch(bench: Bench) -> Figure:
    """What the host makes of a batch of 256 latents of 4x32x32, stored in a file that is mapped into memory, where a
    GPU draws the rest: its CPU time over that of an index into the same latents and `torch.randn` of their noise.
    """
    with tempfile.TemporaryDirectory() as folder:
        WRITERS["safetensors"](Path(folder), LATENTS, (4, 32, 32), 1000)
        data = {"name": "latents", "train": [folder], "held_out": [folder], "layout": "safetensors"}
        training = {"iterations": 10**6, "batch": BATCH}
        cell = Cell.model_validate({**NARROW, "data": data, "training": training})
        trainer = trainer_of(cell, Compute(threads=bench.threads))
        trainer.draws = "device"
        latents = trainer.data.train.images(np.arange(len(trainer.data.train)))
        steps = count()

        def plain() -> tuple[Tensor, Tensor]:
            chosen = latents[torch.randint(len(latents), (BATCH,))]
            return chosen, torch.randn(chosen.shape)

        return bench.faster(always(lambda: trainer.prepared(next(steps)), CALLS), always(plain, CALLS))
