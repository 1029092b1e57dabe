"""The gap between training and inference: a trained network run with more and more of its tokens on the bypass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean as mean

import pandas as pd

from tread_bench.reports.figure import Figure
from tread_bench.reports.row import Row

EXCESS = "validation loss at γ minus at 0"
COSINE = "similarity of routed to dense outputs"


def figure(rows: Sequence[Row]) -> Figure:
    """The loss beyond dense, and the mean cosine over blocks of routed and dense outputs, over the rate.

    Rates that all finished seeds of a row were run at.
    """
    losses: list[tuple[object, ...]] = []
    cosines: list[tuple[object, ...]] = []
    for row in rows:
        measured = [(record, record.gap) for record in row.done if record.gap]
        of_rates = [{at.rate: at for at in gap.rates} for _, gap in measured]
        for (record, _), at_rates in zip(measured, of_rates, strict=True):
            dense = record.last.validation_loss if record.last else math.nan
            if 0.0 in at_rates:
                dense = at_rates[0.0].validation_loss
            for rate in sorted(set.intersection(*map(set, of_rates))):
                at, about = at_rates[rate], (row.name, row.full_label, row.is_dense, rate)
                losses.append((*about, EXCESS, at.validation_loss - dense))
                cosines.append((*about, COSINE, mean(at.cosine)))
    return Figure(
        name="gap",
        title="Gap between training and inference",
        caption="The trained network run routed at rate γ, on the held-out images of the validation loss: loss at γ "
        "minus loss at 0, paired over seeds, and the cosine similarity of each block’s routed output to its dense one, "
        "mean over present tokens, images, times and blocks; 95 % t intervals over seeds. Sparse Guidance needs a "
        "strong branch that stays near 0 and a weak one that does not: its authors use 0.5 and 0.9.",
        lines=pd.DataFrame([*losses, *cosines], columns=["row", "name", "is_dense", "rate", "what", "value"]),
        x="rate",
        y="value",
        panel="what",
        titles={"rate": "rate γ: share of tokens that bypasses", "value": "", "what": "figure"},
    )  # fmt: skip
