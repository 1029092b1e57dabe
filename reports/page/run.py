"""The report of a run: one self-contained HTML file, the figures as files, and results.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from tread_bench.core.describe.dialects import DIALECTS
from tread_bench.core.describe.routes import resolve_routes
from tread_bench.core.stored.documents import Registered, RunPlan
from tread_bench.core.stored.records import Record, of_study
from tread_bench.reports.claims import (
    break_even,
    cautions,
    contrasts,
    depths,
    guidance,
    onset,
    tuning,
)
from tread_bench.reports.claims.decision import Choice, Decision
from tread_bench.reports.claims.evidence import decisions
from tread_bench.reports.claims.families import scope, statements, summary
from tread_bench.reports.claims.verdict import answers, detectable, price_of
from tread_bench.reports.figures.onset import onset_map
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.figures.pictures import pictures
from tread_bench.reports.figures.style import row_key, theme
from tread_bench.reports.frame import (
    columns_of,
    flat,
    further_figures,
    record_order,
    results_frame,
    title_of,
    write_csv,
)
from tread_bench.reports.page.document import write_export, write_page
from tread_bench.reports.page.samples import Shown, sample_grids
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.architectures import by_architecture, short_names, side_by_side, told_apart, what_differs
from tread_bench.reports.rows.comparison import are_beside_dense, comparison
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.tables.onset import onset_table
from tread_bench.reports.tables.tables import Table
from tread_bench.reports.tables.view import comparison_view, published
from tread_bench.reports.text import decision as decision_view
from tread_bench.reports.text.numbers import DASH, decimals, millions, names

_CELL_METRICS = ("fid", "sfid", "kid", "validation_loss", "inception_score", "precision", "recall")
# Pictures that come before tables that are folded.
_LEADING = ("break_even", "depths", "routing_gain", "guidance", "selectors")
_ANSWERS = (*_LEADING, "route_placement", "methods", "rates", "schedule", "fid_cost")  # the picture of the first screen
# Pictures that answer further questions, below a heading of their own.
_SECTIONS = {
    "speedup": "Speed",
    "step_parts": "Speed",
    "similarity": "Inside the network",
    "across_times": "Inside the network",
    "gradients": "Inside the network",
}
_NOT_CONDITIONS = {"schema_version", "suite", "stand_ins", "cells", "references", "rows", "files", "registered"}


def render(
    records: Sequence[Record],
    plan: RunPlan,
    run_dir: Path | None,
    unreadable: Mapping[str, str] | None = None,
    out: Path | None = None,
    export: Path | None = None,
) -> None:
    """Write results.csv, figures/*.svg and index.html, each whole; and, where requested, an export of all tables.

    Args:
        records: of the run's cells, in any order.
        plan: the run's plan.json; `cells` names all cells that were planned.
        run_dir: holds the sample grids under cells/<id>/; None: the records are those of an export.
        unreadable: cell -> why its record cannot be read.
        out: the folder to write into; None: `run_dir`, whose own files are replaced.
        export: the folder for tables as CSV, Markdown and LaTeX and pictures as SVG, PNG and PDF.

    Raises:
        OutputError: what would be replaced is a link.
    """
    folder = out or run_dir
    assert folder is not None, "an export needs a folder to write into"

    # The comparison of rows, and the figures of each set of rows that stand side by side.
    candidates = [record for record in records if record.role == "tuning"]
    records = sorted(of_study(records), key=record_order)
    is_smoke = plan.smoke
    rows = comparison(records, is_smoke)
    sets = side_by_side(rows)
    drawn = [pictures(members, f"-{i + 1}" if i else "", export is not None) for i, members in enumerate(sets)]
    drawn = _titled_apart(drawn, _names(sets))
    decided = _decided(rows, sets)

    # What is concluded over all of them: from how much compute on routing pays.
    onsets = [] if is_smoke else onset.panels(records, plan.registered)
    with theme(export is not None):
        map_of_onsets = onset_map(onsets)
    report = _Report(
        records=records,
        tuning=candidates,
        rows=rows,
        sets=sets,
        drawn=drawn,
        decided=decided,
        onsets=onsets,
        onset_map=map_of_onsets,
        plan=plan,
        unreadable=unreadable or {},
    )
    context = _context(report, run_dir)
    all_drawn = [*chain.from_iterable(drawn), *filter(None, [map_of_onsets])]

    # The table of all cells, the figures, the page and the export.
    write_csv(results_frame(records, is_smoke), folder / "results.csv")
    write_page(folder, "page.html.j2", all_drawn, **context)
    if export:
        made = [decision for one in decided for _, decision in one]
        tests = [decision_view.as_table("The tests behind the decision", made)] if made else []
        tables = [onset_table(onsets)] if onsets else []
        write_export(export, [*_tables(context["parts"]), *tests, *tables], all_drawn, is_smoke)


def _names(sets: Sequence[Sequence[Row]]) -> list[str]:
    """What each set of rows is called beside the others, whatever the architectures in it."""
    return told_apart([members[0].group._replace(backbone="", objective="") for members in sets])


def _titled_apart(drawn: Sequence[Sequence[Picture]], names: Sequence[str]) -> list[list[Picture]]:
    """The pictures of each set; those that several sets have are told apart by the names of the sets."""
    in_sets = Counter(chain.from_iterable({picture.title for picture in some} for some in drawn))
    return [
        [replace(one, title=f"{one.title}, {label}") if in_sets[one.title] > 1 else one for one in some]
        for some, label in zip(drawn, names, strict=True)
    ]


_Decided = tuple[list[Row], Decision]  # the rows of a comparison, and what they decide


@dataclass(frozen=True, kw_only=True)
class _Report:
    """What a page is made of."""

    records: Sequence[Record]  # of the study
    tuning: Sequence[Record]  # of what chose its learning rates
    rows: Sequence[Row]
    sets: Sequence[list[Row]]  # of rows that stand side by side
    drawn: Sequence[Sequence[Picture]]  # of each set
    decided: Sequence[list[_Decided]]  # of each set
    onsets: Sequence[onset.Panel]
    onset_map: Picture | None
    plan: RunPlan
    unreadable: Mapping[str, str]


def _context(report: _Report, run_dir: Path | None) -> dict[str, Any]:
    """What the template shows."""
    records, rows, sets, plan = report.records, report.rows, report.sets, report.plan
    is_smoke = plan.smoke
    missing = _missing([*records, *report.tuning], plan, report.unreadable)
    is_over = not missing and not plan.pending
    others = _others(chain.from_iterable(report.drawn))
    drawn = [[picture for picture in some if picture not in others.values()] for some in report.drawn]
    lead = _lead(drawn)
    parts = [_part(members, some, lead, len(sets) > 1) for members, some in zip(sets, drawn, strict=True)]
    sections = _sections(chain.from_iterable(drawn))
    return {
        # The head: what ran, and what it says.
        "plan": plan,
        "name": f"{plan.suite.name}{' (smoke run)' if is_smoke else ''}",
        "smoke": cautions.of_smoke_run(plan.stand_ins) if is_smoke else "",
        "verdicts": [] if is_smoke else _verdicts(report, is_over),
        "stated": _stated(report, plan.registered, is_over) if plan.registered and not is_smoke else None,
        "counts": {**Counter(r.status for r in records), "missing": len(missing), "unreadable": len(report.unreadable)},
        "lead": lead,
        "others": others,
        "facts": [
            *_facts(records, list(chain.from_iterable(sets)), plan),
            *tuning.cost(report.tuning, records),
        ],
        "cautions": _cautions(report, len(missing)),
        "is_export": run_dir is None,
        # Which explanations the reader needs.
        "against": _against(rows),
        "is_about_speed": break_even.is_about_speed(rows),
        "has_guidance": any(requested.is_guided(record) for record in records),
        "evaluated_routed": names(sorted({r.method for r in records if requested.is_evaluated_routed(r)})),
        "data_notes": sorted({found.note for r in records if (found := requested.data_family(r)) and found.note}),
        # Tables, figures and samples.
        "parts": parts,
        "figures_in_order": [lead, *_in_order(parts, sections)] if lead else [],
        "filters": _filters(rows),
        "keys": {row.label: row_key(row.label) for row in rows},
        "method_of": requested.method,
        "rate_of": tuning.of_row,
        "are_several": len(sets) > 1,
        "row_of": {record.cell: row_key(row.label) for row in rows for record in row.records},
        "sections": sections,
        "samples": sample_grids(rows, run_dir) if run_dir else Shown([], False, ""),
        "missing": missing,
        "cells": _cells(records),
        # How it was made.
        "conditions": {"training": _training(records)}
        | plan.model_dump(mode="json", exclude=_NOT_CONDITIONS, exclude_unset=True),
        "protocols": _protocols(records),
        "columns": columns_of(records),
    }


def _stated(report: _Report, registered: Registered, is_over: bool) -> dict[str, Any]:
    """What the suite stated before the run, what came of it, and the ratios behind that."""
    answers = onset.statements(report.onsets, report.records, registered, is_over)
    return {
        "registered": registered,
        "answers": answers,
        "table": onset_table(report.onsets) if report.onsets else None,
        "pictures": [*filter(None, [report.onset_map])],
    }


def _against(rows: Sequence[Row]) -> str:
    """What the differences of a page are paired with."""
    if guidance.is_swept(rows):
        return "the same checkpoint without guidance"
    return "the dense row" if are_beside_dense(rows) else "the row that a budget names, else with the dense row"


def _tables(parts: Sequence[Mapping[str, Any]]) -> list[Table]:
    """The tables of a page, to publish."""
    shown = chain.from_iterable(part["tables"] for part in parts)
    return [
        published(f"comparison-{place + 1}" if place else "comparison", table["title"], table["view"])
        for place, table in enumerate(shown)
    ]


def _cautions(report: _Report, missing: int) -> list[str]:
    """What a reader must know before comparing figures, the most serious first."""
    records, rows = report.records, report.rows
    of_protocols = {details["caution"] for details in _protocols(records).values() if "caution" in details}
    found = [
        *(f"a cell is left out of this page: {reason}." for reason in report.unreadable.values()),
        cautions.unfinished(records, report.plan.planned, missing, are_timed=bool(report.plan.timing.pairs)),
        cautions.mixed_conditions(records),
        cautions.mixed_data(records),
        cautions.evaluated_by_teacher(rows),
        cautions.not_finite(records),
        cautions.without_logarithm(rows),
        *cautions.lower_over_other_seeds(rows),
        cautions.disturbed_timing(rows),
        cautions.starved(rows),
        cautions.decaying(rows),
        cautions.optimizers(rows),
        tuning.untuned(rows),
        tuning.moved(rows),
        tuning.luck(rows),
        *sorted(map(str, of_protocols)),
    ]
    return [caution for caution in found if caution]


def _verdicts(report: _Report, is_over: bool) -> list[dict[str, Any]]:
    """The answer of each set of rows, apart from rows that others only start from."""
    sources = {requested.source(record) for record in report.records}
    of_sets = [
        (members, decided)
        for members, decided in zip(report.sets, report.decided, strict=True)
        if not all(row.is_dense and row.name in sources for row in members)
    ]
    names = _names([members for members, _ in of_sets])
    verdicts: list[dict[str, Any]] = []
    for name, (members, decided) in zip(names, of_sets, strict=True):
        is_first = bool(decided) and not any(verdict["decisions"] for verdict in verdicts)
        verdict = _verdict(members, decided, is_over, may_add_seeds=report.plan.registered is None)
        verdict["title"] = name
        verdict["reading"] = decision_view.reading(decided[0][1]) if is_first else ""  # once, below the first ones
        verdicts.append(verdict)
    return verdicts


def _verdict(rows: Sequence[Row], made: Sequence[_Decided], is_over: bool, may_add_seeds: bool) -> dict[str, Any]:
    """The answer and its price, on one architecture; a lead and a statement for each of several."""
    further: list[str] = []
    controls: Sequence[str] = ()
    families: list[tuple[str, str, str]] = []
    power = detectable(_ranked_sets(rows))

    # Of speed alone, of rules of guidance, of several architectures, or of one.
    is_one = len(by_architecture(rows)) == 1
    if break_even.is_about_speed(rows):
        quality, cost, families = break_even.summary(rows), break_even.scope(), break_even.statements(rows)
        power = break_even.rule(rows)
    elif guidance.is_swept(rows):
        quality, cost, families = guidance.summary(rows), guidance.scope(rows), guidance.statements(rows)
    elif not is_one:
        quality, cost, families = depths.summary(rows) or summary(rows), scope(rows), statements(rows)
    else:
        answer = answers(rows, is_over)[0]
        said = [contrasts.summary(rows), answer.at_cost, answer.at_iterations, answer.disagreement]
        quality, *further = filter(None, said)
        cost = " ".join(filter(None, (answer.cost, answer.to_target)))
        controls = answer.controls

    # A decision has the price of its own route; all else is what it rests on.
    decided = [_decision(members, found, is_over, may_add_seeds) for members, found in made]
    overview = ""
    if len(decided) == 1:
        further = [*further, cost, power]
        cost = decided[0]["price"]
        power = decided[0]["certainty"]
    elif decided:
        further = [*further, power]
        named = {one["architecture"]: found for one, (_, found) in zip(decided, made, strict=True)}
        overview = decision_view.overview(named, is_over)
        power = decision_view.certainties(named, decimals(row.fid.mean for row in rows if row.fid))

    return {
        "quality": quality,
        "further": [*filter(None, further)],
        "controls": controls,
        "overview": overview,
        "decisions": decided,
        "cost": cost,
        "families": families,
        "power": power,
        "scope": decision_view.scope(rows) if decided else "",
        "rates": tuning.summary(rows),
    }


def _decided(rows: Sequence[Row], sets: Sequence[Sequence[Row]]) -> list[list[_Decided]]:
    """The decisions of each set of rows, of comparisons in which anything was tested."""
    made = [(members, found) for members, found in decisions(rows) if found.choice is not Choice.UNTESTED]
    return [[one for one in made if any(one[0][0] is row for row in of_set)] for of_set in sets]


def _decision(rows: Sequence[Row], decision: Decision, is_over: bool, may_add_seeds: bool) -> dict[str, Any]:
    """A decision with its strip of tests, and its price."""
    places = decimals(row.fid.mean for row in rows if row.fid)
    route = next(row for row in rows if row.short_label == decision.route)
    return {
        "architecture": rows[0].architecture,
        "sentence": decision_view.sentence(decision, is_over),
        "tests": decision_view.strip(decision, places),
        "legend": decision_view.legend(decision, route),
        "price": price_of(route),
        "dialects": _dialects(route) if decision.choice.is_for_routing else [],
        "certainty": decision_view.certainty(decision, places, may_add_seeds),
    }


def _dialects(row: Row) -> list[tuple[str, str]]:
    """The row's routes as trainers write them: for what, and the text."""
    routes = resolve_routes(row.first.routes, row.blocks)
    return [(dialect.title, dialect.write(routes)) for dialect in DIALECTS.values() if dialect.takes(routes)]


def _ranked_sets(rows: Sequence[Row]) -> list[tuple[str, Sequence[Row]]]:
    """Rows whose FIDs the verdict ranks together, with a name."""
    if guidance.is_swept(rows):
        ranked: list[tuple[str, Sequence[Row]]] = []
        for made in guidance.checkpoints(rows):
            ranked.append((made.name, list(chain.from_iterable(sweep.rows for sweep in made.judged))))
        return ranked
    return [(members[0].architecture, members) for members in by_architecture(rows)]


def _others(drawn: Iterable[Picture]) -> dict[str, Picture]:
    """Name of a picture -> the one that a reader can switch it to: of the same rows and title, on another basis."""
    first: dict[tuple[str, str], Picture] = {}
    others = {}
    for picture in drawn:
        _, _, rows = picture.name.partition("-")
        shown = first.setdefault((picture.title, rows), picture)
        if shown is not picture and picture.basis:
            others[shown.name] = picture
    return others


def _lead(drawn: Sequence[Sequence[Picture]]) -> Picture | None:
    """The picture that answers the question of the run, of the first rows that stand side by side."""
    found = {_stem(picture): picture for picture in (drawn[0] if drawn else ())}
    return next((found[name] for name in _ANSWERS if name in found), None)


def _stem(picture: Picture) -> str:
    """Its name without the number of its rows."""
    return picture.name.partition("-")[0]


def _sections(drawn: Iterable[Picture]) -> dict[str, list[Picture]]:
    """The pictures that answer further questions, by heading."""
    found = [picture for picture in drawn if _stem(picture) in _SECTIONS]
    return by_key(found, lambda picture: _SECTIONS[_stem(picture)])


def _in_order(parts: Sequence[Mapping[str, Any]], sections: Mapping[str, list[Picture]]) -> list[Picture]:
    """The pictures of the comparison."""
    found = [picture for part in parts for picture in (*part["first"], *part["pictures"])]
    return [*found, *chain.from_iterable(sections.values())]


def _filters(rows: Sequence[Row]) -> dict[str, list[str]]:
    """What a reader may select rows and cells by, where there is a choice."""
    records = [record for row in rows for record in row.records]
    found = {
        "family": sorted({record.family for record in records}),
        "method": list(dict.fromkeys(requested.method(record) for record in records)),
        "seed": [str(seed) for seed in sorted({record.seed for record in records})],
    }
    return {name: values for name, values in found.items() if len(values) > 1}


def _part(rows: Sequence[Row], drawn: Sequence[Picture], lead: Picture | None, several: bool) -> dict[str, Any]:
    """The tables of rows that stand side by side, a table per architecture, with their pictures before or after."""
    architectures = by_architecture(rows)
    are_several = len(architectures) > 1
    is_folded = are_several or guidance.is_swept(rows)

    # Tables that are folded have a heading, and the leading pictures come before them.
    heading = "All rows" if is_folded else ""
    if are_several:
        heading = f"Rows of each {what_differs(rows)}"
    shown = [picture for picture in drawn if picture is not lead and _stem(picture) not in _SECTIONS]
    first = [picture for picture in shown if is_folded and _stem(picture) in _LEADING]
    return {
        "heading": heading,
        "first": first,
        "tables": [_table(members, several, are_several) for members in architectures],
        "pictures": [picture for picture in shown if picture not in first],
    }


def _table(rows: Sequence[Row], with_protocol: bool, with_params: bool) -> dict[str, Any]:
    left_out = [] if with_protocol else ["data", "protocol"]
    if not with_protocol and not with_params:
        left_out.append("objective")
    params = f", {millions(rows[0].cost('params'))} parameters" if with_params else ""
    return {"title": f"{_title(rows[0], left_out)}{params}", "view": comparison_view(rows)}


_IN_TITLE = {
    "backbone": "{}",
    "data": "data {}",
    "objective": "objective {}",
    "start": "from the weights of {}",
    "iteration": "iteration {:,}",
    "protocol": "protocol {}",
}


def _title(row: Row, left_out: Collection[str]) -> str:
    """What the group of a row has, but for parts of it that go without saying."""
    group = row.group._replace(data=requested.data(row.first))
    found = {name: getattr(group, name) for name in _IN_TITLE if name not in left_out}
    return ", ".join(_IN_TITLE[name].format(value) for name, value in found.items() if value)


def _missing(records: Sequence[Record], plan: RunPlan, unreadable: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """Planned cells without a result yet, each with its row and seed."""
    there = {record.cell for record in records} | unreadable.keys()
    return [(cell, *plan.rows[cell]) for cell in plan.cells if cell not in there]


def _facts(records: Sequence[Record], rows: Sequence[Row], plan: RunPlan) -> list[tuple[str, str]]:
    """The main facts about the run, in a line."""
    facts = {
        "backbone": ", ".join(_backbones(rows)),
        "objective": ", ".join(dict.fromkeys(row.group.objective for row in rows if row.group.objective)),
        "data": ", ".join(sorted({requested.data(record) for record in records})),
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
    measured = [name for name in _CELL_METRICS if any(e.figure(name) is not None for e in evaluations)]
    titles = {name: title_of(name) for name in measured}
    titles |= {figure.name: figure.title for figure in further_figures(records)}
    return {
        "metrics": titles,
        "are_compiled": any(record.conditions.compile for record in records),
        "places": {name: decimals(e.figure(name) for e in evaluations) for name in titles},
        "records": records,
    }


def _training(records: Sequence[Record]) -> dict[str, str]:
    """The requested training of all cells; every value of settings that differ."""
    trained = [record for record in records if not requested.is_evaluated_only(record)]
    configs = [record.config.get("training", {}) for record in trained]
    settings = {}
    for key in dict.fromkeys(chain.from_iterable(configs)):
        values = dict.fromkeys(flat(config.get(key)) or DASH for config in configs)
        settings[key] = " or ".join(values)
    if "optimizer" in settings:  # of which a record leaves out the default
        settings["optimizer"] = " or ".join(dict.fromkeys(map(requested.optimizer, trained)))
    if "ema_decay" in settings:
        settings["ema_decay"] += ", from step 0 at most (1 + step) / (10 + step)"
    return settings


def _protocols(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Fingerprint -> its details."""
    evaluations = chain.from_iterable(record.evaluations for record in records)
    found = {one.protocol: one.protocol_details for one in evaluations if one.protocol}
    return dict(sorted(found.items()))
