"""The report of a run: one HTML file that needs nothing beside it, the figures as files, and results.csv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tread_bench.core.documents import RunPlan
from tread_bench.core.records import Record
from tread_bench.reports import SMOKE_RUN, cautions, contrasts, depths, guidance, requested
from tread_bench.reports.architectures import by_architecture, short_names, side_by_side, what_differs
from tread_bench.reports.columns import COLUMNS
from tread_bench.reports.comparison import Group, Row, comparison, record_order
from tread_bench.reports.document import write_page, write_pictures
from tread_bench.reports.family_verdict import lead, scope, statements
from tread_bench.reports.figures.pictures import NAMES, pictures
from tread_bench.reports.figures.style import Picture
from tread_bench.reports.numbers import DASH, decimals, millions, plural
from tread_bench.reports.samples import sample_grids
from tread_bench.reports.table_view import comparison_view
from tread_bench.reports.tables import flat, results_frame, write_csv
from tread_bench.reports.verdict import detectable, verdicts

_CELL_METRICS = {
    "fid": "FID",
    "kid": "KID",
    "validation_loss": "Validation loss",
    "inception_score": "IS",
    "precision": "Precision",
    "recall": "Recall",
}
_LEADING = ("depths", "routing_gain", "guidance", "selectors")  # pictures that come before tables that are folded
_NOT_CONDITIONS = {"schema_version", "suite", "cells", "references", "rows", "files"}


def render(
    records: Sequence[Record], plan: RunPlan, run_dir: Path, unreadable: Mapping[str, str] | None = None
) -> None:
    """Write results.csv, figures/*.svg, figures/*.png and index.html into `run_dir`, each whole.

    Args:
        records: of the run's cells, in any order.
        plan: the run's plan.json; `cells` names all cells that were planned.
        run_dir: holds the sample grids under cells/<id>/.
        unreadable: cell -> why its record cannot be read.
    """
    records = sorted(records, key=record_order)
    is_smoke = plan.smoke
    write_csv(results_frame(records, is_smoke), run_dir / "results.csv")
    rows = comparison(records, is_smoke)
    sets = side_by_side(rows)
    drawn = [pictures(members, f"-{i + 1}" if i else "") for i, members in enumerate(sets)]
    all_drawn = [picture for some in drawn for picture in some]
    write_pictures(all_drawn, run_dir / "figures", NAMES)
    context = _context(records, rows, sets, drawn, plan, run_dir, unreadable or {})
    write_page(run_dir / "index.html", "page.html.j2", all_drawn, **context)


def _context(
    records: Sequence[Record],
    rows: Sequence[Row],
    sets: Sequence[list[Row]],
    drawn: Sequence[Sequence[Picture]],
    plan: RunPlan,
    run_dir: Path,
    unreadable: Mapping[str, str],
) -> dict[str, Any]:
    is_smoke = plan.smoke
    missing = _missing(records, plan, unreadable)
    protocols = _protocols(records)
    return {
        "name": f"{plan.suite.name}{' (smoke run)' if is_smoke else ''}",
        "description": plan.suite.description,
        "smoke": SMOKE_RUN if is_smoke else "",
        "verdicts": [] if is_smoke else [_verdict(members, len(sets) > 1, is_over=not missing) for members in sets],
        "counts": {**_counts(records), "missing": len(missing), "unreadable": len(unreadable)},
        "against": "the same checkpoint without guidance" if guidance.is_swept(rows) else "the dense row",
        "has_guidance": any(requested.is_guided(record) for record in records),
        "has_routers": any(record.method == "mod" for record in records),
        "is_digits": any(record.config.get("data", {}).get("name") == "digits" for record in records),
        "facts": _facts(records, [row for members in sets for row in members], plan),
        "parts": [_part(members, some, len(sets) > 1) for members, some in zip(sets, drawn, strict=True)],
        "samples": sample_grids(rows, run_dir),
        "not_done": [record for record in records if record.status != "done"],
        "missing": missing,
        "cells": _cells(records),
        "conditions": {"training": _training(records)}
        | plan.model_dump(mode="json", exclude=_NOT_CONDITIONS, exclude_unset=True),
        "protocols": protocols,
        "cautions": [
            *(f"a cell is left out of all that follows: {reason}." for reason in unreadable.values()),
            *_unfinished(records, plan, len(missing)),
            *cautions.mixed_conditions(records),
            *cautions.mixed_data(records),
            *cautions.judged_by_teacher(rows),
            *cautions.unusable_fids(records, rows),
            *cautions.lower_over_other_seeds(rows),
            *cautions.disturbed_timing(rows),
            *cautions.starved(rows),
            *sorted({str(details["caution"]) for details in protocols.values() if "caution" in details}),
        ],
        "columns": COLUMNS,
    }


def _verdict(rows: Sequence[Row], several: bool, is_over: bool) -> dict[str, Any]:
    """Two sentences on one architecture; a lead and a statement for each of several."""
    architectures = by_architecture(rows)
    if guidance.is_swept(rows):
        group, quality, cost = rows[0].group, guidance.lead(rows), guidance.scope(rows)
        families = guidance.statements(rows)
    elif len(architectures) == 1:
        (group, quality, cost), families = verdicts(rows, is_over)[0], []
        if told := contrasts.lead(rows):
            quality, cost = told, f"{quality} {cost}"
    else:
        group, quality, cost, families = rows[0].group, depths.lead(rows) or lead(rows), scope(rows), statements(rows)
    is_one = len(architectures) == 1
    title = _title(group, with_backbone=is_one, with_objective=is_one, with_protocol=True) if several else ""
    return {
        "title": title,
        "quality": quality,
        "cost": cost,
        "families": families,
        "power": detectable(_ranked_sets(rows)),
    }


def _ranked_sets(rows: Sequence[Row]) -> list[tuple[str, Sequence[Row]]]:
    """Rows whose FIDs the verdict ranks together, with a name."""
    if guidance.is_swept(rows):
        found = guidance.checkpoints(rows)
        return [(made.name, [row for sweep in made.judged for row in sweep.rows]) for made in found]
    return [(members[0].architecture, members) for members in by_architecture(rows)]


def _part(rows: Sequence[Row], drawn: Sequence[Picture], several: bool) -> dict[str, Any]:
    """The tables of rows that stand side by side, a table per architecture, with their pictures before or after."""
    architectures = by_architecture(rows)
    is_folded = len(architectures) > 1 or guidance.is_swept(rows)
    first = [picture for picture in drawn if is_folded and picture.name.partition("-")[0] in _LEADING]
    return {
        "first": first,
        "tables": [_table(members, several, len(architectures) > 1) for members in architectures],
        "heading": f"Rows of each {what_differs(rows)}" if len(architectures) > 1 else "All rows" if is_folded else "",
        "pictures": [picture for picture in drawn if picture not in first],
    }


def _table(rows: Sequence[Row], with_protocol: bool, with_params: bool) -> dict[str, Any]:
    several = with_params or with_protocol
    title = _title(rows[0].group, with_backbone=True, with_objective=several, with_protocol=with_protocol)
    params = f", {millions(rows[0].cost('params'))} parameters" if with_params else ""
    return {"title": f"{title}{params}", "view": comparison_view(rows)}


def _title(group: Group, with_backbone: bool, with_objective: bool, with_protocol: bool) -> str:
    parts = (
        group.backbone if with_backbone else "",
        f"objective {group.objective}" if group.objective and with_objective else "",
        f"iteration {group.iteration:,}" if group.iteration else "",
        f"protocol {group.protocol}" if group.protocol and with_protocol else "",
    )
    return ", ".join(filter(None, parts))


def _counts(records: Sequence[Record]) -> dict[str, int]:
    return {status: sum(r.status == status for r in records) for status in ("done", "failed", "skipped")}


def _missing(records: Sequence[Record], plan: RunPlan, unreadable: Mapping[str, str]) -> list[tuple[str, str]]:
    """Cells that were planned and have left nothing yet, each with its row and seed."""
    have = {record.cell for record in records} | unreadable.keys()
    names = {cell: f"{row} seed {seed}" for cell, (row, seed) in plan.rows.items()}
    return [(cell, names.get(cell, "")) for cell in plan.cells if cell not in have]


def _unfinished(records: Sequence[Record], plan: RunPlan, missing: int) -> list[str]:
    """What of the run is still to come."""
    planned, is_timed = len(plan.cells), bool(plan.timing.pairs)
    untimed = sum(r.status == "done" and r.timing is None and not requested.is_evaluated_only(r) for r in records)
    told = (
        (missing, f"{missing:,} of {planned:,} planned cells have no result yet (listed below)"),
        (untimed * is_timed, f"the speed of {plural(untimed, 'trained cell')} is not measured yet"),
    )
    if not (texts := [text for count, text in told if count]):
        return []
    return [f"{'; '.join(texts)}{': figures and verdicts are those of what is there' if records else ''}."]


def _facts(records: Sequence[Record], rows: Sequence[Row], plan: RunPlan) -> list[tuple[str, str]]:
    """What a reader wants to know first, in a line."""
    facts = {
        "backbone": ", ".join(_backbones(rows)),
        "objective": ", ".join(dict.fromkeys(row.group.objective for row in rows if row.group.objective)),
        "data": ", ".join(sorted({str(record.config.get("data", {}).get("name", "")) for record in records})),
        "seeds": ", ".join(str(seed) for seed in sorted({record.seed for record in records})),
        "device": plan.numerics.device_name or plan.numerics.device,
    }
    return [(name, value) for name, value in facts.items() if value]


def _backbones(rows: Sequence[Row]) -> list[str]:
    found = list(dict.fromkeys(row.group.backbone for row in rows))
    return list(short_names(found).values()) if len(found) > 1 else found


def _cells(records: Sequence[Record]) -> dict[str, Any]:
    """Every cell at its last iteration, and the decimals of each column."""
    evaluations = [record.last for record in records if record.last]
    return {
        "metrics": _CELL_METRICS,
        "are_compiled": any(record.conditions.compile for record in records),
        "places": {metric: decimals(getattr(e, metric) for e in evaluations) for metric in _CELL_METRICS},
        "records": records,
    }


def _training(records: Sequence[Record]) -> dict[str, str]:
    """What was asked of the training of all cells; of settings that differ, every value."""
    asked_for = [record.config.get("training", {}) for record in records if not requested.is_evaluated_only(record)]
    keys = dict.fromkeys(key for one in asked_for for key in one)
    found = {key: dict.fromkeys(flat(one.get(key)) or DASH for one in asked_for) for key in keys}
    return {key: " or ".join(values) for key, values in found.items()}


def _protocols(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Fingerprint -> its details."""
    found = {e.protocol: e.protocol_details for record in records for e in record.evaluations if e.protocol}
    return dict(sorted(found.items()))
