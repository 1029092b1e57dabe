"""How much gradient each block gets, with and without the route: routing as deep supervision."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tread_bench.reports.figure import Figure
from tread_bench.reports.questions.similarity import MOST
from tread_bench.reports.row import Row, chosen


def figure(rows: Sequence[Row]) -> Figure:
    """Gradient norm per block under the row's own training loss, and under the dense loss of the same weights."""
    drawn, _ = chosen([row for row in rows if any(record.gradient_norms for record in row.done)], MOST)
    lines = []
    for row in drawn:
        panel = row.full_label
        for record in row.done:
            norms = record.gradient_norms
            for block, dense in enumerate(norms.dense if norms else ()):
                on_route = "yes" if any(first <= block <= last for first, last in row.spans) else ""
                lines.append((row.name, panel, block, "dense loss", dense, on_route))
                if row.spans and norms:
                    lines.append((row.name, panel, block, "training loss", norms.training[block], on_route))
    return Figure(
        name="gradients",
        title="Gradient per block",
        caption="Norm of the loss gradient over the parameters of each block after the last step, mean over batches "
        "and seeds with 95 % t intervals over seeds: of the row’s own training loss, routed, and of the same weights’ "
        "loss without the route. TREAD argues that a route brings the gradient of the loss nearer to the blocks before "
        "it: there the training loss should have the larger one.",
        lines=pd.DataFrame(lines, columns=["row", "panel", "block", "loss", "norm", "on_route"]),
        x="block",
        y="norm",
        hue="loss",
        panel="panel",
        extra={"on_route": "on a route"},
        titles={"norm": "gradient norm", "panel": "of"},
    )  # fmt: skip
