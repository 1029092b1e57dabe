"""The table: rows measured one by one, as JSON, for a terminal, and for a page."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from subprocess import CalledProcessError
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from rich.table import Column, Table

from benchmarks.figure import Figure
from benchmarks.page import Place
from benchmarks.row import Row, SkippedError, Verdict
from benchmarks.timing import Bench
from benchmarks.yardstick import Product

GENERATOR: Literal["tread-bench benchmarks"] = "tread-bench benchmarks"
PAGE = Place("python -m benchmarks")
Yardstick = dict[str, float]  # GFLOP/s by precision


class Result(BaseModel):
    """What became of a row."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    name: str
    claim: str
    unit: str
    required: float | None
    aim: float | None
    is_cost: bool
    status: Literal["done", "skipped", "failed"]
    reason: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Verdict | None = None
    aim_verdict: Verdict | None = None
    error: float | None = None  # of the two sides against each other, relative
    tolerance: float | None = None
    samples: dict[str, list[float]] = {}
    facts: dict[str, float] = {}
    yardstick_before: Yardstick = {}
    yardstick_after: Yardstick = {}
    seconds: float = 0.0  # that the row took


class Document(BaseModel):
    """The JSON file."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    generator: Literal["tread-bench benchmarks"] = GENERATOR  # the first key, by which the file is known
    schema_version: Literal[1] = 1
    conditions: dict[str, Any]
    results: list[Result]


def results_of(
    rows: Sequence[Row],
    threads: int,
    yardstick: Callable[[], dict[str, Product]],
    measure: Callable[[Row, Bench], Result],
) -> Iterator[Result]:
    """Measure rows, with the yardstick before and after each."""
    before = yardstick()
    for row in rows:
        result = measure(row, Bench(threads, before))
        after = yardstick()
        yield result.model_copy(update={"yardstick_before": rates_of(before), "yardstick_after": rates_of(after)})
        before = after


def rates_of(products: dict[str, Product]) -> Yardstick:
    return {precision: round(product.gflops_per_s, 1) for precision, product in products.items()}


def measured(row: Row, bench: Bench) -> Result:
    """A row's result; its failure is a result, too."""
    about = stated_of(row)
    began = bench.wall()
    try:
        figure = row.measure(bench)
    except SkippedError as reason:
        return Result(**about, status="skipped", reason=str(reason))
    except Exception as error:
        print(f"{row.name}:\n{traceback.format_exc()}", file=sys.stderr)
        return Result(**about, status="failed", reason=reason_of(error), seconds=round(bench.wall() - began, 1))
    return Result(**about, status="done", **of_figure(row, figure), seconds=round(bench.wall() - began, 1))


def stated_of(row: Row) -> dict[str, Any]:
    """What is known of a row before it is measured."""
    return {name: getattr(row, name) for name in ("name", "claim", "unit", "required", "aim", "is_cost")}


def of_figure(row: Row, figure: Figure) -> dict[str, Any]:
    return {
        "value": figure.value,
        "low": figure.low,
        "high": figure.high,
        "verdict": row.verdict(figure, row.required),
        "aim_verdict": row.verdict(figure, row.aim),
        "error": figure.agreement and figure.agreement.error,
        "tolerance": figure.agreement and figure.agreement.tolerance,
        "samples": {side: list(samples) for side, samples in figure.samples.items()},
        "facts": dict(figure.facts),
    }


def reason_of(error: Exception) -> str:
    """One line that says why a row failed."""
    text = str(error)
    if isinstance(error, CalledProcessError) and error.stderr:
        text = str(error.stderr)
    lines = text.strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[-1]}"


# As text


def cells_of(result: Result) -> list[str]:
    """name, figure, interval, required, aim, of one row."""
    figure = f"{result.status}: {result.reason}"
    interval = ""
    if result.value is not None and result.low is not None and result.high is not None:
        figure = f"{number(result.value)} {result.unit}"
        interval = f"{number(result.low)} – {number(result.high)}"
    required = target(result, result.required, result.verdict)
    aim = target(result, result.aim, result.aim_verdict)
    return [result.name, figure, interval, required, aim]


def target(result: Result, value: float | None, verdict: Verdict | None) -> str:
    """Such as "≥ 1.3: reached"; empty where the row has none."""
    if value is None:
        return ""
    text = f"{'≤' if result.is_cost else '≥'} {value:g}"
    return f"{text}: {verdict}" if verdict else text


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.4f}"


HEADS = ("row", "figure", "95 % interval", "required", "aim")


def terminal_table(results: Sequence[Result]) -> Table:
    table = Table(*(Column(head, overflow="fold") for head in HEADS))
    for result in results:
        table.add_row(*cells_of(result))
    return table


def markdown(document: Document) -> str:
    """The table with its conditions, for a page."""
    about = document.conditions
    named = ("torch", "numba", "numpy", "mamba-ssm")
    versions = [f"{name} {about['versions'][name]}" for name in named if name in about["versions"]]
    commit = (about["commit"] or "unknown")[:10] + (" with changes" if about["changed"] else "")
    load = f"{about['load_average'][0]:g} before and {about['load_average_after'][0]:g} after"
    yardsticks = [rates for result in document.results for rates in (result.yardstick_before, result.yardstick_after)]
    lines = [
        f"{about['cpu']} ({', '.join(about['instruction_sets'])}), {about['cpus']} CPUs, of which {about['threads']} "
        f"used; load average {load}; {about['date'][:10]}, commit {commit}; {', '.join(versions)}.",
        "",
        f"Yardstick in GFLOP/s, smallest and largest over the run: {spans(yardsticks)}.",
        "",
        "| " + " | ".join(HEADS) + " |",
        "|---" * len(HEADS) + "|",
    ]
    for result in document.results:
        cells = [cell.replace("|", "\\|") for cell in cells_of(result)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spans(yardsticks: Sequence[Yardstick]) -> str:
    """Smallest and largest rate of each precision."""
    precisions = yardsticks[0] if yardsticks else {}
    rates = {precision: [one[precision] for one in yardsticks] for precision in precisions}
    return ", ".join(f"{precision} {min(found):.0f} – {max(found):.0f}" for precision, found in rates.items())
