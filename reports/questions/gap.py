"""The gap between training and inference: a trained network run with more and more of its tokens on the bypass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tread_bench.core.numbers.statistics import STRONG_EXCESS, WEAK_EXCESS, guidance_rates
from tread_bench.reports.rows.row import Row

if TYPE_CHECKING:
    from tread_bench.reports.figures.draw import Figure

EXCESS = "validation loss at γ minus at 0"
COSINE = "similarity of routed to dense outputs"


def lines_of(row: Row) -> list[dict[str, Any]]:
    """Return two lines for each seed and rate: the loss beyond dense, and the mean cosine over blocks.

    Rates that all finished seeds of the row were run at.
    """
    measured = [record for record in row.done if record.gap]
    by_seed = {record.seed: {at.rate: at for at in record.gap.rates} for record in measured if record.gap}
    shared = sorted(set.intersection(*map(set, by_seed.values()))) if by_seed else []
    name = f"{row.architecture} {row.short_label}".strip()
    lines = []
    for record in measured:
        at_rates = by_seed[record.seed]
        own = record.last.validation_loss if record.last else float("nan")
        dense = at_rates[0.0].validation_loss if 0.0 in at_rates else own
        for rate in shared:
            figures = at_rates[rate]
            about = {"row": row.label, "name": name, "is_dense": row.is_dense, "rate": rate}
            about |= {"loss": figures.validation_loss}
            lines.append({**about, "what": EXCESS, "value": figures.validation_loss - dense})
            lines.append({**about, "what": COSINE, "value": sum(figures.cosine) / len(figures.cosine)})
    return lines


def rates_of(row: Row) -> str:
    """Return the rates of Sparse Guidance that a row's losses give, in words."""
    losses: dict[float, list[float]] = {}
    for line in lines_of(row):
        losses.setdefault(line["rate"], []).append(line["loss"])
    rates = guidance_rates({rate: sum(found) / len(found) for rate, found in losses.items()})
    if rates is None:
        return "none, since the loss is still low at the largest rate measured"
    largest = "" if rates.is_clearly_weak else " (the largest measured)"
    return f"{rates.strong:g} and {rates.weak:g}{largest}"


def figure(rows: Sequence[Row]) -> Figure:
    """The loss beyond dense, and the similarity of routed and dense outputs, over the rate."""
    import pandas as pd

    from tread_bench.reports.figures.draw import Figure

    measured = [row for row in rows if lines_of(row)]
    said = "; ".join(f"{row.label}: {rates_of(row)}" for row in measured)
    lines = [line for what in (EXCESS, COSINE) for row in measured for line in lines_of(row) if line["what"] == what]
    return Figure(
        name="gap",
        title="Gap between training and inference",
        caption="The trained network run routed at rate γ, on the held-out images of the validation loss: loss at γ "
        "minus loss at 0, paired over seeds, and the cosine similarity of each block’s routed output to its dense one, "
        "mean over present tokens, images, times and blocks; 95 % t intervals over seeds. Sparse Guidance needs a "
        "strong branch that stays near 0 and a weak one that does not. By our reading its strong rate is the largest "
        f"whose mean loss is at most {100 * STRONG_EXCESS:g} % above the row’s smallest, its weak one the smallest "
        f"above that whose mean loss is at least {100 * WEAK_EXCESS:g} % above, else the largest measured. This gives, "
        f"strong and weak: {said}. Its authors use 0.5 and 0.9.",
        lines=pd.DataFrame(lines, columns=["row", "name", "is_dense", "rate", "loss", "what", "value"]),
        x="rate",
        y="value",
        panel="what",
        titles={"rate": "rate γ: share of tokens that bypasses", "value": "", "what": "figure"},
    )  # fmt: skip
