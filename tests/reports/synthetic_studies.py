"""Synthetic records of the studies beyond placement, with known figures, named and asked for as suites do."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from synthetic_budgets import equal_cost
from synthetic_records import (
    NOTHING_MEASURED,
    asked,
    cost,
    evaluation,
    gradient_norms,
    pictures_of,
    record,
    similarity,
    timing,
)

from tread_bench.core.stored.records import Record, RoutedFigures, RoutedGap
from tread_bench.reports.figures.picture import Picture

GAMMAS = tuple(k / 10 for k in range(10))


def rates(seeds: int = 5, rates: tuple[float, ...] = (0.25, 0.5, 0.75)) -> list[Record]:
    """One route at several rates, and dense."""
    fids = {0.25: 16.1, 0.5: 17.0, 0.75: 22.4}
    routed = [record(f"tread-{r}", f"2:8@{r:g}", s, fids[r], 1 + r / 2) for r in rates for s in range(seeds)]
    return [record("dense", "", s, 16.9, 1.0) for s in range(seeds)] + routed


def depths(seeds: int = 3) -> list[Record]:
    """The absolute and the relative rule at three depths, of which the second means one route by both."""
    figures = {
        6: {"dense": ("", 21.0), "absolute": ("2:2@0.5", 22.5), "relative": ("1:4@0.5", 23.0)},
        12: {"dense": ("", 16.9), "absolute-relative": ("2:8@0.5", 17.3)},
        18: {"dense": ("", 15.0), "absolute": ("2:14@0.5", 12.5), "relative": ("3:12@0.5", 16.0)},
    }
    return [
        _of_depth(depth, f"{name}-{depth}", routes, seed, fid)
        for depth, rows in figures.items() for name, (routes, fid) in rows.items() for seed in range(seeds)
    ]  # fmt: skip


def _of_depth(depth: int, row: str, routes: str, seed: int, fid: float) -> Record:
    return record(
        row, routes, seed, fid, 1.15 if routes else 1.0, backbone=f"DiT (depth {depth}, hidden 64, heads 4, patch 2)",
        num_blocks=depth, cell=f"{row}-{seed}", reference=f"dense-{depth}-{seed}",
        cost=cost(routes, depth, 74_000 * depth), similarity=similarity(routes, depth),
        gradient_norms=gradient_norms(routes, seed, depth),
    )  # fmt: skip


# row -> (method, routes, auxiliary, schedule, FID, parameters of method and losses, train MACs over TREAD's, speed-up)
METHODS: dict[str, tuple[str, str, list[dict[str, Any]], dict[str, Any], float, int, int, float, float]] = {
    "dense": ("dense", "", [], {}, 16.9, 0, 0, 1.0, 1.0),
    "repa": ("dense", "", [{"name": "repa"}], {}, 15.2, 0, 140_000, 1.05, 0.93),
    "tread": ("tread", "2:8@0.5", [], {}, 17.1, 0, 0, 1.0, 1.19),
    "tread+repa": ("tread", "2:8@0.5", [{"name": "repa"}], {}, 15.9, 0, 140_000, 1.05, 1.11),
    "drop": ("drop", "2:8@0.5", [], {}, 19.9, 64, 0, 1.0, 1.2),
    "sprint": ("sprint", "2:9@0.75", [], {"until": 0.8}, 18.2, 8_300, 0, 0.9, 1.34),
}


def methods(seeds: int = 5) -> list[Record]:
    """Everything that TREAD is compared with, on one backbone."""
    return [_of_method(row, s) for row in METHODS for s in range(seeds)]


def _of_method(row: str, seed: int) -> Record:
    method, routes, auxiliary, schedule, fid, own, losses, times, speed = METHODS[row]
    priced = cost(routes)
    priced = priced.model_copy(
        update={
            "params": priced.params + own, "method_params": own, "auxiliary_params": losses,
            "mean_train_step_macs": round(times * priced.train_step_macs), "evaluated_forward_macs": 10_000_000,
        }
    )  # fmt: skip
    made = record(row, routes, seed, fid, speed, method=method, cost=priced, cell=f"{row}-{seed}",
                  reference=f"dense-{seed}", timing=timing(speed, len(row)))  # fmt: skip
    return asked(made, method={"name": method}, auxiliary=auxiliary, schedule=schedule)


def finetune(seeds: int = 5) -> list[Record]:
    """Dense, routed throughout, and with dense parts at the end; figures at five iterations."""
    rows = {
        "dense": ("", {}, (60.0, 33.0, 24.0, 19.5, 16.9)),
        "tread": ("2:8@0.5", {}, (66.0, 36.0, 26.0, 21.0, 18.6)),
        "tread-dense-end": ("2:8@0.5", {"until": 0.8, "dense_learning_rate": 1e-4}, (66.0, 36.0, 26.0, 20.8, 15.1)),
        "dense-low-rate": ("", {"until": 0.75, "dense_learning_rate": 2e-4}, (60.0, 33.0, 24.0, 18.8, 16.4)),
    }
    return [_of_schedule(row, *settings, s) for row, settings in rows.items() for s in range(seeds)]


def _of_schedule(row: str, routes: str, schedule: dict[str, Any], fids: tuple[float, ...], seed: int) -> Record:
    noise = random.Random(f"{row} {seed}")
    shared = random.Random(f"seed {seed}").gauss(0, 0.8)
    found = [evaluation(240 * (k + 1), fid + shared + noise.gauss(0, 0.3)) for k, fid in enumerate(fids)]
    priced, dense = cost(routes), 3 * cost("").forward_macs
    until = schedule.get("until", 1.0)
    until = until if routes else 1.0
    mean = round(until * priced.train_step_macs + (1 - until) * dense)
    priced = priced.model_copy(update={"mean_train_step_macs": mean})
    made = record(row, routes, seed, 17.0, evaluations=found, cost=priced, cell=f"{row}-{seed}",
                  reference=f"dense-{seed}")  # fmt: skip
    return asked(made, schedule=schedule)


# rule -> (settings, FID at its best scale, best scale, steepness, MACs over those of no guidance)
RULES: dict[str, tuple[dict[str, Any], float, float, float, float]] = {
    "cfg": ({"name": "cfg", "interval": None}, 13.0, 1.5, 14.0, 2.0),
    "interval": ({"name": "cfg", "interval": [0.1, 0.8]}, 12.6, 1.8, 8.0, 1.7),
    "sparse": ({"name": "sparse", "strong": 0.5, "weak": 0.9, "blocks": "2:8", "decay": "none", "label_weak": True,
                "snapshot": None, "interval": None}, 11.4, 1.5, 10.0, 1.2),
    "autoguidance": ({"name": "autoguidance", "snapshot": 300, "row": None}, 12.2, 1.7, 6.0, 2.0),
    "autoguidance-small": ({"name": "autoguidance", "snapshot": 1200, "row": "small"}, 12.4, 1.7, 6.0, 1.5),
}  # fmt: skip
SCALES = (1.2, 1.5, 1.8, 2.2)


def guidance(seeds: int = 4) -> list[Record]:
    """Two checkpoints, each under every rule at four scales and path-drop at one; the trained rows are unguided.

    A third, smaller one is a weak model alone.
    """
    trained = {"dense": ("", 16.9), "tread": ("2:8@0.5", 18.0)}
    found = [record(row, routes, s, fid, 1.1, cell=f"{row}-{s}", reference=f"dense-{s}", sampling_macs=600_000_000)
             for row, (routes, fid) in trained.items() for s in range(seeds)]  # fmt: skip
    for source, (routes, fid) in trained.items():
        found += [_guided(source, "none", {"name": "none"}, 1.0, fid, routes, s, 1.0) for s in range(seeds)]
        for rule, (settings, best, at, steep, times) in RULES.items():
            found += [
                _guided(source, rule, settings, scale, best + fid - 16.9 + steep * (scale - at) ** 2, routes, s, times)
                for scale in SCALES for s in range(seeds)
            ]  # fmt: skip
        settings = {"name": "path_drop", "blocks": "2:8", "label_weak": False}
        found += [_guided(source, "path-drop", settings, 1.5, fid - 3, routes, s, 1.5) for s in range(seeds)]
    small = {"backbone": "DiT (depth 6, hidden 64, heads 4, patch 2)", "num_blocks": 6}
    found += [record("small", "", s, 22.0, cell=f"small-{s}", reference=f"small-{s}", **small) for s in range(seeds)]
    return found


def _guided(
    source: str, rule: str, settings: dict[str, Any], scale: float, fid: float, routes: str, seed: int, times: float
) -> Record:
    row = f"{source}-{rule}-{scale:g}"
    judged = evaluation(1200, fid + random.Random(f"{row} {seed}").gauss(0, 0.4))
    changes = {**NOTHING_MEASURED, "evaluations": [judged]}
    made = record(row, routes, seed, fid, cell=f"{row}-{seed}", reference=f"{source}-none-1-{seed}",
                  sampling_macs=round(600_000_000 * times), **changes)  # fmt: skip
    sampling = {**made.config["sampling"], "guidance": settings, "guidance_scale": scale}
    without_training = [one.model_copy(update={"training_macs": None}) for one in made.evaluations]
    made = made.model_copy(update={"evaluations": without_training})
    return asked(made, sampling=sampling, evaluate={"row": source, "iteration": 1200, "run": None})


def gaps(seeds: int = 4) -> list[Record]:
    """Dense, one route and a longer one at γ = 0, 0.1 .. 0.9: loss 0.3 + strength γ², similarity 1 - strength γ."""
    rows = {"dense": ("", 0.8, 16.9), "tread-2:8": ("2:8@0.5", 0.1, 17.4), "tread-0:10": ("0:10@0.5", 0.3, 24.0)}
    return [
        record(row, routes, s, fid, gap=_gap(strength, s), cell=f"{row}-{s}", reference=f"dense-{s}")
        for row, (routes, strength, fid) in rows.items() for s in range(seeds)
    ]  # fmt: skip


def _gap(strength: float, seed: int) -> RoutedGap:
    factor = 1 + 0.05 * seed
    figures = [
        RoutedFigures(
            rate=rate, validation_loss=0.3 + 0.002 * seed + factor * strength * rate**2,
            validation_loss_per_time={"0.5": 0.3},
        )
        for rate in GAMMAS
    ]  # fmt: skip
    return RoutedGap(blocks="2:8", selector="random", rates=figures, num_samples=256)


STUDIES = {
    "selection_rate": rates,
    "location_scaling": depths,
    "finetune": finetune,
    "equal_cost": equal_cost,
    "guidance": guidance,
    "methods": methods,
    "train_inference_gap": gaps,
}


@cache
def drawn(name: str) -> dict[str, Picture]:
    """All pictures of a study."""
    return pictures_of(STUDIES[name]())
