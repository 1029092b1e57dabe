"""The report of a run: one HTML file that needs nothing beside it, the figures as files, and results.csv."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports import asked, guidance
from reports.architectures import by_architecture, short_names, side_by_side, what_differs
from reports.columns import COLUMNS
from reports.comparison import Group, Row, comparison, record_order
from reports.family_verdict import lead, scope, statements
from reports.figures import NAMES, pictures
from reports.figures.style import Picture
from reports.numbers import decimals, millions, number, plural
from reports.samples import sample_grids
from reports.table_view import comparison_view
from reports.tables import flat, results_frame, write_csv
from reports.verdict import verdicts
from tread_bench.conditions import all_of, spread
from tread_bench.records import Record
from tread_bench.store import write_atomically

_CELL_METRICS = {
    "fid": "FID",
    "kid": "KID",
    "validation_loss": "Validation loss",
    "inception_score": "IS",
    "precision": "Precision",
    "recall": "Recall",
}
_LEADING = ("depths", "routing_gain", "guidance", "selectors")  # pictures that come before tables that are folded
_NOT_CONDITIONS = ("schema_version", "suite", "cells")


def render(records: Sequence[Record], plan: Mapping[str, Any], run_dir: Path) -> None:
    """Write results.csv, figures/*.svg, figures/*.png and index.html into `run_dir`, each whole.

    Args:
        records: of the run's cells, in any order.
        plan: the run's plan.json; `cells` names all cells that were planned.
        run_dir: holds the sample grids under cells/<id>/.
    """
    records = sorted(records, key=record_order)
    write_csv(results_frame(records), run_dir / "results.csv")
    rows = comparison(records)
    sets = side_by_side(rows)
    drawn = [pictures(members, f"-{i + 1}" if i else "") for i, members in enumerate(sets)]
    _write_figures([picture for some in drawn for picture in some], run_dir / "figures")
    page = _template(**_context(records, rows, sets, drawn, plan, run_dir))
    write_atomically(run_dir / "index.html", page.encode("utf-8", "replace"))


def _write_figures(drawn: Sequence[Picture], folder: Path) -> None:
    """The pictures as files; those of an earlier report that are no longer drawn go."""
    for picture in drawn:
        write_atomically(folder / f"{picture.name}.svg", picture.svg)
        write_atomically(folder / f"{picture.name}.png", picture.png)
    current = {picture.name for picture in drawn}
    for path in folder.glob("*.*") if folder.is_dir() else ():
        if path.suffix in (".svg", ".png") and path.stem.partition("-")[0] in NAMES and path.stem not in current:
            path.unlink()


def _template(**context: Any) -> str:
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(flat=flat, number=number, plural=plural)
    templates = files("reports") / "templates"
    script = (templates / "page.js").read_text(encoding="utf-8")
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = (templates / "page.css").read_text(encoding="utf-8")
    return environment.get_template("page.html.j2").render(
        **context,
        script=Markup(script),
        style=Markup(style),
        script_hash=script_hash,  # the package's own files
    )


def _context(
    records: Sequence[Record],
    rows: Sequence[Row],
    sets: Sequence[list[Row]],
    drawn: Sequence[Sequence[Picture]],
    plan: Mapping[str, Any],
    run_dir: Path,
) -> dict[str, Any]:
    suite = plan.get("suite", {})
    protocols = _protocols(records)
    return {
        "name": suite.get("name") or (records[0].suite if records else "empty run"),
        "description": suite.get("description", ""),
        "verdicts": [_verdict(members, len(sets) > 1) for members in sets],
        "counts": _counts(records, plan),
        "against": "the same checkpoint without guidance" if guidance.is_swept(rows) else "the dense row",
        "has_guidance": any(asked.is_guided(record) for record in records),
        "is_placement": _is_placement(rows),
        "is_digits": any(record.config.get("data", {}).get("name") == "digits" for record in records),
        "facts": _facts(records, rows, plan),
        "parts": [_part(members, some, len(sets) > 1) for members, some in zip(sets, drawn, strict=True)],
        "samples": sample_grids(rows, run_dir),
        "not_done": [record for record in records if record.status != "done"],
        "cells": _cells(records),
        "conditions": {key: value for key, value in plan.items() if key not in _NOT_CONDITIONS},
        "protocols": protocols,
        "cautions": [
            *_mixed_conditions(records),
            *sorted({str(details["caution"]) for details in protocols.values() if "caution" in details}),
        ],
        "columns": COLUMNS,
    }


def _is_placement(rows: Sequence[Row]) -> bool:
    """Whether it is the place of TREAD's routes that rows of one architecture differ in."""
    places = [{tuple(r.spans) for r in members if r.first.method == "tread"} for members in by_architecture(rows)]
    return {row.first.method for row in rows} <= {"dense", "tread"} and max(map(len, places), default=0) > 1


def _verdict(rows: Sequence[Row], several: bool) -> dict[str, Any]:
    """Two sentences on one architecture; a lead and a statement for each of several."""
    architectures = by_architecture(rows)
    if guidance.is_swept(rows):
        group, quality, cost = rows[0].group, guidance.lead(rows), guidance.scope(rows)
        families = guidance.statements(rows)
    elif len(architectures) == 1:
        (group, quality, cost), families = verdicts(rows)[0], []
    else:
        group, quality, cost, families = rows[0].group, lead(rows), scope(rows), statements(rows)
    is_one = len(architectures) == 1
    title = _title(group, with_backbone=is_one, with_objective=is_one, with_protocol=True) if several else ""
    return {"title": title, "quality": quality, "cost": cost, "families": families}


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


def _counts(records: Sequence[Record], plan: Mapping[str, Any]) -> dict[str, int]:
    have = {record.cell for record in records}
    by_status = {status: sum(r.status == status for r in records) for status in ("done", "failed", "skipped")}
    return {**by_status, "missing": len(set(plan.get("cells", ())) - have)}


def _facts(records: Sequence[Record], rows: Sequence[Row], plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a reader wants to know first, in a line."""
    numerics = plan.get("numerics", {})
    facts = {
        "backbone": ", ".join(_backbones(rows)),
        "objective": ", ".join(dict.fromkeys(row.group.objective for row in rows if row.group.objective)),
        "data": ", ".join(sorted({str(record.config.get("data", {}).get("name", "")) for record in records})),
        "seeds": ", ".join(str(seed) for seed in sorted({record.seed for record in records})),
        "device": str(numerics.get("device_name") or numerics.get("device") or ""),
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
        "places": {metric: decimals(getattr(e, metric) for e in evaluations) for metric in _CELL_METRICS},
        "records": records,
    }


def _mixed_conditions(records: Sequence[Record]) -> list[str]:
    """That rows do not compare as they stand, where their cells were not made under the same conditions."""
    mixed = spread([one for record in records if record.conditions for one in all_of(record.conditions)])
    if not mixed:
        return []
    told = "; ".join(f"{name}: {' or '.join(values)}" for name, values in mixed.items())
    return [f"the cells were not all made under the same conditions, which can change figures by itself ({told})."]


def _protocols(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Fingerprint -> its details."""
    found = {e.protocol: e.protocol_details for record in records for e in record.evaluations if e.protocol}
    return dict(sorted(found.items()))
