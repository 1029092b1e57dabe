"""How fast a training step is beside what its MACs promise."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tread_bench.reports import requested
from tread_bench.reports.figure import Figure
from tread_bench.reports.row import Row
from tread_bench.reports.text.numbers import number


def figure(rows: Sequence[Row]) -> Figure:
    """Achieved beside ideal speed-up, of rows that were timed in turn with one dense network."""
    # Rows that were timed in turn with a network of their own architecture.
    lines = []
    for row in rows:
        timed_with = next((one.reference_backbone for one in row.timings), "") or row.first.backbone
        if timed_with == row.group.backbone and row.ideal_speedup and row.speedup:
            about = (row.name, row.short_label, *row.speedup, row.ideal_speedup, row.dense_step_ms, row.step_ms)
            lines.append((*about, row.timing("data_wait_share")))
    columns = ["row", "name", "speedup", "low", "high", "ideal", "dense_ms", "step_ms", "wait"]

    # A bar each, where routes of one group are compared.
    has_routes = any(row.spans for row in rows) and len({row.group for row in rows}) == 1
    return Figure(
        name="speedup",
        highest_first=True,
        title="Achieved and ideal speed-up",
        caption="Training steps timed alone, in turn with the dense reference: the median ratio with its 95 % "
        "bootstrap interval. The tick is the ideal speed-up, the ratio of forward MACs. Dense against itself is the "
        "control and should be at 1.",
        lines=pd.DataFrame(lines if has_routes else [], columns=columns),
        x="speedup",
        y="name",
        low="low",
        high="high",
        ideal="ideal",
        still=1.0,
        extra={"dense_ms": "dense step ms", "step_ms": "step ms", "wait": "data wait share"},
        titles={"speedup": "speed-up of a training step", "ideal": "ideal"},
    )


def price_of(row: Row) -> str:
    """Return what a row costs or saves in a sentence: MACs, parameters and the time of a training step.

    For a row that only evaluates, it is what a sample costs.
    """
    # A row that only evaluates.
    if requested.is_evaluated_only(row.first):
        macs = row.sampling_macs
        cost = f": one image costs {macs / 1e9:.3g} GMACs to sample, over all steps" if macs else ""
        return f"{row.short_label} only evaluates{cost}."

    # MACs and parameters.
    forward, dense, name = row.cost("forward_macs"), row.cost("dense_forward_macs"), row.short_label
    if not forward or not dense:
        said = f"The MACs of {name} were not counted"
    elif forward == dense:
        said = f"{name} costs as many forward MACs as dense"
    else:
        change = f"{'saves' if forward < dense else 'adds'} {abs(1 - forward / dense) * 100:.0f} %"
        step = " of a routed step" if row.has_dense_part else ""
        gmacs = f"{forward / 1e9:.3g} instead of {dense / 1e9:.3g} GMACs per image"
        said = f"{name} {change} of the forward MACs{step} ({gmacs})"
    if row.extra_params:
        said += f" and adds {row.extra_params:,.0f} parameters in training"

    # Time, and how much of it the host takes.
    said += f", and {_in_words(row)}."
    host = max((timing.host_share or 0.0 for timing in row.timings), default=0.0)
    if host > 1 / 3:
        said += f" For {100 * host:.0f} % of it the device waits for the host: it says nothing about larger batches."
    return said


def _in_words(row: Row) -> str:
    """How fast its training step is, as the end of a sentence."""
    step = "routed training step" if row.has_dense_part else "training step"
    if row.speedup is None:
        return "its speed was not measured"
    ratio, low, high = row.speedup
    evidence = f"95 % interval {number(low)} to {number(high)}; {number(row.ideal_speedup)} by MACs"
    if low <= 1 <= high:
        return f"its {step} is not distinguishable from dense in speed: {number(ratio)} times as fast ({evidence})"
    way = "faster" if low > 1 else "slower"
    return f"its {step} is {way} than the dense one: measured {number(ratio)} times as fast ({evidence})"
