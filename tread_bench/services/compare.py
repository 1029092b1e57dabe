"""`compare`: several runs, or exports of runs, on one page."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tread_bench.core.errors import UserError
from tread_bench.core.stored.destinations import claim_folders
from tread_bench.core.stored.files import StoreError
from tread_bench.runner.folder import disk_errors_reported
from tread_bench.runner.sources import Source, read_run


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison says: the decision on each pair of runs as JSON has it, all in sentences, and its page."""

    decisions: list[dict[str, Any]]
    sentences: list[str]
    page: Path


def compare_runs(paths: Sequence[Path], out: Path, tables: Path | None) -> Compared:
    """Write the page and, where requested, its tables and figures.

    Raises:
        UserError: what cannot be compared, all of it; or a folder contains something else.
    """
    # The runs, and the folders.
    sources = _read_all(paths)
    claim_folders("tread-bench compare", {"--out": out, "--tables": tables})

    # What they say.
    from tread_bench.reports.claims.compare import Run
    from tread_bench.reports.page.compare import compared, write
    from tread_bench.reports.page.document import write_export

    names = _names([source.path for source in sources])
    runs = [Run(name=name, plan=s.plan, records=s.records) for name, s in zip(names, sources, strict=True)]
    made = compared(runs, tables is not None)

    # The page.
    left_out = [reason for source in sources for reason in source.unreadable.values()]
    with disk_errors_reported(out):
        write(made, runs, left_out, out)
        if tables:
            write_export(tables, made.tables, made.drawn)
    decisions = [{"sentence": sentence, **asdict(one)} for sentence, one in made.decisions.items()]
    return Compared(decisions, made.sentences, out / "index.html")


def _read_all(paths: Sequence[Path]) -> list[Source]:
    """Every run. Raises UserError naming all that cannot be compared."""
    found, mistakes = [], []
    seen = set[str]()
    for path in paths:
        try:
            if (place := os.path.realpath(path)) in seen:
                raise StoreError(f"{path} is given twice; give each run once")
            seen.add(place)
            source = read_run(path)
            _refuse_without_figures(source)
            found.append(source)
        except UserError as error:
            mistakes.append(str(error))
    if len(paths) < 2:
        mistakes.append(f"{len(paths)} run is given; a comparison needs two or more: `tread-bench compare RUN RUN`")
    if mistakes:
        raise UserError("\n".join(mistakes))
    return found


def _refuse_without_figures(source: Source) -> None:
    """Raise StoreError for a run that says nothing beside others: a smoke run, or one that has no finished cell."""
    if source.plan.smoke:
        raise StoreError(f"{source.path} is a smoke run, whose figures mean nothing; run its suite without --smoke")
    if not any(record.status == "done" for record in source.records):
        unfinished = f"{source.path} has no finished cell; `tread-bench run` resumes it"
        raise StoreError("\n".join([*source.unreadable.values(), unfinished]))


def _names(paths: Sequence[Path]) -> list[str]:
    """What the page calls each run: its file or folder, with as many folders above it as tell all apart."""
    wholes = [path.resolve() for path in paths]
    parts = [(whole.with_suffix("") if whole.is_file() else whole).parts for whole in wholes]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(one[-depth:]) for one in parts]
        if max(Counter(names).values()) == 1:
            return names
    return [str(path) for path in paths]
