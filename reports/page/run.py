"""The report of a run: one self-contained HTML file, the figures as files, and results.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from tread_bench.core.describe.dialects import DIALECTS
from tread_bench.core.describe.routes import resolve_routes
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.records import Record
from tread_bench.reports import cautions, requested
from tread_bench.reports.comparison import TableView, comparison_view
from tread_bench.reports.decision import Choice, Decision, ranked_candidates
from tread_bench.reports.differences import ITERATIONS
from tread_bench.reports.figures.draw import draw
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.figures.pictures import pictures
from tread_bench.reports.figures.style import theme
from tread_bench.reports.frame import flat, further_figures, title_of, write_csv
from tread_bench.reports.page.document import write_export, write_page
from tread_bench.reports.page.samples import Shown, sample_grids
from tread_bench.reports.questions import break_even, controls, guidance, onset, tuning
from tread_bench.reports.questions.speed import price_of
from tread_bench.reports.row import Row, by_architecture, short_names, told_apart
from tread_bench.reports.study import Study
from tread_bench.reports.text import decision as decision_view
from tread_bench.reports.text.numbers import DASH, decimals, fid_difference, millions, names, plural

_CELL_METRICS = ("fid", "sfid", "kid", "validation_loss", "inception_score", "precision", "recall")
# Pictures that answer further questions, below a heading of their own.
_SECTIONS = {"speedup": "Speed", "similarity": "Inside the network", "gradients": "Inside the network"}
_IN_TITLE = {
    "backbone": "{}", "data": "data {}", "objective": "objective {}", "start": "from the weights of {}",
    "iteration": "iteration {:,}", "protocol": "protocol {}",
}  # fmt: skip
_NOT_CONDITIONS = {"schema_version", "suite", "stand_ins", "cells", "references", "rows", "files", "registered"}
_DIGITS = 6  # of a number under Conditions


def render(
    records: Sequence[Record],
    plan: RunPlan,
    run_dir: Path | None,
    unreadable: Mapping[str, str] | None = None,
    out: Path | None = None,
    export: Path | None = None,
) -> Study:
    """Write results.csv, figures/*.svg and index.html, each whole; and, where requested, an export of all tables.

    Returns the study that they are of.

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

    # The figures of each set of rows that stand side by side, and that of all: from how much compute on routing pays.
    study = Study(records, plan.smoke, plan.registered)
    drawn = []
    for place, (members, name) in enumerate(zip(study.sets, _names(study.sets), strict=True)):
        found = pictures(members, study.frame, f"-{place + 1}" if place else "")
        drawn.append([replace(one, title=f"{one.title}, {name}") if name else one for one in found])
    page = Page(study, plan, run_dir, unreadable or {}, drawn)

    # The table of all cells, the figures, the page and the export.
    all_drawn = [*chain.from_iterable(drawn), *filter(None, [page.onset_map])]
    write_csv(study.frame, folder / "results.csv")
    write_page(folder, "page.html.j2", all_drawn, name=page.name, page=page)
    if export:
        tables = []
        for place, table in enumerate(chain.from_iterable(part.tables for part in page.parts)):
            tables.append(table.as_table(f"comparison-{place + 1}" if place else "comparison"))
        if tested := [made for _, made in _tested(study)]:
            tables.append(decision_view.as_table("The tests behind the decision", tested))
        write_export(export, tables, all_drawn, plan.smoke)
    return study


def _tested(study: Study) -> list[tuple[list[Row], Decision]]:
    """The decisions of which some test was made."""
    return [one for one in study.decisions if one[1].choice is not Choice.UNTESTED]


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A decision with its strip of tests, and what to do next."""

    architecture: str
    sentence: str
    tests: Sequence[decision_view.Mark]
    legend: str
    dialects: Sequence[tuple[str, str]]  # for what, and the route as that trainer writes it
    next_step: tuple[str, str] | None  # what, and the options that the run's command takes for it


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What rows that stand side by side say; "" where there is nothing to say."""

    rates: str
    title: str = ""
    regime: str = ""  # on what
    headline: str = ""  # of what is no decision, or of several
    decisions: Sequence[Decided] = ()
    reading: str = ""  # how tests are read, once on a page
    families: Sequence[tuple[str, str, str]] = ()  # name, parameters, statement
    price: str = ""
    certainty: str = ""
    scope: str = ""
    controls: Sequence[str] = ()


@dataclass(frozen=True)
class Part:
    """The tables of rows that stand side by side, a table per architecture, with their pictures; `heading`: folded."""

    heading: str
    tables: Sequence[TableView]
    pictures: Sequence[Picture]


class Page:
    """What the template shows."""

    def __init__(
        self,
        study: Study,
        plan: RunPlan,
        run_dir: Path | None,
        unreadable: Mapping[str, str],
        drawn: Sequence[Sequence[Picture]],
    ) -> None:
        records, rows, sets = study.records, study.rows, study.sets
        self.plan, self.records = plan, records

        # The head: what ran, and what it says.
        self.name = f"{plan.suite.name}{' (smoke run)' if plan.smoke else ''}"
        self.smoke = cautions.of_smoke_run(plan.stand_ins) if plan.smoke else ""
        with_result = {record.cell for record in (*records, *study.candidates)} | unreadable.keys()
        self.missing = [(cell, *plan.rows[cell]) for cell in plan.cells if cell not in with_result]
        self.counts = Counter(str(record.status) for record in records)
        self.counts |= {"missing": len(self.missing), "unreadable": len(unreadable)}
        backbones = list(dict.fromkeys(row.group.backbone for row in rows))
        self.facts = {
            "backbone": ", ".join(short_names(backbones).values() if len(backbones) > 1 else backbones),
            "objective": ", ".join(dict.fromkeys(row.group.objective for row in rows if row.group.objective)),
            "data": ", ".join(sorted({requested.data(record) for record in records})),
            "seeds": ", ".join(str(seed) for seed in sorted({record.seed for record in records})),
            "device": plan.numerics.device_name or plan.numerics.device,
            "tuning": tuning.cost(study.candidates, records),
        }
        of_protocols = {details["caution"] for details in _protocols(records).values() if "caution" in details}
        self.cautions = [
            *(f"a cell is left out of this page: {reason}." for reason in unreadable.values()),
            *cautions.of_records(records, plan.planned, len(self.missing), are_timed=bool(plan.timing.pairs)),
            *cautions.of_rows(rows),
            *tuning.cautions(rows),
            *sorted(map(str, of_protocols)),
        ]
        self.answers = [] if plan.smoke else _answers(study, plan)

        # What the suite stated before the run, what came of it, and the picture of the ratios behind that.
        self.stated = study.stated
        self.stated_answers: list[str] = []
        if self.stated:
            is_over = study.is_over(plan.planned)
            self.stated_answers, _ = onset.answered(study.onsets, records, self.stated, is_over)
        with theme():
            self.onset_map = draw(onset.figure(study.onsets))

        # Which explanations the reader needs.
        named = {(record.suite, requested.macs_of(record)) for record in records}
        self.against = "the row that a budget names, else with the dense row"
        if guidance.is_swept(rows):
            self.against = "the same checkpoint without guidance"
        elif all(row.is_dense for row in rows if (row.first.suite, row.name) in named):
            self.against = "the dense row"
        self.is_about_speed = break_even.is_about_speed(rows)
        self.has_guidance = any(requested.is_guided(record) for record in records)
        self.evaluated_routed = names(sorted({r.method for r in records if requested.is_evaluated_routed(r)}))
        families = filter(None, map(requested.data_family, records))
        self.data_notes = sorted({family.note for family in families} - {""})
        self.is_export = run_dir is None

        # The first picture answers the question of the run; those that answer further ones have a section.
        first = drawn[0] if drawn else ()
        self.lead = next((one for one in first if _stem(one) not in _SECTIONS), None)
        self.sections: dict[str, list[Picture]] = {}
        for picture in chain.from_iterable(drawn):
            if _stem(picture) in _SECTIONS:
                self.sections.setdefault(_SECTIONS[_stem(picture)], []).append(picture)

        # Tables, figures and samples.
        self.parts = []
        for members, of_set in zip(sets, drawn, strict=True):
            shown = [one for one in of_set if one is not self.lead and _stem(one) not in _SECTIONS]
            self.parts.append(_part(members, shown, len(sets) > 1))
        self.samples = sample_grids(rows, run_dir) if run_dir else Shown([], False, "")

        # Every cell at its last iteration, and the decimals of each metric.
        evaluations = [record.last for record in records if record.last]
        measured = [name for name in _CELL_METRICS if any(one.figure(name) is not None for one in evaluations)]
        self.metrics = {name: title_of(name) for name in measured}
        self.metrics |= {figure.name: figure.title for figure in further_figures(records)}
        self.places = {name: decimals(one.figure(name) for one in evaluations) for name in self.metrics}
        self.are_compiled = any(record.conditions.compile for record in records)

        # How it was made.
        self.conditions = _conditions(records, plan)
        self.protocols = {name: _said(details) for name, details in _protocols(records).items()}


def _names(sets: Sequence[Sequence[Row]]) -> list[str]:
    """What each set of rows is called beside the others, whatever the architectures in it."""
    return told_apart([members[0].group._replace(backbone="", objective="") for members in sets])


def _stem(picture: Picture) -> str:
    """Its name without the number of its rows."""
    return picture.name.partition("-")[0]


def _answers(study: Study, plan: RunPlan) -> list[Answer]:
    """The answer of each set of rows, apart from rows that others only start from."""
    sources = {requested.source(record) for record in study.records}
    shown = [rows for rows in study.sets if not all(row.is_dense and row.name in sources for row in rows)]
    tested = _tested(study)
    answers: list[Answer] = []
    for rows, title in zip(shown, _names(shown), strict=True):
        decided = [one for one in tested if one[0][0] in rows]
        answer = replace(_answer(rows, decided, study.is_over(plan.planned), plan), title=title)
        if decided and not any(other.decisions for other in answers):
            answer = replace(answer, reading=decision_view.reading(decided[0][1]))
        answers.append(answer)
    return answers


def _answer(rows: Sequence[Row], decided: Sequence[tuple[list[Row], Decision]], is_over: bool, plan: RunPlan) -> Answer:
    # Of speed alone, or of rules of guidance.
    rates = tuning.summary(rows)
    if break_even.is_about_speed(rows):
        return Answer(
            rates=rates, headline=break_even.summary(rows), price=break_even.scope(), certainty=break_even.rule(rows),
            families=break_even.statements(rows),
        )  # fmt: skip
    if guidance.is_swept(rows):
        families = guidance.statements(rows)
        return Answer(rates=rates, headline=guidance.summary(rows), certainty=guidance.scope(rows), families=families)

    # A decision, or several, or none.
    if not decided:
        headline, price = _without_decision(rows, is_over)
        return Answer(rates=rates, headline=headline, price=price)
    places = decimals(row.fid.mean for row in rows if row.fid)
    answer = Answer(
        rates=rates,
        regime=decision_view.regime(rows),
        decisions=[_decided(members, one, is_over, plan) for members, one in decided],
        scope=decision_view.scope(rows),
    )
    if len(decided) > 1:
        by_name = {members[0].architecture: decision for members, decision in decided}
        headline, certainty = decision_view.overview(by_name, is_over), decision_view.certainties(by_name, places)
        return replace(answer, headline=headline, certainty=certainty)
    members, decision = decided[0]
    route = _route(members, decision)
    return replace(
        answer, price=price_of(route), certainty=decision_view.certainty(decision, places),
        controls=controls.sentences(members, route, places),
    )  # fmt: skip


def _route(rows: Sequence[Row], decision: Decision) -> Row:
    return next(row for row in rows if row.short_label == decision.route)


def _decided(rows: Sequence[Row], decision: Decision, is_over: bool, plan: RunPlan) -> Decided:
    route = _route(rows, decision)
    routes = resolve_routes(route.first.routes, route.blocks)
    dialects = [(one.title, one.write(routes)) for one in DIALECTS.values() if one.takes(routes)]
    return Decided(
        architecture=rows[0].architecture,
        sentence=decision_view.sentence(decision, is_over),
        tests=decision_view.strip(decision, decimals(row.fid.mean for row in rows if row.fid)),
        legend=decision_view.legend(decision, route),
        dialects=dialects if decision.choice.is_for_routing else [],
        next_step=decision_view.next_step(decision, rows, may_add_seeds=plan.registered is None),
    )


def _without_decision(rows: Sequence[Row], is_over: bool) -> tuple[str, str]:
    """What is said of rows of which nothing is decided, untested, and a price."""
    if not any(row.done for row in rows):
        return "No cell of this comparison has finished, so there is no result yet.", ""
    others = [row for row in ranked_candidates(rows) if row.done]
    compared = []
    for row in others:
        if difference := row.difference(ITERATIONS):
            compared.append((row, difference))
    if not compared:
        routed = [row for row in others if row.spans]
        cheapest = min(routed, key=lambda row: row.cost("forward_macs") or 0, default=None)
        why = "no row was compared with dense" if any(row.fid for row in rows) else "FID was not measured"
        return f"No decision: {why}{'' if is_over else ' yet'}.", price_of(cheapest) if cheapest else ""
    row, difference = min(compared, key=lambda one: one[1].mean)
    shown = fid_difference(difference, decimals(other.fid.mean for other in rows if other.fid))
    chosen = "" if len(compared) == 1 else f", the lowest of {len(compared)} rows"
    return (
        f"No decision: nothing was compared at equal training MACs. At equal iterations {row.full_label} differs from "
        f"{row.reference_label} by {shown}, {plural(difference.n, 'seed')}{chosen}; this is not tested.",
        price_of(row),
    )


def _part(rows: Sequence[Row], shown: Sequence[Picture], several: bool) -> Part:
    architectures = by_architecture(rows)
    are_several = len(architectures) > 1
    heading = "All rows" if guidance.is_swept(rows) else ""
    if are_several:
        are_networks = len({row.group.backbone for row in rows}) > 1
        heading = f"Rows of each {'architecture' if are_networks else 'objective'}"
    tables = []
    for members in architectures:
        facts = members[0].group._asdict() | {"data": requested.data(members[0].first)}
        if not several:
            facts |= {"data": "", "protocol": "", "objective": facts["objective"] if are_several else ""}
        title = ", ".join(words.format(facts[name]) for name, words in _IN_TITLE.items() if facts[name])
        if are_several:
            title += f", {millions(members[0].cost('params'))} parameters"
        tables.append(comparison_view(members, title))
    return Part(heading, tables, shown)


def _conditions(records: Sequence[Record], plan: RunPlan) -> dict[str, Any]:
    """The requested training of all cells, every value of settings that differ; then what the plan says."""
    trained = [record for record in records if not requested.is_evaluated_only(record)]
    configs = [record.config.get("training", {}) for record in trained]
    settings = {}
    for key in dict.fromkeys(chain.from_iterable(configs)):
        values = dict.fromkeys(flat(_said(config.get(key))) or DASH for config in configs)
        settings[key] = " or ".join(values)
    if "optimizer" in settings:  # of which a record leaves out the default
        settings["optimizer"] = " or ".join(dict.fromkeys(map(requested.optimizer, trained)))
    if "ema_decay" in settings:
        settings["ema_decay"] += ", from step 0 at most (1 + step) / (10 + step)"
    of_plan = plan.model_dump(mode="json", exclude=_NOT_CONDITIONS, exclude_unset=True)
    return dict(_said({"training": settings, **of_plan}))


def _said(value: Any) -> Any:
    """Without empty entries, and numbers with at most six digits."""
    if isinstance(value, Mapping):
        found = {key: _said(one) for key, one in value.items()}
        return {key: one for key, one in found.items() if one not in ("", None, {}, [])}
    if isinstance(value, list):
        return [_said(one) for one in value]
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else value


def _protocols(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Fingerprint -> its details."""
    evaluations = chain.from_iterable(record.evaluations for record in records)
    found = {one.protocol: one.protocol_details for one in evaluations if one.protocol}
    return dict(sorted(found.items()))
