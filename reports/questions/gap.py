"""The gap between training and inference: a trained network run with more and more of its tokens on the bypass."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from tread_bench.reports.figure import Figure
from tread_bench.reports.row import Row

EXCESS = "validation loss at γ minus at 0"


def figure(rows: Sequence[Row]) -> Figure:
    """The loss beyond dense over the rate.

    Rates that all finished seeds of a row were run at.
    """
    losses: list[tuple[object, ...]] = []
    for row in rows:
        measured = [(record, record.gap) for record in row.done if record.gap]
        of_rates = [{at.rate: at for at in gap.rates} for _, gap in measured]
        for (record, _), at_rates in zip(measured, of_rates, strict=True):
            dense = record.last.validation_loss if record.last else math.nan
            if 0.0 in at_rates:
                dense = at_rates[0.0].validation_loss
            for rate in sorted(set.intersection(*map(set, of_rates))):
                excess = at_rates[rate].validation_loss - dense
                losses.append((row.name, row.full_label, row.is_dense, rate, excess))
    return Figure(
        name="gap",
        title="Gap between training and inference",
        caption="The trained network run routed at rate γ, on the held-out images of the validation loss: loss at γ "
        "minus loss at 0, paired over seeds; 95 % t intervals over seeds. Sparse Guidance needs a strong branch that "
        "stays near 0 and a weak one that does not: its authors use 0.5 and 0.9.",
        lines=pd.DataFrame(losses, columns=["row", "name", "is_dense", "rate", "excess"]),
        x="rate",
        y="excess",
        titles={"rate": "rate γ: share of tokens that bypasses", "excess": EXCESS},
    )  # fmt: skip
