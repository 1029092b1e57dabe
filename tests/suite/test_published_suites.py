"""The suites of published tables: each can be planned where its data are, and one runs to its end on small ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tread_bench.cli.costs import plan_table
from tread_bench.cli.hours import add_hours, pace_of
from tread_bench.core.numbers.costs import cell_cost
from tread_bench.core.stored.documents import CellRequest, RunPlan, initial_record
from tread_bench.core.stored.records import Evaluation, Record
from tread_bench.reports.comparison import comparison_view
from tread_bench.reports.published import published_fid
from tread_bench.reports.study import Study
from tread_bench.suite.decidable import obstacles
from tread_bench.suite.files import Look
from tread_bench.suite.load import find_suite, load_plan, shipped_suites
from tread_bench.suite.plan import Plan, PlannedCell

JIT = "imagenet256/jit_tokens"
PUBLISHED = sorted(name for name in shipped_suites() if name.startswith("imagenet") and name != JIT)
CAPTIONED = ("coco256/tread", "coco256/uvit", "coco256/mmdit")


def planned(name: str) -> Plan:
    """The plan of a suite, whose files are elsewhere."""
    return load_plan(shipped_suites()[name], look=Look.NOT_AT_ALL, allows_missing=True)


ASK_WHAT_A_ROUTE_IS_WORTH = [
    *(name for name in PUBLISHED if not name.endswith(("long_training", "finetune"))),
    *CAPTIONED,
    JIT,
    "onset",
    "cifar10/one_evening",
    "cifar10/route_placement_cpu",
]


@pytest.mark.parametrize("name", ASK_WHAT_A_ROUTE_IS_WORTH)
def test_a_route_s_worth_is_asked_at_equal_macs_and_seeds_at_the_hours_that_are_stated(name: str) -> None:
    text = shipped_suites()[name].read_text()
    stated = re.search(r"About ([\d,]+) \w+-hours \(plan --step-time ([\d.]+)\)", text)
    assert stated is not None
    plan = load_plan(find_suite(name), look=Look.HEADERS, allows_missing=True)
    table = plan_table(plan)
    assert round(add_hours(table, plan, pace_of(stated[2], plan, table))) == int(stated[1].replace(",", ""))
    assert len(plan.suite.seeds) == 3 and obstacles(plan) == []


def at(scale: float, fid: float) -> list[float | None]:
    """A figure at its own scale of those that a suite sweeps."""
    return [fid if swept == scale else None for swept in (1.25, 1.5, 2)]


# Figures of the TREAD paper, Tables 1, 2, 4, 5 and 6, in the order of a suite's rows.
TABLES = {
    "imagenet256/backbones": [
        *(68.4, 43.47, 23.33, 19.47, 47.04, 21.34, 9.1, 7.38, 57.6, 33, 18.8, 17.2, 38.08, 15.98, 5.91, 4.89),
        *(59.84, 53.79, 69.39, 61.17, None),
    ],
    "imagenet256/lightningdit": [5.14, 3.71, None],
    "imagenet256/selection_rate": [43.47, 26.5, 21.34, 49.29, None],
    "imagenet256/location_scaling": [19.47, 7.38, 18.81, None],
    "imagenet256/long_training": [9.62, 3.93, 4.96, 5.69, 8.61, *at(1.5, 2.27), *at(1.5, 2.28), *at(1.5, 2.06)],
    "imagenet256/multi_route": [19.47, 7.38, None, None, None],
    "imagenet512/route": [62.8, 40.9, None],
}


@pytest.mark.parametrize("name", TABLES)
def test_rows_stand_beside_the_published_figure_of_that_very_row(name: str) -> None:
    plan = planned(name)
    rows = Study(done(cell) for cell in plan.cells).rows
    found = {row.name: published_fid(row) for row in rows}
    assert [found[row] and found[row].fid for row in plan.rows] == TABLES[name]
    assert "Published" in comparison_view(rows).columns
    of_other_length = Study(done(cell, batch=8) for cell in plan.cells).rows
    assert "Published" not in comparison_view(of_other_length).columns


def test_maskdit_s_figure_stands_beside_that_model_after_its_unmasked_phase_alone() -> None:
    (cell,) = planned("imagenet256/long_training").rows["maskdit"]
    record = done(cell)
    (row,) = Study([record]).rows
    assert published_fid(row) == (5.69, "")
    throughout, other_decoder = {"schedule": {"until": 1}}, {"method": {"name": "mask", "decoder_width": 1152}}
    for changed in (throughout, other_decoder, {"method": {"name": "mask"}}):
        (other,) = Study([record.model_copy(update={"config": {**record.config, **changed}})]).rows
        assert published_fid(other) is None


STORED = Path(__file__).parents[1] / "stored"
PLAN_DOCUMENT = RunPlan.model_validate_json((STORED / "plan.json").read_text())


def done(cell: PlannedCell, batch: int | None = None) -> Record:
    config = cell.cell.model_dump(mode="json")
    config["training"]["batch"] = batch or config["training"]["batch"]
    figures = {"train_seconds": 0, "validation_loss": 1, "validation_loss_per_time": {}, "fid": 1, "num_samples": 50000}
    evaluations = [Evaluation(iteration=iteration, **figures) for iteration in cell.cell.metrics.at]
    names = {"cell": cell.id, "suite": "s", "row": cell.row, "seed": cell.seed, "reference": cell.reference}
    request = CellRequest(**names, backbone=cell.cell.backbone.label, config=config)
    return initial_record(request, PLAN_DOCUMENT, status="done", cost=cell_cost(cell.cell), evaluations=evaluations)
