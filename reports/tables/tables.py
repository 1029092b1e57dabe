"""From records to tables: the tidy frame behind results.csv, and tables to publish as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.core.numbers.tuning import Best
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.records import CostFigures, Evaluation, Part, Record, TimingFigures, of_study
from tread_bench.reports.claims.equal_cost import cost_columns
from tread_bench.reports.claims.recovery import recovered_at
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import record_order
from tread_bench.reports.rows.rates import DenseSetting, dense_steps_ms, images_per_s
from tread_bench.reports.rows.row import Row
from tread_bench.reports.tables.columns import COLUMNS, columns_of
from tread_bench.reports.text.numbers import DASH, MINUS, interval, number

if TYPE_CHECKING:
    import pandas as pd

_PRECISION = ("matmul_precision", "autocast")
_STEP_OPTIONS = ("compile", "gradient_checkpointing", "micro_batch")  # shown where they are used


def results_frame(records: Iterable[Record], is_smoke: bool = False) -> pd.DataFrame:
    """Return one row per cell of the study and evaluated iteration, columns as in `columns_of`; the order of `records`
    does not matter.

    A cell without an evaluation keeps one row, with its status and reason.
    """
    import pandas as pd

    # A line for each evaluation.
    ordered = sorted(of_study(records), key=record_order)
    dense_ms = dense_steps_ms(ordered)
    lines = []
    for record in ordered:
        in_order: list[Evaluation] = sorted(record.evaluations, key=lambda evaluation: evaluation.iteration)
        for evaluation in in_order or (None,):
            lines.append({**_line(record, evaluation, dense_ms), "smoke": "yes" if is_smoke else None})

    # Their columns, with whole numbers where they are that.
    columns = columns_of(ordered)
    frame = pd.DataFrame(lines, columns=[column.name for column in columns])
    return frame.astype({column.name: "Int64" for column in columns if column.whole})


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write UTF-8, shortest exact floats, no formulas, empty where nothing applies; atomically."""
    texts = frame.select_dtypes(exclude="number").columns
    inert = frame.assign(**{name: frame[name].map(_inert) for name in texts})
    write_atomically(path, inert.to_csv(index=False, lineterminator="\n").encode("utf-8", "replace"))


def _line(record: Record, evaluation: Evaluation | None, dense_ms: Mapping[DenseSetting, float]) -> dict[str, Any]:
    conditions = record.conditions.model_dump(mode="json")
    line = {
        **_fields(record),
        **_fields(evaluation),
        **(evaluation.figures if evaluation else {}),
        **_cost(record.cost, record.routes),
        "ideal_speedup": record.ideal_speedup,
        **_fields(record.timing),
        **cost_columns(record, evaluation, dense_ms),
        "images_per_s": images_per_s(record, dense_ms),
        "data": requested.data(record),
        "objective": requested.objective(record),
        "guidance": requested.rule(record) or "none",
        "checkpoint": requested.checkpoint(record) if requested.is_evaluated_only(record) else None,
        "guidance_scale": requested.guidance_scale(record),
        "auxiliary": requested.auxiliary(record),
        "schedule": requested.scheduled(record),
        "precision_mode": flat(_precision(conditions)),
        "kernels": flat(conditions.get("kernels")),
        "threads": record.conditions.threads,
        "device": flat(record.conditions.device),
        **_settings(record),
    }
    return {name: _storable(value) for name, value in line.items()}


def _settings(record: Record) -> dict[str, Any]:
    """What was requested of a cell, each setting alone, for a reader that groups and filters by them."""
    # Training.
    tuning = record.tuning
    found = {
        "batch": requested.training(record, "batch"),
        "optimizer": requested.optimizer(record),
        "learning_rate": requested.training(record, "learning_rate"),
        "decay": requested.decay(record) or None,
        "lora_rank": requested.lora_rank(record),
        "start": requested.start(record) or None,
        "recovered_at": recovered_at(record),
        "tuned": _tuned(tuning.best, tuning.candidates) if tuning else None,
    }

    # Routes and their schedule.
    routes = parse_routes(record.routes)
    found["num_routes"] = len(routes)
    for place, route in enumerate(routes, start=1):
        name = "route" if place == 1 else f"route_{place}"
        found |= {f"{name}_start": int(route.start), f"{name}_end": int(route.end), f"{name}_rate": route.rate}
    if routes:
        schedule = requested.schedule(record)
        found |= {"route_warmup": schedule.warmup, "dense_from": schedule.until}

    # Sampling, and what computed all this.
    return found | {
        "guidance_rule": requested.guidance(record)["name"],
        "sampler": requested.sampling(record, "sampler"),
        "sampling_steps": requested.sampling(record, "steps"),
        "matmul_precision": record.conditions.matmul_precision,
        "autocast": record.conditions.autocast,
        "hardware": record.conditions.device_name,
    }


def _tuned(best: Best | None, candidates: Sequence[object]) -> str | None:
    """How a setting was chosen, in a column."""
    return f"{'best' if best.is_bracketed else 'edge'} of {len(candidates)}" if best else None


def _storable(value: object) -> object:
    """The value; of a text what survives a UTF-8 file of lines."""
    return value.encode("utf-8", "replace").decode().replace("\r", " ") if isinstance(value, str) else value


def _inert(value: object) -> object:
    """The value; a text that a spreadsheet would compute has an apostrophe in front (CWE-1236)."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t"))
    return f"'{value}" if is_formula else value


def _precision(conditions: Mapping[str, Any]) -> dict[str, Any]:
    used = {name: conditions[name] for name in _STEP_OPTIONS if conditions.get(name)}
    return {name: conditions[name] for name in _PRECISION if name in conditions} | used


def _fields(part: Record | Evaluation | TimingFigures | CostFigures | None) -> dict[str, Any]:
    """The figures of a part that a column has the name of."""
    return {name: getattr(part, name) for name in _names_of(type(part))} if part else {}


@cache
def _names_of(part: type[Part]) -> list[str]:
    """The columns that are called as a field or property of such parts."""
    return [column.name for column in COLUMNS if column.name in part.model_fields or hasattr(part, column.name)]


def _cost(cost: CostFigures | None, routes: str) -> dict[str, Any]:
    if cost is None:
        return {}
    kept = [str(cost.tokens_per_block[int(route.start)]) for route in parse_routes(routes)]
    gmacs = cost.forward_macs / 1e9
    return {**_fields(cost), "tokens_kept": ",".join(kept), "gmacs": gmacs, "gflops": 2 * gmacs}


def flat(value: object) -> str:
    """Return a condition in one cell of a table: mappings as name=value, sorted by name."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={flat(value[name])}" for name in sorted(value, key=str))
    if isinstance(value, list | tuple):
        return ", ".join(flat(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


# Tables to publish


NOT_REACHED = sys.float_info.max  # sorts what was not reached behind all that was


class Entry(NamedTuple):
    """One cell of a table: its text, a smaller second line, what it is sorted by, and the bounds of an interval."""

    text: str
    below: str = ""
    key: float | str | None = None
    bounds: tuple[float, float] | None = None

    @property
    def value(self) -> float | None:
        """The number that it shows, with all digits; None of a text, and of what was not reached."""
        return self.key if isinstance(self.key, int | float) and self.key < NOT_REACHED else None


def ratio_entry(found: tuple[float, float, float] | None) -> Entry:
    """Return a ratio with its interval; a dash for none."""
    if found is None:
        return Entry(DASH)
    ratio, low, high = found
    return Entry(number(ratio), f"{number(low)} to {number(high)}", ratio, (low, high))


def estimate_entry(
    estimate: MeanInterval | None, places: int, signed: bool = False, can_be_negative: bool = False
) -> Entry:
    """Return a mean with its interval, or why it has none; a dash for no estimate."""
    if estimate is None:
        return Entry(DASH)
    below = "one seed" if estimate.bounds is None else interval(estimate, places, signed, can_be_negative)
    return Entry(number(estimate.mean, places, signed), below, estimate.mean, estimate.bounds)


def difference_entry(row: Row, metric: str, places: int) -> Entry:
    """Return the row's difference to its reference, or that it is one."""
    estimate = row.difference(metric)
    is_reference = estimate is None and row.is_reference
    return Entry("reference") if is_reference else estimate_entry(estimate, places, signed=True)


@dataclass(frozen=True, slots=True)
class Table:
    """A table to publish; `name` is the file name without its ending."""

    name: str
    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Entry]]

    @property
    def places_of_words(self) -> list[int]:
        """Columns after the first that hold no number in any row."""
        places = range(1, len(self.headers))
        return [place for place in places if all(row[place].value is None for row in self.rows)]


def as_csv(table: Table) -> str:
    """Numbers with all digits, intervals as columns of bounds; the first column names the table on every line."""
    columns = [("tread-bench table", [table.title] * len(table.rows))]
    for place, header in enumerate(table.headers):
        columns += _columns_of_csv(header, [row[place] for row in table.rows])

    # Column by column, then line by line.
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_of_csv(header) for header, _ in columns)
    writer.writerows(map(_of_csv, line) for line in zip(*(texts for _, texts in columns), strict=True))
    return file.getvalue()


def _columns_of_csv(header: str, entries: Sequence[Entry]) -> Iterator[tuple[str, list[str]]]:
    """A column and, where some entry has them, its bounds, or else its second text."""
    yield header, [_machine_readable(e.text) if e.value is None else repr(e.value) for e in entries]
    if any(entry.bounds for entry in entries):
        for place, bound in enumerate(("low", "high")):
            yield f"{header}, {bound}", [repr(e.bounds[place]) if e.bounds else "" for e in entries]
    elif any(entry.below for entry in entries):
        yield f"{header}, note", [_machine_readable(entry.below) for entry in entries]


def _of_csv(text: str) -> str:
    """Inert in a spreadsheet, unless it is a number."""
    return text if _NUMBER.fullmatch(text) else str(_inert(_storable(text)))


_NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?([eE][+-]?\d+)?|inf|nan)")
_SHOWN_NUMBER = re.compile(r"[+-]?\d{1,3}(,\d{3})*(\.\d+)?")


def _machine_readable(text: str) -> str:
    """With an ASCII minus, without separators of thousands; a dash for nothing is empty."""
    if text == DASH:
        return ""
    plain = text.replace(MINUS, "-")
    return plain.replace(",", "").removeprefix("+") if _SHOWN_NUMBER.fullmatch(plain) else plain


def as_markdown(table: Table) -> str:
    """Return a table of GitHub's Markdown, numbers to the right; names are shown as they are."""
    lines = [[_shown(entry) for entry in row] for row in table.rows]
    marks = ["---" if place == 0 else "--:" for place in range(len(table.headers))]
    rows = (list(map(markdown_text, table.headers)), marks, *(list(map(markdown_text, line)) for line in lines))
    body = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"**{markdown_text(table.title)}**\n\n{body}"


def markdown_text(text: str) -> str:
    """One line, with a backslash before all that Markdown or HTML would read as more than text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&$])", r"\\\1", _one_line(text))


def as_latex(table: Table) -> str:
    """Return a tabular for the package booktabs, to be read by \\input; the title is a comment."""
    lines = [[_shown(entry) for entry in row] for row in table.rows]
    body = "".join(f"{' & '.join(map(latex, line))} \\\\\n" for line in lines)
    return (
        f"% {_one_line(table.title)}\n"
        "% needs \\usepackage{booktabs}\n"
        f"\\begin{{tabular}}{{l{'r' * (len(table.headers) - 1)}}}\n"
        f"\\toprule\n{' & '.join(map(latex, table.headers))} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n"
    )


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{character: f"{{{character}}}" for character in "[]*`'"},  # after a line's end they would be its arguments
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}", '"': r"\textquotedbl{}", "-": "{-}",
    MINUS: "$-$", DASH: "--", "×": r"$\times$", "±": r"$\pm$", "→": r"$\to$", "≤": r"$\le$", "≥": r"$\ge$",
    "Δ": r"$\Delta$", "σ": r"$\sigma$", "…": r"\ldots{}", "’": "{'}", "²": r"$^2$", "⁹": r"$^9$", "·": r"$\cdot$",
}  # fmt: skip


def latex(text: str) -> str:
    """Return the text for LaTeX, character by character; letters of other scripts stay and need LuaLaTeX or XeLaTeX."""
    return "".join(_LATEX.get(character, character) for character in _one_line(text))


def _shown(entry: Entry) -> str:
    return f"{entry.text} ({entry.below})" if entry.below else entry.text


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text.encode("utf-8", "replace").decode())


FORMATS: Mapping[str, Callable[[Table], str]] = {"csv": as_csv, "md": as_markdown, "tex": as_latex}
