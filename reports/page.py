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

from reports.architectures import by_architecture, side_by_side
from reports.columns import COLUMNS
from reports.comparison import Group, Row, comparison, record_order
from reports.family_verdict import lead, scope, statements
from reports.figures import NAMES, pictures
from reports.figures.style import Picture
from reports.numbers import decimals, millions, number, plural
from reports.table_view import comparison_view
from reports.tables import flat, results_frame, write_csv
from reports.verdict import verdicts
from tread_bench.records import Record
from tread_bench.store import write_atomically

SAMPLE_BUDGET_BYTES = 250_000  # of all embedded sample grids together, so that the page can be mailed
_PNG = b"\x89PNG\r\n\x1a\n"
_CELL_METRICS = {
    "fid": "FID",
    "kid": "KID",
    "validation_loss": "Validation loss",
    "inception_score": "IS",
    "precision": "Precision",
    "recall": "Recall",
}
_LEADING = ("routing_gain", "selectors")  # pictures that come before the tables of several architectures
_NOT_CONDITIONS = ("suite", "cells")


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
        "is_digits": any(record.config.get("data", {}).get("name") == "digits" for record in records),
        "facts": _facts(records, rows, plan),
        "parts": [_part(members, some, len(sets) > 1) for members, some in zip(sets, drawn, strict=True)],
        "samples": _samples(rows, run_dir),
        "not_done": [record for record in records if record.status != "done"],
        "cells": _cells(records),
        "conditions": {key: value for key, value in plan.items() if key not in _NOT_CONDITIONS},
        "protocols": protocols,
        "cautions": sorted({str(details["caution"]) for details in protocols.values() if "caution" in details}),
        "columns": COLUMNS,
    }


def _verdict(rows: Sequence[Row], several: bool) -> dict[str, Any]:
    """Two sentences on one architecture; a lead and a statement for each of several."""
    architectures = by_architecture(rows)
    if len(architectures) == 1:
        (group, quality, cost), families = verdicts(rows)[0], []
    else:
        group, quality, cost, families = rows[0].group, lead(rows), scope(rows), statements(rows)
    title = _title(group, with_backbone=len(architectures) == 1, with_protocol=True) if several else ""
    return {"title": title, "quality": quality, "cost": cost, "families": families}


def _part(rows: Sequence[Row], drawn: Sequence[Picture], several: bool) -> dict[str, Any]:
    """The tables of rows that stand side by side, a table per architecture, with their pictures before or after."""
    architectures = by_architecture(rows)
    first = [picture for picture in drawn if len(architectures) > 1 and picture.name.partition("-")[0] in _LEADING]
    return {
        "first": first,
        "tables": [_table(members, several, len(architectures) > 1) for members in architectures],
        "is_folded": len(architectures) > 1,
        "pictures": [picture for picture in drawn if picture not in first],
    }


def _table(rows: Sequence[Row], with_protocol: bool, with_params: bool) -> dict[str, Any]:
    title = _title(rows[0].group, with_backbone=True, with_protocol=with_protocol)
    params = f", {millions(rows[0].cost('params'))} parameters" if with_params else ""
    return {"title": f"{title}{params}", "view": comparison_view(rows)}


def _title(group: Group, with_backbone: bool, with_protocol: bool) -> str:
    parts = (
        group.backbone if with_backbone else "",
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
        "backbone": ", ".join(dict.fromkeys(row.architecture or row.group.backbone for row in rows)),
        "data": ", ".join(sorted({str(record.config.get("data", {}).get("name", "")) for record in records})),
        "seeds": ", ".join(str(seed) for seed in sorted({record.seed for record in records})),
        "device": str(numerics.get("device_name") or numerics.get("device") or ""),
    }
    return [(name, value) for name, value in facts.items() if value]


def _samples(rows: Sequence[Row], run_dir: Path) -> list[dict[str, str]]:
    """One grid per row: first seed, highest iteration, as a data URI while the budget lasts."""
    found, left = [], SAMPLE_BUDGET_BYTES
    for row in rows:
        record = next((r for r in row.done if r.last and r.last.samples), None)
        if record is None or record.last is None:
            continue
        picture = _grid(run_dir / "cells" / record.cell, record.last.samples or "")
        why = "not found" if not picture else "left out to keep this page small" if len(picture) > left else ""
        left -= 0 if why else len(picture)
        found.append(
            {
                "row": row.label,
                "about": f"seed {record.seed}, iteration {record.last.iteration:,}",
                "uri": "" if why else f"data:image/png;base64,{base64.b64encode(picture).decode()}",
                "why": f"cells/{record.cell}/{record.last.samples}: {why}",
            }
        )
    return found


def _grid(cell: Path, name: str) -> bytes:
    """The grid of samples; nothing for a file that is missing, outside the cell's folder, or no PNG."""
    path = cell / name
    if not path.resolve().is_relative_to(cell.resolve()) or not path.is_file():
        return b""
    content = path.read_bytes()
    return content if content.startswith(_PNG) else b""


def _cells(records: Sequence[Record]) -> dict[str, Any]:
    """Every cell at its last iteration, and the decimals of each column."""
    evaluations = [record.last for record in records if record.last]
    return {
        "metrics": _CELL_METRICS,
        "places": {metric: decimals(getattr(e, metric) for e in evaluations) for metric in _CELL_METRICS},
        "records": records,
    }


def _protocols(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Fingerprint -> its details."""
    found = {e.protocol: e.protocol_details for record in records for e in record.evaluations if e.protocol}
    return dict(sorted(found.items()))
