"""Synthetic records with known figures."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tread_bench.core.config.training import RoutingSchedule
from tread_bench.core.describe.routes import parse_routes, resolve_routes, tokens_per_block
from tread_bench.core.numbers.schedule import summed_share
from tread_bench.core.numbers.statistics import paired_ratio
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.records import (
    CostFigures,
    Evaluation,
    GradientNorms,
    Record,
    Similarity,
    TimingFigures,
)
from tread_bench.measure.quality.png import grid_png
from tread_bench.reports.comparison import TableView, comparison_view
from tread_bench.reports.decision import Decision
from tread_bench.reports.figures import pictures as figures
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.page import run as page
from tread_bench.reports.row import Row
from tread_bench.reports.study import Study

BLOCKS, TOKENS = 12, 16
# row -> (routes, mean FID at the end, speed-up)
STUDY = {
    "dense": ("", 16.9, 1.0),
    "2:8": ("2:8@0.5", 18.6, 1.19),
    "1:8": ("1:8@0.5", 18.9, 1.22),
    "4:8": ("4:8@0.5", 17.2, 1.12),
    "0:8": ("0:8@0.5", 27.3, 1.25),
    "2:10": ("2:10@0.5", 21.4, 1.27),
    "0:10": ("0:10@0.5", 31.1, 1.36),
}
NUMERICS = {
    "device": "cpu", "threads": 1, "matmul_precision": "highest", "matmul_relative_error": 3.2e-7, "autocast": "none",
    "kernels": {"attention": "torch", "scan": "torch"},
}  # fmt: skip
VERSIONS = {"python": "3.11.9", "tread-bench": "0.1.0", "torch": "2.15.0"}
NOTHING_MEASURED: dict[str, Any] = {"evaluations": [], "timing": None, "similarity": None, "gradient_norms": None}
DRAWN = ("route_placement", "gain", "fid_cost", "speedup", "similarity", "gradients")  # of a run of routes
HOSTILE = '<script>alert(1)</script> & "quoted" $\\foo$ =1+1'


def render(
    records: Sequence[Record],
    plan: Mapping[str, Any],
    folder: Path,
    unreadable: Mapping[str, str] | None = None,
    *,
    pictures: Callable[..., list[Picture]] = lambda *_: [],
) -> str:
    """The page of a run whose plan.json has these parts, as text; its folder has the rest of the report.

    Pictures take seconds: who looks at them draws.
    """
    parts: dict[str, Any] = {
        "suite": {"name": "study"},
        "timing": {},
        "cells": [],
        "started": "2026-01-15T12:00:00+00:00",
        "numerics": {"device": "cpu", "threads": 1},
        "versions": {},
        **plan,
    }
    named = {
        "references": dict.fromkeys(parts["cells"], ""),
        "rows": dict.fromkeys(parts["cells"], ("dense", 0)),
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(page, "pictures", pictures)
        page.render(records, RunPlan.model_validate({**named, **parts}), folder, unreadable)
    return (folder / "index.html").read_text(encoding="utf-8")


def decided(records: Sequence[Record], is_smoke: bool = False) -> list[tuple[list[Row], Decision]]:
    """The decisions of a run of these records."""
    return Study(records, is_smoke).decisions


def view_of(records: Sequence[Record]) -> TableView:
    """The table of the comparison of these records."""
    return comparison_view(Study(records).rows)


def pictures_of(records: Sequence[Record], is_smoke: bool = False) -> dict[str, Picture]:
    """All pictures of rows that stand side by side."""
    found = Study(records, is_smoke)
    drawn = figures.pictures(found.rows, found.frame)
    return {picture.name: picture for picture in drawn}


def cost(routes: str, blocks: int = BLOCKS, params: int = 887_000) -> CostFigures:
    tokens = tokens_per_block(resolve_routes(routes, blocks), blocks, TOKENS)
    block_macs = [50_000 * n for n in tokens]
    forward, dense = sum(block_macs) + 400_000, 50_000 * TOKENS * blocks + 400_000
    return CostFigures(
        params=params, trainable_params=params - 1000, tokens_per_block=tokens, dense_tokens=TOKENS,
        forward_macs=forward, dense_forward_macs=dense, attention_macs=90_000, scan_macs=0,
        train_step_macs=3 * forward, block_macs=block_macs,
    )  # fmt: skip


@cache
def timing(speedup: float, seed: int) -> TimingFigures:
    rng = random.Random(f"time {speedup} {seed}")
    dense = [60 * rng.lognormvariate(0, 0.02) for _ in range(20)]
    routed = [t / speedup * rng.lognormvariate(0, 0.02) for t in dense]
    ratio, low, high = paired_ratio(dense, routed)
    middle = sorted(routed)[10]
    return TimingFigures(
        step_time_ms=middle, step_time_low_ms=middle * 0.99, step_time_high_ms=middle * 1.01,
        images_per_s=64e3 / middle,
        speedup=ratio, speedup_low=low, speedup_high=high, step_times_ms=routed, reference_step_times_ms=dense,
        batch=64, warmup=3, peak_memory_mib=412.0 / speedup, memory_kind="resident set",
        host_share=0.2 * speedup,  # as long in all rows
    )  # fmt: skip


def evaluation(iteration: int, fid: float | None, protocol: str = "9f3c1a7be042") -> Evaluation:
    level = 1.0 if fid is None else fid
    return Evaluation(
        iteration=iteration, train_seconds=0.06 * iteration, validation_loss=0.3 + level / 400,
        validation_loss_per_time={"0.5": 0.3}, fid=fid, kid=None if fid is None else fid / 1500, inception_score=7.9,
        precision=0.71, recall=0.62, num_samples=512, protocol=protocol, samples=f"samples-{iteration}.png",
        protocol_details={"extractor": "digits-classifier", "num_samples": 512, "ema": True},
    )  # fmt: skip


def inside(routes: str, block: int) -> bool:
    return any(int(r.start) <= block <= int(r.end) for r in parse_routes(routes))


def similarity(routes: str, blocks: int = BLOCKS) -> Similarity:
    def cosine(i: int, j: int) -> float:
        both = inside(routes, i) and inside(routes, j)
        return 1.0 if i == j else (0.97 if both else 0.9) - 0.05 * abs(i - j) * (0.2 if both else 1.0) * 12 / blocks

    def across(i: int, a: int, b: int) -> float:
        return 1 - abs(a - b) * (0.02 if inside(routes, i) else 0.04 + 0.003 * i) * (1 + 0.5 * min(a, b))

    return Similarity(
        matrix=[[cosine(i, j) for j in range(blocks)] for i in range(blocks)],
        across_times=[[[across(i, a, b) for b in range(5)] for a in range(5)] for i in range(blocks)],
        times=[0.1, 0.3, 0.5, 0.7, 0.9],
        num_samples=64,
    )


def gradient_norms(routes: str, seed: int, blocks: int = BLOCKS) -> GradientNorms:
    """Routed, the blocks ahead of a route get half as much again and those inside it a quarter less."""
    rng = random.Random(f"gradient {routes} {seed}")
    dense = [0.4 * (1 - 0.5 * i / blocks) * rng.lognormvariate(0, 0.08) for i in range(blocks)]
    first = min((int(r.start) for r in parse_routes(routes)), default=0)
    factor = [1.5 if i < first else 0.75 if inside(routes, i) else 1.0 for i in range(blocks)]
    return GradientNorms(training=[f * d for f, d in zip(factor, dense, strict=True)], dense=dense, batches=8)


def record(row: str, routes: str, seed: int, fid: float | None, speedup: float = 1.2, **changes: Any) -> Record:
    """A finished cell of the digits study, with its figures drawn around `fid`."""
    rng = random.Random(f"fid {row} {seed}")
    shared = random.Random(f"seed {seed}").gauss(0, 1.2)  # what all rows of a seed have in common
    last = None if fid is None else fid + shared + rng.gauss(0, 0.5)
    middle = None if last is None else 2.9 * last + rng.gauss(0, 1)
    blocks = changes.get("num_blocks", BLOCKS)
    fields: dict[str, Any] = {
        "cell": f"{'dense' if not routes else 'tread'}-{row.replace(':', '-')}-{seed}", "suite": "route_placement",
        "row": row, "seed": seed, "status": "done",
        "config": {
            "backbone": {"name": "DiT", "depth": 12, "hidden": 64, "heads": 4, "patch": 2},
            "data": {"name": "digits"}, "training": {"iterations": 1200, "batch": 64},
            "sampling": {"sampler": "euler", "steps": 12, "guidance": {"name": "none"}, "guidance_scale": 1.0},
        },
        "backbone": "DiT (depth 12, hidden 64, heads 4, patch 2)", "family": "DiT",
        "method": "tread" if routes else "dense",
        "routes": routes, "selector": "random" if routes else "", "num_blocks": blocks,
        "reference": f"dense-dense-{seed}",
        "cost": cost(routes, blocks), "timing": timing(speedup, 0),
        "evaluations": [evaluation(400, middle), evaluation(1200, last)],
        "similarity": similarity(routes, blocks), "gradient_norms": gradient_norms(routes, seed, blocks),
        "train_loss": [(100, 0.9), (1200, 0.4)], "train_seconds": 72.0,
        "conditions": {**NUMERICS, "versions": VERSIONS},
    }  # fmt: skip
    return with_macs(Record(**{**fields, **changes}))


def asked(base: Record, **changes: Any) -> Record:
    """The record of a cell of whose configuration these parts are others."""
    return base.model_copy(update={"config": {**base.config, **changes}})


def with_macs(record: Record) -> Record:
    """The record with the MACs of training up to each evaluation, at a step's cost that changes in the dense part."""
    if record.cost is None or record.config.get("evaluate") or "training" not in record.config:
        return record
    batch, last = record.config["training"]["batch"], record.config["training"]["iterations"]
    schedule = RoutingSchedule.model_validate(record.config.get("schedule") or {})
    routed, whole = record.cost.train_step_macs, record.cost.mean_train_step_macs
    shares = summed_share(last, last, schedule)
    dearer = 0.0 if whole is None or shares == last else (whole - routed) * last / (last - shares)
    found = []
    for one in record.evaluations:
        without = one.iteration - summed_share(one.iteration, last, schedule)
        macs = round(batch * (one.iteration * routed + without * dearer))
        found.append(one.model_copy(update={"training_macs": macs}))
    return record.model_copy(update={"evaluations": found})


def failed(row: str, routes: str, seed: int, reason: str) -> Record:
    return record(row, routes, seed, None, status="failed", reason=reason, **NOTHING_MEASURED)


def study(seeds: int = 5) -> list[Record]:
    """Seven rows; with five seeds one cell has failed, for a hostile reason."""
    records = [record(row, routes, s, fid, v) for row, (routes, fid, v) in STUDY.items() for s in range(seeds)]
    return [failed("0:10", "0:10@0.5", 4, HOSTILE) if r.row == "0:10" and r.seed == 4 else r for r in records]


# family -> (backbone, blocks, parameters, dense FID, selector, routes, change of FID, speed-up)
FAMILIES = {
    "DiT": ("DiT (depth 12, hidden 64, heads 4, patch 2)", 12, 887_000, 16.9, "random", "2:8@0.5", 1.4, 1.19),
    "ZigMa": ("ZigMa (depth 12, hidden 68, patch 2)", 12, 915_000, 22.0, "rows", "2:8@0.5", 0.1, 1.05),
    "DRWKV": ("DRWKV (depth 12, hidden 60, patch 2)", 12, 868_000, 27.5, "blocks", "2:8@0.5", -0.2, 0.97),
}


def of_family(family: str, seed: int, selector: str = "", change: float = 0.0, **changes: Any) -> Record:
    """A cell of that family; without a selector its dense row."""
    backbone, blocks, params, dense, _, routes, gain, speedup = FAMILIES[family]
    routes, fid = (routes, dense + gain + change) if selector else ("", dense)
    row = f"tread-{selector} backbone={family}" if selector else f"dense backbone={family}"
    fields: dict[str, Any] = {
        "backbone": backbone, "family": family, "num_blocks": blocks, "selector": selector,
        "cell": f"{family.lower()}-{selector or 'dense'}-{seed}", "reference": f"{family.lower()}-dense-{seed}",
        "cost": cost(routes, blocks, params), "similarity": similarity(routes, blocks),
        "gradient_norms": gradient_norms(routes, seed, blocks),
    }  # fmt: skip
    return record(row, routes, seed, fid, speedup if selector else 1.0, **fields).model_copy(update=changes)


def architectures(seeds: int = 3) -> list[Record]:
    """Each family dense and routed with the selector that fits it."""
    fitting = {family: FAMILIES[family][4] for family in FAMILIES}
    return [of_family(f, s, chosen) for f in FAMILIES for chosen in ("", fitting[f]) for s in range(seeds)]


def write_samples(records: list[Record], run_dir: Path, side: int = 8) -> None:
    """A grid of 40 grey tiles of noise, as cells write it, for every evaluation."""
    for index, one in enumerate(records):
        write_grid(run_dir, one, grid_png(tiles(index, side)))


def write_grid(run_dir: Path, record: Record, content: bytes) -> None:
    """The same grid of samples for every evaluation of a record."""
    for one in record.evaluations:
        assert one.samples
        path = run_dir / "cells" / record.cell / one.samples
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def tiles(seed: int, side: int, channels: int = 1, count: int = 40) -> Tensor:
    """Images of noise, (count, channels, side, side) uint8."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, channels, side, side), generator=generator, dtype=torch.uint8)


def photographs(side: int) -> Tensor:
    """40 images, (40, 3, side, side) uint8, that compress as photographs do: smooth, with some noise."""
    smooth = F.interpolate(tiles(0, 16, 3).float(), size=(side, side), mode="bicubic")
    noise = 5 * torch.randn(smooth.shape, generator=torch.Generator().manual_seed(0))
    return (smooth + noise).clamp(0, 255).to(torch.uint8)
