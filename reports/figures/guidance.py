"""FID against the scale of guidance, rule by rule, checkpoint by checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tread_bench.reports.claims.guidance import Checkpoint, checkpoints, fid_of
from tread_bench.reports.figures import style
from tread_bench.reports.figures.drawing import GRID_COLUMNS, estimated, grid, logarithmic
from tread_bench.reports.figures.lines import Point, aside, upright
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import INK, MUTED, RULE, clean, marks_of
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import DASH, decimals, number

_IN_LEGEND = 2
_ASIDE = 0.012  # of scale, between two rules, so that their intervals do not hide each other
_Look = tuple[str, str, str]  # colour, marker, line


def guidance(rows: Sequence[Row], suffix: str = "") -> Picture | None:
    """Draw a panel per checkpoint, a line per rule over its scales, the best of each marked, no guidance as a
    level.
    """
    found = checkpoints(rows)
    if not found:
        return None
    is_judged = not any(row.is_smoke for row in rows)
    places = decimals(row.fid.mean for row in rows if row.fid)
    return picture_of(
        "guidance", _figure(found), [line for made in found for line in _numbers(made, places)], suffix, places=places,
        is_judged=is_judged, bests=map(_bests, found),
    )  # fmt: skip


def _bests(made: Checkpoint) -> tuple[str, float | None, list[tuple[float, str]]]:
    """The name of a checkpoint, its FID without guidance, and that of each rule at its best scale."""
    bests = [(fid_of(sweep.best).mean, requested.guided(sweep.best.first)) for sweep in made.sweeps]
    return made.name, fid_of(made.unguided).mean if made.unguided else None, bests


def _numbers(made: Checkpoint, places: int) -> list[dict[str, str]]:
    plain = made.unguided.sampling_macs if made.unguided else None
    lines = [_line(made, made.unguided, "none", plain, places)] if made.unguided else []
    for sweep in made.sweeps:
        for row in sweep.rows:
            is_best = row is sweep.best and len(sweep.rows) > 1 and not row.is_smoke
            lines.append(_line(made, row, f"{sweep.rule}{' (best scale)' if is_best else ''}", plain, places))
    return lines


def _line(made: Checkpoint, row: Row, rule: str, plain: float | None, places: int) -> dict[str, str]:
    macs = row.sampling_macs
    gain = None if row is made.unguided else made.gain(row)
    return {
        "row": row.label,
        "checkpoint": made.name,
        "rule": rule,
        "scale": f"{requested.guidance_scale(row.first):g}" if requested.is_guided(row.first) else DASH,
        **estimated("FID", row.fid, places),
        **estimated("difference to no guidance", gain, places, signed=True),
        "seeds": str(fid_of(row).n),
        "GMACs per image": number(macs and macs / 1e9, 4 if macs and macs < 1e10 else 1),
        "MACs, no guidance = 1": number(macs / plain if macs and plain else None),
    }


def _figure(found: Sequence[Checkpoint]) -> Figure:
    # Which rules, each with its look, and in how many panels.
    rules = list(dict.fromkeys(sweep.rule for made in found for sweep in made.sweeps))
    looks = {
        rule: (*look, "-" if k < len(style.COLOURS) else "--")  # where colours repeat, lines differ as well
        for k, (rule, look) in enumerate(zip(rules, style.looks([False] * len(rules)), strict=True))
    }

    # A panel for each checkpoint.
    figure, panels = grid(len(found), 3.5, below=0.22 * (len(rules) // _IN_LEGEND + 1))
    for k, (made, axes) in enumerate(zip(found, panels, strict=True)):
        _panel(axes, made, looks)
        _limit(axes, found)
        axes.tick_params(labelleft=k % GRID_COLUMNS == 0)
        axes.set_xlabel("scale (1 is the strong branch alone)", color=MUTED)
    panels[0].set_ylabel("FID (lower is better)", color=MUTED)
    _legend(figure, looks)
    return figure


def _limit(axes: Axes, found: Sequence[Checkpoint]) -> None:
    """Logarithmic, since rules differ by factors; the seeds' values fill the height, intervals may reach beyond it."""
    rows = [row for made in found for sweep in made.sweeps for row in sweep.rows]
    rows += [made.unguided for made in found if made.unguided]
    fids = [fid for row in rows for fid in row.scores["fid"].values()]
    low, high = max(min(fids), 1e-3), max(*fids, 1e-3)
    axes.set(ylim=(low / 1.15, high * 1.15))
    logarithmic(axes)


def _panel(axes: Axes, made: Checkpoint, looks: dict[str, _Look]) -> None:
    if made.unguided:
        fid = fid_of(made.unguided)
        with marks_of(made.unguided.label, axes):
            axes.axhline(fid.mean, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
            if fid.bounds is not None:
                axes.axhspan(*fid.bounds, color=RULE, alpha=0.45, linewidth=0, zorder=0.4)
    for k, sweep in enumerate(made.sweeps):
        colour, marker, dashes = looks[sweep.rule]
        apart = _ASIDE * aside(k, len(made.sweeps))
        points = [Point(row, requested.guidance_scale(row.first) + apart, fid_of(row)) for row in sweep.rows]
        axes.plot([one.x for one in points], [one.estimate.mean for one in points], color=colour, linewidth=1.2,
                  linestyle=dashes)  # fmt: skip
        for one in points:
            with marks_of(one.row.label, axes):
                axes.plot([one.x], [one.estimate.mean], color=colour, marker=marker, markersize=4.5)
                if one.row is sweep.best and not one.row.is_smoke:
                    upright(axes, one, (colour, marker))
    axes.set_title(clean(made.name))
    axes.margins(x=0.06)
    axes.locator_params(nbins=6)


def _legend(figure: Figure, looks: dict[str, _Look]) -> None:
    axes = figure.axes[0]
    handles = [axes.plot([], [], color=c, marker=m, markersize=6, linestyle=line)[0] for c, m, line in looks.values()]
    handles.append(axes.axhline(float("nan"), color=INK, linewidth=1.2, linestyle=(0, (4, 3))))
    names = [*(clean(rule, 64) for rule in looks), "no guidance"]
    figure.legend(handles, names, loc="outside lower center", ncols=_IN_LEGEND)
