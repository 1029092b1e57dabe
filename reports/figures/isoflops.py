"""IsoFLOP curves: the loss of each arm over the size of its network, a panel for each budget."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from tread_bench.reports.claims.isoflops import IsoFlop
from tread_bench.reports.figures.drawing import estimated, grid
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import MUTED, SURFACE, clean, looks
from tread_bench.reports.rows.row import by_key
from tread_bench.reports.text.numbers import decimals, millions


def isoflop_curves(found: Sequence[IsoFlop]) -> Picture | None:
    """Draw validation loss over parameters, a line per arm, at each number of tokens and budget."""
    if not found:
        return None
    places = decimals(size.loss.mean for one in found for size in one.sizes)
    numbers = [
        {
            "arm": one.arm,
            "tokens": str(one.tokens),
            "training MACs": f"{one.macs:.3g}",
            "parameters": millions(size.parameters),
            **estimated("validation loss", size.loss, places),
        }
        for one in found
        for size in one.sizes
    ]
    return picture_of("isoflops", _figure(found), numbers, found=found)


def _figure(found: Sequence[IsoFlop]) -> Figure:
    panels = by_key(found, lambda one: (one.tokens, one.length))
    is_dense = {one.arm: one.is_dense for one in found}
    look_of = dict(zip(is_dense, looks(is_dense.values()), strict=True))
    figure, made = grid(len(panels), 2.9, sharex=True)
    for axes, ((tokens, _), curves) in zip(made, panels.items(), strict=True):
        for one in curves:
            colour, marker = look_of[one.arm]
            x = [size.parameters for size in one.sizes]
            axes.plot(x, [size.loss.mean for size in one.sizes], color=colour, linewidth=1.3, marker=marker,
                      markeredgecolor=SURFACE, label=clean(one.arm))  # fmt: skip
            for size in one.sizes:
                if size.loss.bounds:
                    axes.plot([size.parameters] * 2, size.loss.bounds, color=colour, linewidth=1.6)
        axes.set_title(f"{tokens} tokens, {curves[0].macs:.2g} training MACs")
        axes.set_xscale("log")
        sizes = [size.parameters for size in curves[0].sizes]
        axes.set_xticks(sizes, [millions(size) for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("parameters", color=MUTED)
    made[0].set_ylabel("validation loss (lower is better)", color=MUTED)
    made[0].legend(loc="best", fontsize=8)
    return figure
