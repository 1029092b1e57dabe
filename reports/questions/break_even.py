"""What a run says that trains nothing: from how many tokens on a route pays on its machine."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tread_bench.core.describe.routes import parse_routes
from tread_bench.reports import requested
from tread_bench.reports.figure import Figure
from tread_bench.reports.row import Row, by_architecture, name_of
from tread_bench.reports.text.numbers import millions, names, number, plural

_LINE = ["architecture", "route"]  # what has a line in the picture


def is_about_speed(rows: Sequence[Row]) -> bool:
    """Return whether nothing of these rows was trained or evaluated."""
    return bool(rows) and all(requested.is_timed_only(row.first) for row in rows)


def timed(rows: Sequence[Row]) -> pd.DataFrame:
    """Return a line for each row that was only timed, by architecture, route, of which the lowest rate is first, and
    tokens of an image.

    `speedup` of a training step has the 95 % interval from `low` to `high`. From `pays_from` tokens on the route is
    faster than dense, there and at every larger number that was measured; missing where it is not. Dense rows are the
    control, without an `ideal`.
    """
    lines = []
    for members in by_architecture(rows):
        for row in sorted(members, key=lambda row: [route.rate for route in parse_routes(row.first.routes)]):
            tokens = row.cost("image_tokens")
            if requested.is_timed_only(row.first) and tokens and row.speedup:
                ideal = None if row.is_dense else row.ideal_speedup
                of_line = (name_of(members[0]), requested.route(row.first), row.name, row.is_dense, int(tokens))
                lines.append((*of_line, *row.speedup, ideal, row.timings[0].batch, row.timing("step_time_ms")))
    columns = [*_LINE, "row", "is_dense", "tokens", "speedup", "low", "high", "ideal", "batch", "step_ms"]
    found = pd.DataFrame(lines, columns=columns)
    place = found.groupby(_LINE, sort=False).ngroup()
    found = found.assign(place=place).sort_values(["place", "tokens"], ignore_index=True)

    # The points of a line, from the most tokens down, for as long as their intervals lie above 1.
    pays = (found.low > 1).astype(int)[::-1].groupby(found.place).cummin().astype(bool)
    return found.assign(pays_from=found.tokens.where(pays).groupby(found.place).transform("min"))


def _routed(rows: Sequence[Row]) -> pd.DataFrame:
    return timed([row for row in rows if not row.is_dense])


def summary(rows: Sequence[Row]) -> str:
    """Return where the route that pays first does so, architecture by architecture, in a sentence."""
    routed = _routed(rows)
    if routed.empty:
        return "No speed was measured, so nothing is known yet of where a route pays."
    paying = routed[routed.pays_from.notna()]
    first = paying.loc[paying.groupby("architecture", sort=False).pays_from.idxmin()]
    never = [*routed.architecture[~routed.architecture.isin(first.architecture)].unique()]
    if first.empty:
        return f"On this machine no route pays at any number of tokens that was measured, in {names(never)}."
    places = []
    for tokens, found in first.groupby("pays_from"):
        where, route = names(found.architecture), ""
        if len(found) == 1:
            route = f" ({found.route.iloc[0]})"
        elif len(found) == len(by_architecture(rows)):
            where = f"all {len(found)} architectures"
        places.append(f"in {where} from {tokens:,.0f} tokens on{route}")
    none = f"; in {names(never)} none pays" if never else ""
    return f"On this machine a route pays {names(places)}{none}."


def scope() -> str:
    """Return what such a run does not say."""
    return (
        "Nothing was trained or evaluated: this is what a route saves or costs in time on this machine. What it costs "
        "in quality is not known from this run."
    )


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(architecture, its parameters, from where on each of its routes pays)."""
    found = []
    for members in by_architecture(rows):
        of_routes = _routed(members).groupby("route", sort=False)
        said = "; ".join(in_words(line) for _, line in of_routes) or "no speed of a route was measured"
        found.append((name_of(members[0]), f"{millions(members[0].cost('params'))} parameters", f"{said}."))
    return found


def in_words(line: pd.DataFrame) -> str:
    """From where on one route pays: "2:8@0.5 pays from 64 tokens on (1.18 times as fast; at 4,096 1.61)"."""
    first, last, route = line.iloc[0], line.iloc[-1], line.route.iloc[0]
    is_alone = len(line) == 1
    start = next(line[line.tokens == line.pays_from].itertuples(), None)
    if start is None:
        where = f"from any of {first.tokens:,} to {last.tokens:,} tokens on"
        if is_alone:
            where = f"at {last.tokens:,} tokens"
        how = "not distinguishable"
        if last.high < 1 or last.low > 1:
            how = "slower" if last.high < 1 else "faster"
        figures = f"{number(last.speedup)} times as fast, {number(last.low)} to {number(last.high)}"
        return f"{route} does not pay {where} ({how} at {last.tokens:,}: {figures})"
    gain, tokens = f"{number(start.speedup)} times as fast", f"{start.tokens:,} tokens"
    if is_alone:
        return f"{route} pays at {tokens} ({gain})"
    if start.tokens == last.tokens:
        return f"{route} pays at {tokens}, the most measured ({gain})"
    fewest = ", the fewest measured" if start.tokens == first.tokens else ""
    return f"{route} pays from {tokens} on{fewest} ({gain}; at {last.tokens:,} {number(last.speedup)})"


def rule(rows: Sequence[Row]) -> str:
    """When a route is said to pay, and how many images the timed steps had."""
    steps = []
    for tokens, batches in timed(rows).groupby("tokens").batch:
        steps.append(f"{' or '.join(plural(size, 'image') for size in sorted({*batches}))} of {tokens:,} tokens")
    timed_steps = f" Timed: steps of {names(steps)}." if steps else ""
    return (
        "A route pays from the first number of tokens on at which the whole 95 % interval of its speed-up lies above "
        f"1, there and at every larger number that was measured.{timed_steps}"
    )


def figure(rows: Sequence[Row]) -> Figure:
    """Speed-ups over the number of tokens, a panel per architecture, a line per route, its ideal dashed."""
    found = timed(rows)
    pays = found.pays_from.map(lambda tokens: "never here" if pd.isna(tokens) else f"{tokens:,.0f}")
    found = found.assign(pays=pays.mask(found.is_dense.astype(bool), "control"), seeds=1)
    is_shown = found[~found.is_dense.astype(bool)].groupby("route").tokens.nunique().gt(1).any()
    return Figure(
        name="break_even",
        highest_first=True,
        title="Speed-up against tokens",
        caption="Training steps timed alone, in turn with the dense twin of the row; 95 % bootstrap intervals of the "
        "median ratio. Dashed: ideal, from forward MACs. Dense beside itself is the control and should be at 1. "
        f"{rule(rows)}",
        lines=found if is_shown else found[:0],
        x="tokens",
        y="speedup",
        hue="route",
        panel="architecture",
        low="low",
        high="high",
        ideal="ideal",
        still=1.0,
        logarithmic="x",
        extra={"batch": "images per step", "step_ms": "step ms", "pays": "pays from"},
        titles={"tokens": "tokens of an image", "speedup": "speed-up of a training step"},
    )  # fmt: skip
