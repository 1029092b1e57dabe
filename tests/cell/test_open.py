"""Cells on machines that are not the runner's."""

from __future__ import annotations

import json
import platform
from dataclasses import replace

import pytest

from tread_bench.cell.open import Job
from tread_bench.core.stored.files import StoreError


@pytest.fixture
def elsewhere(trained_toy, tmp_path):
    """The run's folder as a runner on another machine would have written it."""

    def make(**changes: object):
        plan = json.loads((trained_toy / "plan.json").read_text())
        plan["numerics"] |= {key: value for key, value in changes.items() if key in plan["numerics"]}
        plan |= {key: value for key, value in changes.items() if key not in plan["numerics"]}
        (cell,) = trained_toy.glob("cells/dense-s0-*")
        (tmp_path / "cells" / cell.name).mkdir(parents=True)
        (tmp_path / "cells" / cell.name / "cell.json").write_text((cell / "cell.json").read_text())
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        return Job.open(tmp_path, cell.name)

    return make


def test_on_a_machine_like_the_runner_s_nothing_changes(elsewhere):
    job = elsewhere()
    assert job.here().plan.conditions == job.plan.conditions


@pytest.mark.parametrize(
    ("key", "value"), [("cpu_capability", "NEON"), ("device_name", "another CPU"), ("torch", "1.0"), ("versions", {})]
)
def test_a_machine_that_would_give_other_figures_refuses_the_cell_and_says_where_and_why(elsewhere, key, value):
    with pytest.raises(StoreError) as refused:
        elsewhere(**{key: value}).here()
    told = str(refused.value)
    assert platform.node() in told and "--accept-other-numerics" in told
    assert (key if key != "versions" else "timm") in told


def test_where_others_are_accepted_the_record_has_what_the_machine_is(elsewhere):
    job = elsewhere(cpu_capability="NEON", accept_other_numerics=True)
    record = job.here().initial_record()
    assert record.conditions.cpu_capability != "NEON"


def test_how_many_gpus_a_machine_has_is_no_difference(elsewhere):
    elsewhere(device_count=17).here()


def test_a_cell_draws_where_its_run_does(elsewhere):
    job = elsewhere()
    assert job.trainer().draws == "host" and "draws" not in job.plan.numerics.model_dump()
    numerics = job.plan.numerics.model_copy(update={"draws": "device"})
    there = replace(job, plan=job.plan.model_copy(update={"numerics": numerics}))
    assert there.trainer().draws == there.conditions.draws == "device"
