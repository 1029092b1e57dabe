"""`plan --detect`: how many seeds find a difference, as a table and in words."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Column, Table

from tread_bench.core.config.suite import MAX_SEEDS
from tread_bench.services.detect import Detection

UNKNOWN = "not known"


def detection_table(found: Detection) -> Table:
    """Return a row for each comparison; columns on the uncertainty of spreads only where they were measured."""
    is_measured = any(row.pairs for row in found.rows)
    titles = ["reference", "spread", f"power with\n{found.suite_seeds} seeds", "seeds"]
    if is_measured:
        titles += ["compared at", "pairs", "spread\nat most", "seeds\nat most"]
    table = Table(Column("row", no_wrap=True), *titles)
    for row in found.rows:
        if row.spread is None or row.spread_upper is None:
            table.add_row(row.row, row.reference, UNKNOWN)
            continue
        cells = [row.reference, f"{row.spread:.3g}", _share(row.power), _seeds(row.seeds)]
        if is_measured:
            cells += [row.compared_at or "", f"{row.pairs}", f"{row.spread_upper:.3g}", _seeds(row.seeds_upper)]
        table.add_row(row.row, *cells)
    return table


def detection_in_words(found: Detection) -> list[str]:
    """Return what the table says of all rows, and what it depends on, a sentence per line."""
    known = [row for row in found.rows if row.spread is not None]
    seeds, upper = _most(row.seeds for row in known), _most(row.seeds_upper for row in known)
    which = "every row" if len(known) == len(found.rows) else f"{len(known)} of {len(found.rows)} rows"
    lines = [
        f"With {seeds} seeds, a difference of {found.difference:g} FID is found in {which} with a power of "
        f"{_share(found.target_power)} or more (paired t-tests at {_share(found.level)}, two-sided, Holm-adjusted over "
        f"{found.comparisons} rows)."
    ]
    if upper != seeds:
        bound = f"upper {_share(found.spread_confidence)} bound"
        lines.append(f"Few pairs leave a spread uncertain: with every spread at its {bound} it takes {upper} seeds.")
    differing = sorted({part for row in known for part in row.differing})
    if differing:
        lines.append(f"The run had other settings than this suite ({', '.join(differing)}): its spreads may not apply.")
    return lines


def _most(seeds: Iterable[int | None]) -> str:
    numbers = list(seeds)
    return _seeds(None if None in numbers else max(filter(None, numbers)))


def _seeds(number: int | None) -> str:
    return f"more than {MAX_SEEDS:,}" if number is None else f"{number:,}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f} %"
