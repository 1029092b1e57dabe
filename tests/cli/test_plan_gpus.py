"""`plan --gpus` and `--budget`: hours on several GPUs, and the rows that fit into some."""

from __future__ import annotations

import json
import math

import pytest

from tests.command_line import tread_bench
from tests.toy_suite import METRICS, write_suite
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.services.gpus import WithinBudget, hours_of, on_gpus, within_budget
from tread_bench.services.hours import Pace, add_hours, tuning_hours
from tread_bench.suite.load import load_plan
from tread_bench.suite.plan import plan_table

SUITE = f"""\
name: toy
seeds: 1
base:
  backbone: {{name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}}
  training: {{iterations: 40, batch: 16, learning_rate: 1e-3}}
  sampling: {{steps: 2}}
  metrics: {{{METRICS}}}
rows:
  dense: {{}}
  routed: {{method: tread, routes: 1:2@0.5, training: {{budget: {{macs_of: other}}}}}}
  wider: {{backbone: {{hidden: 32}}}}
  guided: {{evaluate: dense, sampling: {{guidance: cfg, guidance_scale: 2}}}}
  other: {{backbone: {{depth: 3}}}}
"""


@pytest.fixture
def plan(tmp_path):
    return load_plan(write_suite(tmp_path, SUITE), [])


def table(plan, **hours):
    return [
        {"row": row, "cells": len(cells), "device_hours": hours[row], "tuning_hours": 0.0, "shared_hours": 0.0}
        for row, cells in plan.rows.items()
    ]


def test_the_longest_cells_begin_first_and_rows_that_evaluate_come_after_all_others(plan):
    rows = table(plan, dense=3.0, routed=3.0, wider=2.0, other=2.0, guided=1.0)
    found = on_gpus(plan, rows, 2)
    assert found.a_cell_each == (3 + 2) + 1  # 3 and 2 on either GPU, then the evaluation
    assert found.one_on_all == pytest.approx(11 / 2) and found.scaling == pytest.approx(5.5 / 6)
    assert "takes 6 hours in all" in found.in_words() and "above 92% of linear scaling" in found.in_words()
    assert on_gpus(plan, rows, 1).a_cell_each == 11


def test_where_all_gpus_are_busy_all_the_time_one_cell_at_a_time_takes_longer(plan):
    found = on_gpus(plan, table(plan, dense=2.0, routed=2.0, wider=2.0, other=2.0, guided=0.0), 4)
    assert found.a_cell_each == found.one_on_all == 2 and found.in_words().endswith("takes longer.")


def test_a_suite_that_only_times_steps_has_no_hours(plan):
    with pytest.raises(UserError, match="--gpus 8: no row of this suite trains or evaluates"):
        on_gpus(plan, table(plan, dense=0.0, routed=0.0, wider=0.0, other=0.0, guided=0.0), 8)


def test_a_row_comes_with_those_that_it_cannot_do_without(plan):
    rows = table(plan, dense=3.0, routed=3.0, wider=9.0, other=2.0, guided=1.0)
    found = within_budget(plan, rows, 9.0, {})
    assert found.rows == ["dense", "routed", "guided", "other"] and found.left_out == ["wider"]
    assert found.device_hours == 9 and "--rows dense,routed,guided,other" in found.in_words()
    assert within_budget(plan, rows, 6.0, {}).rows == ["dense", "guided", "other"]  # `other`: the budget of `routed`
    assert within_budget(plan, rows, 1.0, {}).in_words() == "No row fits into 1 device-hours."


def test_a_row_comes_with_what_chooses_its_learning_rate(tmp_path):
    """Four candidates of 10 iterations choose for both lengths, 10 and 40; one hour trains 10."""
    text = SUITE.split("rows:")[0].replace("1e-3", "1e-3, decay: wsd") + (
        "rows: {long: {training: {iterations: 40}}, short: {training: {iterations: 10}}}\n"
        "tune: {candidates: [1e-3, 2e-3, 3e-3, 4e-3], seeds: 1, share: 1, shortest: true}\n"
    )
    plan = load_plan(write_suite(tmp_path, text), [])
    rows = plan_table(plan, cell_cost)
    pace = Pace({}, rows[1]["training_macs"] / 3600, "stated", evaluation=math.inf)
    assert add_hours(rows, plan, pace) == pytest.approx(4 + 4 + 1 - rows[1]["shared_hours"])
    of_tuning = tuning_hours(plan, pace)
    assert within_budget(plan, rows, 7.9, of_tuning).rows == ["short"]  # 1 + 4; `long` alone would take 4 + 4
    assert within_budget(plan, rows, 7.9, of_tuning).device_hours == pytest.approx(5)
    assert within_budget(plan, rows, 9.1, of_tuning).rows == ["long", "short"]


def test_rows_are_quoted_as_a_shell_needs_them():
    found = WithinBudget(5.0, 4.0, ["dense iterations=96"], ["routed iterations=96"])
    assert "--rows 'dense iterations=96', which take 4." in found.in_words()


@pytest.mark.parametrize("text", ["3d", "0", "-1", "nan", "inf", ""])
def test_hours_are_a_finite_number_above_0(text):
    assert hours_of("200h") == hours_of("200") == 200
    with pytest.raises(UserError, match="must be a finite number of device-hours above 0, such as 200h"):
        hours_of(text)


def test_as_it_is_typed(tmp_path):
    suite = write_suite(tmp_path, SUITE)
    done = tread_bench("plan", suite, "--step-time", 3.6e6, "--gpus", 8, "--budget", "80h")
    assert done.returncode == 0 and "On 8 GPUs, a cell on each takes" in done.stdout, done.stderr
    assert "GiB" in done.stdout and "80 device-hours are enough for --rows dense" in done.stdout
    document = json.loads(tread_bench("plan", suite, "--step-time", 3.6e6, "--gpus", 8, "--json").stdout)
    assert document["on_gpus"]["gpus"] == 8 and "within_budget" not in document
    assert document["on_gpus"]["one_on_all"] == pytest.approx(document["device_hours"] / 8)
    refused = tread_bench("plan", suite, "--gpus", 8)
    assert refused.returncode == 2 and "give --step-time MS, or a run that timed it" in refused.stderr
