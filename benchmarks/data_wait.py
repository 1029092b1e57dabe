"""What the host does for a batch, and what of it the training loop waits for, at the size of ImageNet twice over.

    python benchmarks/data_wait.py [BATCH] [STEPS]

Random latents (4 x 32 x 32, 2,562,334 to train on), a routed DiT-S/2 whose forward and backward pass is replaced by
100 ms in which the host rests (a GPU computes) or computes on one thread (a CPU does). Prints, in ms, what preparing a
batch takes and what is left of it in a step whose batch is ready; then, for 0 to 4 workers, the time of a turn of the
loop and the share of it that was spent waiting.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from statistics import median

import torch

from tread_bench.cell.step import Batch, Trainer
from tread_bench.core.config.compute import StepOptions
from tread_bench.core.config.suite import Cell
from tread_bench.core.families import create_backbone
from tread_bench.data.loader import BATCHES_PER_WORKER
from tread_bench.data.open import open_data
from tread_bench.diffusion.objectives.build import build_objective
from tread_bench.measure.speed.throughput import time_loop
from tread_bench.model.methods.build import build_method
from tread_bench.model.network import Network

TRAIN = 2_562_334
COUNT = 3_202_917  # the last fifth is held out
STEP_S = 0.1


def trainer_of(batch: int) -> Trainer:
    cell = Cell.model_validate(
        {
            "backbone": "DiT-S/2",
            "data": {"name": "random_latents", "count": COUNT},
            "method": "tread",
            "routes": "2:8@0.5",
            "training": {"iterations": 10**6, "batch": batch},
            "metrics": {"generate": False},
        }
    )
    model = create_backbone("DiT-S/2")
    data = open_data(cell.data)
    assert len(data.train) == TRAIN
    network = Network(model, build_method(cell, model))
    return Trainer(cell, 0, network, build_objective(cell.objective), data, torch.device("cpu"))


def rest(trainer: Trainer, batch: Batch) -> torch.Tensor:
    """As long as a GPU computes, its host has nothing to do; masks are taken up as a forward pass takes them."""
    trainer.network.method.draw(trainer.network.backbone, batch.rows, trainer.device)
    time.sleep(STEP_S)
    return torch.zeros(())


def compute(trainer: Trainer, batch: Batch, matrix: torch.Tensor, products: int) -> torch.Tensor:
    """A fixed amount of work on one thread."""
    trainer.network.method.draw(trainer.network.backbone, batch.rows, trainer.device)
    for _ in range(products):
        matrix @ matrix
    return torch.zeros(())


def ms(call: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append((time.perf_counter() - start) * 1e3)
    return median(found)


def main(batch: int, steps: int) -> None:
    torch.set_num_threads(1)
    trainer, numbers = trainer_of(batch), count()
    trainer.batch(next(numbers))  # the epoch's order
    print(f"a batch of {batch}, prepared: {ms(lambda: trainer.batch(next(numbers)), steps):.1f} ms")
    ready, backbone = trainer.batch(next(numbers)), trainer.network.backbone
    left = ms(lambda: trainer.network.method.draw(backbone, ready.to(trainer.device).rows, trainer.device), steps)
    print(f"left of it in a step whose batch is ready: {left:.3f} ms")
    matrix = torch.randn(512, 512)
    products = max(1, round(STEP_S * 1e3 / ms(lambda: matrix @ matrix, 50)))
    kinds = {"rests": partial(rest, trainer), "computes": partial(compute, trainer, matrix=matrix, products=products)}
    for kind, step in kinds.items():
        for workers in (0, 1, 2, 4):
            trainer.options = StepOptions(data_workers=workers)
            with trainer.batches(numbers) as batches:
                loop = time_loop(batches, lambda b, step=step: step(batch=b), steps, 3 + BATCHES_PER_WORKER * workers)
            print(f"host {kind}, {workers} workers: {loop.step_ms:.1f} ms a turn, {loop.data_wait_share:.2%} waited")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:] or ("256", "30")))
