"""The figures of a run: which lines of the frame or of the differences, over what, told apart by what.

`draw.draw` makes each; the placement of routes and the maps of similarity are drawn in `placement` and `similarity`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from tread_bench.core.config.choices import UNGUIDED
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR
from tread_bench.reports import requested
from tread_bench.reports.differences import ITERATIONS, MACS, ROW, TIME
from tread_bench.reports.figure import Figure
from tread_bench.reports.figures.draw import draw
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.figures.placement import route_placement
from tread_bench.reports.figures.style import theme
from tread_bench.reports.questions import break_even, depths, gap, gradients, guidance, similarity, speed, tuning
from tread_bench.reports.row import Row
from tread_bench.reports.text.numbers import scaled_macs


def pictures(rows: Sequence[Row], frame: pd.DataFrame, suffix: str = "") -> list[Picture]:
    """Return every picture that rows which stand side by side allow; the first answers the question of their run.

    Args:
        frame: of the run, as `frame.results_frame` makes it.
        suffix: keeps the names of several calls apart.
    """
    # Of speed alone, two; else those that the rows have figures for, in the order of the page.
    with theme():
        if break_even.is_about_speed(rows):
            found: list[Picture | None] = [draw(break_even.figure(rows)), draw(speed.figure(rows))]
        else:
            trained = [row for row in rows if not requested.is_evaluated_only(row.first)]
            lines = labelled(rows, frame)
            found = [
                draw(guidance.figure(rows)),
                draw(depths.figure(rows)),
                draw(rates(lines)),
                route_placement(rows),
                draw(gain(rows)),
                draw(gap.figure(rows)),
                draw(tuning.figure(rows)),
                draw(fid_over_cost(lines)),
                draw(speed.figure(rows)),
                similarity.similarities(trained),
                draw(gradients.figure(trained)),
            ]
    return [replace(picture, name=f"{picture.name}{suffix}") for picture in found if picture]


def labelled(rows: Sequence[Row], frame: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of finished cells of these rows, each with what its row is called: `name` beside others of its
    `architecture`, else the label `row`.
    """
    names = pd.DataFrame(
        [(*row.key, row.short_label, row.architecture, row.is_dense, row.reference_name) for row in rows],
        columns=[*ROW, "name", "architecture", "is_dense", "reference_name"],
    )
    done = frame[frame.status == "done"]
    protocols = done.protocol.astype(object).where(done.protocol.notna(), "")
    return done.assign(protocol=protocols).merge(names.drop_duplicates(ROW), on=ROW)


def gain(rows: Sequence[Row]) -> Figure:
    """What each row gains in FID on its reference: at equal MACs, at equal time, at equal iterations."""
    several = len({row.architecture for row in rows}) > 1
    lines = []
    for row in rows:
        for at in (MACS, TIME, ITERATIONS):
            line = row.compared(at)
            is_shown = at != MACS or row.differs_at_equal_macs
            is_ranked = not (requested.is_evaluated_only(row.first) or row.is_evaluated_by_teacher)
            if line and is_shown and is_ranked:
                named = f"{row.architecture}  {row.short_label}" if several else row.short_label
                low, high = line.estimate.bounds or (None, None)
                how = "evaluated" if line.evaluated else "interpolated"
                lines.append((row.name, named, at, line.estimate.mean, low, high, line.estimate.n, line.reference, how))
    columns = ["row", "name", "at", "difference", "low", "high", "seeds", "reference", "how"]
    return Figure(
        name="gain",
        title="Gain in FID",
        caption="FID of each row minus that of its reference, paired over seeds, with unadjusted 95 % t intervals; "
        "left is better. Blue: the interval lies below 0; orange: above; grey: it includes 0, or there is none. The "
        "decision asks for more.",
        lines=pd.DataFrame(lines, columns=columns),
        x="difference",
        y="name",
        panel="at",
        low="low",
        high="high",
        still=None if any(row.is_smoke for row in rows) else 0.0,
        extra={"reference": "reference", "how": "how"},
        titles={"difference": "ΔFID", "at": "compared at"},
    )  # fmt: skip


def fid_over_cost(lines: pd.DataFrame) -> Figure:
    """FID at every evaluation, over the MACs and the seconds of training up to there."""
    trained = lines[(lines.iteration > 0) & lines.training_macs.notna() & lines.fid.notna()]
    divisor, unit = scaled_macs(trained.training_macs.max() if len(trained) else 0.0)
    by_macs = trained.assign(cost=trained.training_macs / divisor, over=f"training cost in {unit}")
    seconds, units = {}, ""
    if trained.architecture.nunique() > 1:
        shown = by_macs.assign(over=trained.architecture)
        named = {"cost": f"training cost in {unit}", "over": "architecture"}
        seconds, units = {"paired_seconds": "training s"}, f" MACs are in {unit}."
    else:
        by_time = trained.assign(cost=trained.paired_seconds, over="training time in s, steps timed alone")
        shown = pd.concat([by_macs, by_time])
        named = {"cost": "", "over": "cost in"}
    return Figure(
        name="fid_cost",
        title="FID over training cost",
        caption="MACs are counted: those of a training step, times batch, times iterations. Seconds are iterations "
        "times a step, which is the dense step over the row’s speed-up, and the wait for data; a row with a schedule "
        f"has none. Vertical lines are 95 % t intervals over seeds.{units}",
        lines=shown[shown.cost.notna()],
        x="cost",
        y="fid",
        panel="over",
        logarithmic="y",
        extra={"iteration": "iteration", **seconds},
        titles={"fid": "FID", **named},
    )  # fmt: skip


def rates(lines: pd.DataFrame) -> Figure:
    """FID over the share of tokens that bypasses, a line for each route, method and selector that ran at several."""
    last = lines[lines.iteration == lines.groupby(ROW).iteration.transform("max")]
    last = last[last.fid.notna() & (last.guidance_rule == UNGUIDED.name)]
    routed = last[last["rate"].map(lambda text: len(set(text.split(","))) == 1 and bool(text)).astype(bool)]
    shared = []
    for line in routed.itertuples():
        blocks = ",".join(f"{route.start}:{route.end}" for route in parse_routes(line.routes))
        selector = "" if line.selector == DEFAULT_SELECTOR else line.selector
        start = line.start if isinstance(line.start, str) else ""
        shared.append(" ".join(filter(None, (line.method, blocks, selector, line.auxiliary, line.schedule, start))))
    names = pd.Series(shared, routed.index, dtype="str")  # a text also where no row is routed
    routed = routed.assign(line=names, share=routed.route_rate.astype("float64"))
    keys = ["backbone", "reference_name", "line"]
    routed = routed[routed.groupby(keys).share.transform("nunique") > 1]
    is_beside_others = routed.groupby(["architecture", "line"]).reference_name.transform("nunique") > 1
    routed = routed.assign(line=routed.line.mask(is_beside_others, routed.line + " beside " + routed.reference_name))

    # Each line begins with its dense row.
    dense = last[last.is_dense].assign(share=0.0).drop(columns="reference_name")
    beside = routed[[*keys, "suite"]].drop_duplicates()
    first = beside.merge(dense, left_on=["suite", "reference_name"], right_on=["suite", "row"], suffixes=("", "_dense"))
    return Figure(
        name="rates",
        title="FID against bypass rate",
        caption="Means over seeds at the last iteration with 95 % t intervals. The rate is the share of the tokens "
        "that does not pass the blocks of a route; 0 is the dense row.",
        lines=pd.concat([first, routed]),
        x="share",
        y="fid",
        hue="line",
        panel="architecture",
        titles={"share": "share of tokens that bypasses", "fid": "FID"},
    )  # fmt: skip
