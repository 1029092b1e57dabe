"""A map of compute and tokens: how much more compute the dense network needs than a route."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.core.config.hypothesis import SAME_BUDGET
from tread_bench.core.numbers.onset import Ratio
from tread_bench.reports.claims.onset import Panel
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import DIVERGING, MUTED
from tread_bench.reports.text.numbers import DASH
from tread_bench.reports.text.sentences import say

_WIDEST = math.log(2)  # log ratio of the strongest colours


def onset_map(found: Sequence[Panel]) -> Picture | None:
    """Draw C_dense / C_routed at equal loss and at equal FID over training MACs, a line for each panel."""
    if not found:
        return None
    figure = Figure(figsize=(9.6, 1.6 + 0.8 * len(found)), layout="constrained")
    at_loss, at_fid = figure.subplots(1, 2, sharex=True, sharey=True)
    _panel(at_loss, found, [[ratios[0] for ratios in panel.loss] for panel in found])
    _panel(at_fid, found, [[ratios[0] for ratios in panel.fid] for panel in found])
    at_loss.set_title("at equal validation loss (decides)")
    at_fid.set_title("at equal FID")
    return picture_of("onset", figure, _numbers(found), found=found)


def _panel(axes: Axes, found: Sequence[Panel], ratios: Sequence[Sequence[Ratio]]) -> None:
    for height, (panel, line) in enumerate(zip(found, ratios, strict=True)):
        for macs, ratio in zip(panel.macs, line, strict=False):
            estimate = ratio.estimate
            shade = 0.5 if estimate is None else 0.5 - math.log(estimate.mean) / (2 * _WIDEST)
            axes.scatter([macs], [height], s=160, marker="s", color=[DIVERGING(min(max(shade, 0.0), 1.0))])
            text = say("onset", "ratio_of", ratio=ratio)
            axes.annotate(text, (macs, height), (0, -14), textcoords="offset points", ha="center", va="top", fontsize=7)
    axes.set_xscale("log")
    ticks: list[float] = []
    for macs in sorted(macs for panel in found for macs in panel.macs):
        if not ticks or macs > SAME_BUDGET * ticks[-1]:
            ticks.append(macs)
    axes.set_xticks(ticks, [f"{macs:.3g}" for macs in ticks])
    axes.minorticks_off()
    axes.margins(x=0.25)
    axes.set_ylim(-0.7, len(found) - 0.5)
    axes.set_yticks(range(len(found)), [f"{panel.tokens} tokens\n{panel.route}" for panel in found])
    axes.set_xlabel("training MACs", color=MUTED)


def _numbers(found: Sequence[Panel]) -> list[dict[str, str]]:
    lines = []
    for panel in found:
        for place, macs in enumerate(panel.macs):
            fid = say("onset", "ratio_of", ratio=panel.fid[place][0]) if panel.fid else DASH
            lines.append(
                {
                    "tokens": str(panel.tokens),
                    "route": panel.route,
                    "training MACs": f"{macs:.3g}",
                    "at equal loss [95 %]": say("onset", "ratio_of", ratio=panel.loss[place][0]),
                    "at equal FID [95 %]": fid,
                }
            )
    return lines
