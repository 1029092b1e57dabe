"""Rows whose figures at equal cost can be worked out by hand: FIDs by iteration, which each seed shifts."""

from __future__ import annotations

from synthetic_records import cost, evaluation, record, with_macs

from tread_bench.core.stored.records import EqualTime

ROUTE = "2:8@0.5"
DENSE_STEP, ROUTED_STEP = cost("").train_step_macs, cost(ROUTE).train_step_macs
DENSE_END = 1200
ROUTED_END = round(DENSE_END * DENSE_STEP / ROUTED_STEP)  # nearest to the MACs of the dense row
SMALL_END = round(DENSE_END * DENSE_STEP / cost("", 6).train_step_macs)
SHIFTS = (0.0, 0.4, -0.3, 0.2, -0.1)  # what the rows of a seed share
NOISE = (0.1, -0.2, 0.0, 0.15, -0.05)
EIGHT = tuple(range(150, 1201, 150))
SIX_BLOCKS = {
    "backbone": "DiT (depth 6, hidden 64, heads 4, patch 2)",
    "reference": "",
    "num_blocks": 6,
    "cost": cost("", 6),
    "similarity": None,
    "gradient_norms": None,
}


def law(iteration, factor=1.0):
    return 20.0 * factor * (iteration / DENSE_END) ** -0.7


def cell(row, seed, fids, routes="", macs_of="", group=0, schedule=None, training=None, **changes):
    """A finished cell with these FIDs by iteration, the last of which is its end; `training` has further settings."""
    training = {"iterations": max(fids), "batch": 64} | (training or {})
    if macs_of:
        training["budget"] = {"macs_of": macs_of}
    config = {"data": {"name": "digits"}, "training": training, "sampling": {"guidance": {"name": "none"}}}
    config |= {"seed_group": group, "schedule": schedule or {}}
    made = record(row, routes, seed + 1000 * group, 0.0, evaluations=[evaluation(i, fid) for i, fid in fids.items()])
    return with_macs(made.model_copy(update={"config": config, "reference": f"dense-dense-{seed}", **changes}))


def of_seeds(row, fids, **options):
    """Five cells: `fids` holds the FID by iteration, to which each seed adds the same at all iterations."""
    noise = options.pop("noise", (0.0,) * 5)
    return [
        cell(row, seed, {i: fid + SHIFTS[seed] + noise[seed] for i, fid in fids.items()}, **options)
        for seed in range(5)
    ]


def dense(fids=None, **changes):
    return of_seeds("dense", fids or {DENSE_END: 20.0}, **changes)


def dense_curve(**changes):
    return dense({i: law(i) for i in EIGHT}, **changes)


def smaller(at_end, at_iterations=24.0, **changes):
    """A network of six blocks, trained to the MACs of dense."""
    fids = {DENSE_END: at_iterations, SMALL_END: at_end}
    return of_seeds("smaller", fids, macs_of="dense", **SIX_BLOCKS | changes)


def routed(factor=1.0, **changes):
    """A route without a budget, whose curve is `factor` times that of dense."""
    return of_seeds("route", {i: law(i, factor) for i in EIGHT}, routes=ROUTE, **changes)


def budget_row(at_end=18.0, at_iterations=23.0, **options):
    fids = {DENSE_END: at_iterations, ROUTED_END: at_end}
    return of_seeds("route", fids, routes=ROUTE, macs_of="dense", noise=NOISE, **options)


def to_budget(**changes):
    """A route with a budget, on the curve of dense."""
    return of_seeds("route", {i: law(i) for i in (*EIGHT, ROUTED_END)}, routes=ROUTE, macs_of="dense", **changes)


def at_equal_time(record, iteration, fid, share=0.05):
    """The record, evaluated where an interval of the speed-up of this share leaves equal time."""
    ends = {"low": (1 - share) * iteration, "high": (1 + share) * iteration}
    planned = EqualTime(iteration=iteration, **ends)
    return record.model_copy(update={"equal_time": planned, "at_equal_time": evaluation(iteration, fid)})


def equal_cost():
    """Placements and controls, each trained to the MACs of the dense row."""
    records = [*dense_curve(), *smaller(19.1), *of_seeds("dense-again", {DENSE_END: 20.1}, group=1, noise=NOISE[::-1])]
    for row, routes, method, factor in (
        ("2:8", ROUTE, "tread", 0.91),
        ("0:8", "0:8@0.5", "tread", 1.35),
        ("layer-skip", ROUTE, "layer_skip", 1.2),
    ):
        fids = {i: law(i, factor) for i in (*EIGHT, ROUTED_END)}
        cells = of_seeds(row, fids, routes=routes, method=method, macs_of="dense", noise=NOISE, cost=cost(ROUTE))
        records += [at_equal_time(one, 1300, law(1300, factor)) for one in cells]
    return records
