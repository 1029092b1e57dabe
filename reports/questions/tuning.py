"""How the rows of a study got their learning rates, and whether these may be called tuned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from tread_bench.core.stored.records import Record
from tread_bench.reports import requested
from tread_bench.reports.figure import Figure
from tread_bench.reports.row import Row
from tread_bench.reports.text.numbers import names, plural

_KINDS = {"validation_losses": "dense validation loss", "fids": "FID"}


def _which(labels: Sequence[str], count: int) -> str:
    return "every row" if len(labels) == count > 2 else names(labels)


def summary(rows: Sequence[Row]) -> str:
    """Return how the rows that are trained got their learning rates, in a sentence or two; "" where none is."""
    trained = [row for row in rows if requested.iterations(row.first) and not requested.is_evaluated_only(row.first)]
    if not trained:
        return ""
    chosen = [row for row in trained if row.tuning is not None]
    tuning = next((row.tuning for row in chosen), None)
    if tuning is None:
        rates = sorted({requested.training(row.first, "learning_rate") for row in trained} - {None})
        given = ", ".join(f"{rate:g}" for rate in rates) or "not recorded"
        how = "Decayed" if requested.decay(trained[0].first) else "Constant"
        return f"{how} rate, untuned: {given}. Another learning rate may change which row is better."
    edges = [row.short_label for row in chosen if row.is_untuned]
    shortest = " of the shortest row that differs in its length alone" if tuning.shortest else ""
    untuned = f" Untuned: the best of {_which(edges, len(chosen))} lies at the edge of the candidates." if edges else ""
    return (
        f"Each row at its best of {len(tuning.candidates)} learning rates, by dense validation loss over "
        f"{plural(len(tuning.seeds), 'tuning seed')} of its own at {100 * tuning.share:.3g} % of the "
        f"training{shortest}.{untuned}"
    )


def cautions(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what a reader must know: rates at an edge, rates that moved with the length, and luck of the choice."""
    tuned = [(row, row.tuning) for row in rows if row.tuning is not None]
    at_edge = [(row, tuning) for row, tuning in tuned if row.is_untuned]
    if at_edge:
        tried = sorted({one.learning_rate for _, tuning in at_edge for one in tuning.candidates})
        listed = ",".join(f"{rate:g}" for rate in tried)
        yield (
            f"untuned: the best learning rate of {_which([row.name for row, _ in at_edge], len(tuned))} lies at the "
            "edge of the candidates, so a better one may lie beyond. Run the same command with more of them in "
            f"--set 'tune.candidates=[{listed}]': what is measured is kept."
        )
    if moved := [row.name for row, tuning in tuned if tuning.has_moved]:
        yield (
            f"the best learning rate of {names(moved)} is another one at its own length than at the shortest, where it "
            "was chosen: rates that were tuned on short trainings may favour a row on long ones."
        )

    # By luck, which no interval over the study's seeds has, unless whole trainings on as many seeds chose the rates.
    for row, tuning in tuned:
        if len(tuning.seeds) >= len(row.records) and tuning.share >= 1 and not tuning.shortest:
            continue
        other, whose = "", "the"
        if tuning.shortest:
            other, whose = "--set tune.shortest=false and ", "the shortest row’s"
        if tuning.share < 1:
            other += "--set tune.share=1 and "
        seeds = plural(len(row.records), "seed")
        yield (
            "intervals are those of rows at their chosen learning rates. Whether a rate was the best one is the same "
            f"for all {seeds} of the study, and {plural(len(tuning.seeds), 'tuning seed')} at {100 * tuning.share:.3g} "
            f"% of {whose} training chose it: a route that is no better may be advised in more than 5 % of such "
            f"studies. Before a close decision is believed, choose with {other}with as many tuning seeds as the study "
            "has."
        )
        return


def cost(candidates: Sequence[Record], study: Sequence[Record]) -> str:
    """Return what choosing the learning rates has cost beside the study, as a fact of a page; "" without tuning."""
    if not candidates:
        return ""
    costs = {"tuning": 0.0, "study": 0.0}
    for record in (*candidates, *study):
        if record.last and record.last.training_macs:
            costs[record.role] += record.last.training_macs
    share = 100 * costs["tuning"] / (sum(costs.values()) or 1.0)
    failed = sum(record.status == "failed" for record in candidates)
    without = f", without those of {plural(failed, 'cell')} that failed" if failed else ""
    tuning = f"{plural(len(candidates), 'cell')}, {costs['tuning']:.3g} training MACs"
    return f"{tuning}, {share:.0f} % of the total{without}"


def figure(rows: Sequence[Row]) -> Figure:
    """Dense validation loss, and FID where it was measured, over the learning rates that were tried, a line per row."""
    lines: list[tuple[object, ...]] = []
    said = []
    for row in rows:
        tuning = row.tuning
        if tuning is None or tuning.best is None:
            continue
        edge = " (at the edge)" if row.is_untuned else ""
        name = row.full_label
        said.append(f"{name} {tuning.best.value:g}{edge}")
        for kind, what in _KINDS.items():
            for one in tuning.candidates:
                is_best = "yes" + edge if one.learning_rate == tuning.best.value else ""
                trained = f"{len(one.validation_losses)} of {len(one.cells)} seeds"
                about = (row.name, name, row.is_dense, what, one.learning_rate, is_best, trained)
                lines.extend((*about, value) for value in getattr(one, kind))
    columns = ["row", "name", "is_dense", "what", "learning_rate", "chosen", "trained", "value"]
    found = pd.DataFrame(lines, columns=columns)
    return Figure(
        name="tuning",
        title="Learning rates",
        caption="Each row was trained at every candidate on tuning seeds of its own; 95 % t intervals over these. "
        f"Chosen, by the lowest mean loss: {', '.join(said)}. A rate at the edge of the candidates counts as untuned.",
        lines=found.sort_values("what", kind="stable", key=lambda what: what == "FID"),
        x="learning_rate",
        y="value",
        panel="what",
        logarithmic="x",
        extra={"chosen": "chosen", "trained": "trained on"},
        titles={"learning_rate": "learning rate", "value": "", "what": "figure"},
    )  # fmt: skip
