"""The compute ratios behind the onset of routing, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from tread_bench.core.numbers.onset import Ratio
from tread_bench.reports.claims.onset import Panel
from tread_bench.reports.tables.tables import Entry, Table, estimate_entry
from tread_bench.reports.text.numbers import DASH


def onset_table(found: Sequence[Panel]) -> Table:
    """Return the ratios of loss, which decide, and of FID, by number of tokens, length and reference."""
    # A line for each reference at each length of each panel.
    lines = []
    for panel in found:
        for place, macs in enumerate(panel.macs):
            for k, name in enumerate(panel.references):
                own, of_all = panel.loss[place][k].p_value, panel.found.p_values[place]
                lines.append(
                    [
                        Entry(f"{panel.tokens} tokens, {panel.route}"),
                        Entry(f"{macs:.3g}", key=macs),
                        Entry(name),
                        _entry(panel.loss[place][k]),
                        _entry(panel.fid[place][k]) if panel.fid else Entry(DASH),
                        *(Entry(f"{p:.3f}", key=p) if p is not None else Entry(DASH) for p in (own, of_all)),
                    ]
                )

    # As one table.
    headers = (
        "route",
        "training MACs",
        "reference",
        "ratio at equal loss",
        "ratio at equal FID",
        "p that the route is no cheaper",
        "p for all references and longer",
    )
    return Table("onset-ratios", "Compute of a reference over a route's", headers, lines)


def _entry(ratio: Ratio) -> Entry:
    estimate = ratio.estimate
    if estimate is None:
        return Entry(DASH)
    if ratio.is_least or ratio.is_most:
        return Entry(f"{estimate.mean:.3g}", "or more" if ratio.is_least else "or less", estimate.mean)
    return estimate_entry(estimate, 2)
