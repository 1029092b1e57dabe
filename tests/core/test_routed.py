"""What a trained network can be asked for while it is sampled, told before anything is trained."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tread_bench.core.config.sampling import Sampling, calls
from tread_bench.core.config.suite import Suite
from tread_bench.core.problems import SuiteError
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.suite.plan import expand

DIT = {"name": "DiT", "depth": 6, "hidden": 16, "heads": 2, "patch": 2}
UVIT = {**DIT, "name": "U-ViT"}
DRWKV = {"name": "DRWKV", "depth": 7, "hidden": 16, "patch": 2, "q_shift": "grid"}
DECAYING = {"name": "sparse", "blocks": "1:3", "strong": 0.5, "weak": 0.75, "decay": "cosine"}


def plan_of(guidance, backbone=DIT, **keys):
    base = {
        "backbone": backbone,
        "training.iterations": 8,
        "sampling": {"steps": 3, "guidance": guidance, "guidance_scale": 2},
        **keys,
    }
    return expand(Suite.model_validate({"name": "study", "base": base}))


def problem_of(*asked, **keys):
    with pytest.raises(SuiteError) as caught:
        plan_of(*asked, **keys)
    (problem,) = caught.value.problems
    return ".".join(map(str, problem.loc)), problem.message


@pytest.mark.parametrize(("blocks", "way_out"), [("1:2", "1:5"), ("0:1", "1:5"), ("3:4", "2:4")])
def test_path_drop_across_a_long_skip_is_refused_and_its_way_out_works(blocks, way_out):
    place, message = problem_of({"name": "path_drop", "blocks": blocks}, UVIT)
    assert place == "base.sampling.guidance.blocks"
    assert "long skip of U-ViT" in message and message.endswith(f"such as {way_out}")
    assert plan_of({"name": "path_drop", "blocks": way_out}, UVIT).cells
    assert plan_of({"name": "path_drop", "blocks": blocks}, DIT).cells


def test_path_drop_of_every_block_is_refused():
    rule = {"name": "path_drop", "blocks": "0:2,3:-1"}
    assert "leaves no block" in problem_of(rule)[1]
    own = problem_of({"name": "path_drop"}, method="tread", routes="0:-1@0.5")
    assert own[0] == "base.sampling.guidance" and "leaves no block" in own[1]


def test_a_row_that_judges_others_is_told_of_long_skips_before_they_are_trained():
    base = {"backbone": UVIT, "training": {"iterations": 8}}
    guided = {"sampling": {"guidance": {"name": "path_drop", "blocks": "1:2"}, "guidance_scale": 2}}
    rows = {"dense": {}, "guided": {"evaluate": "dense", **guided}}
    with pytest.raises(SuiteError, match="long skip of U-ViT") as caught:
        expand(Suite.model_validate({"name": "study", "base": base, "rows": rows}))
    assert caught.value.problems[0].loc == ("rows", "guided", "sampling", "guidance", "blocks")


def test_rates_that_decay_are_checked_on_their_whole_way():
    place, message = problem_of(DECAYING, DRWKV, selector="rows")
    assert place == "base.sampling.guidance.decay"
    assert "do not form a grid" in message and "leave decay out" in message
    assert plan_of({**DECAYING, "decay": "none"}, DRWKV, selector="rows").cells
    assert plan_of(DECAYING, {**DRWKV, "q_shift": "neighbours"}, selector="rows").cells
    constant = {"steps": 1, "guidance": DECAYING, "guidance_scale": 2}  # its only step has the first rates
    assert plan_of(DECAYING, DRWKV, selector="rows", sampling=constant).cells


@pytest.mark.parametrize(
    "rule",
    [
        "cfg",
        {"name": "sparse", "blocks": "2:3", "label_weak": False},
        {"name": "tread_released", "blocks": "2:3"},
        {"name": "path_drop", "blocks": "2:3"},
    ],
    ids=lambda rule: rule if isinstance(rule, str) else rule["name"],
)
def test_without_label_dropout_no_branch_may_leave_out_the_label(rule):
    place, message = problem_of(rule, **{"training.label_dropout": 0})
    assert place.startswith("base.sampling.guidance")
    assert "set training.label_dropout above 0" in message
    assert plan_of(rule).cells


@pytest.mark.parametrize(
    "rule", [{"name": "sparse", "blocks": "2:3"}, {"name": "path_drop", "blocks": "2:3", "label_weak": True}], ids=str
)
def test_a_rule_that_tells_the_label_asks_for_no_label_dropout(rule):
    assert plan_of(rule, **{"training.label_dropout": 0}).cells


@pytest.mark.parametrize("objective", ["flow", "edm"])
@pytest.mark.parametrize("steps", [1, 3, 8])
def test_an_interval_is_planned_where_it_guides_a_step_and_nowhere_else(objective, steps):
    times = build_objective(plan_of("cfg", objective=objective).cells[0].cell.objective).sampling_times(steps)
    middles = [(a + b) / 2 for a, b in pairwise(times)]
    ends = sorted({0.0, *times, *middles, 2 * times[0]})
    for low, high in ((a, b) for a in ends for b in ends if a < b):
        rule = {"name": "cfg", "interval": [low, high]}
        sampling = {"steps": steps, "guidance": rule, "guidance_scale": 2}
        if any(call.guided for call in calls(Sampling.model_validate(sampling), times)):
            assert plan_of(rule, objective=objective, sampling=sampling).cells
        else:
            assert problem_of(rule, objective=objective, sampling=sampling)[0].endswith("guidance.interval")


def test_an_interval_between_two_times_is_told_the_sampler_s_times():
    message = problem_of({"name": "cfg", "interval": [0.4, 0.5]})[1]
    assert "[0.4, 0.5]: none of the sampler's times lies in it, which are 1, 0.6667, 0.3333 (sampling.ste" in message


def test_intervals_and_decays_of_thousands_of_steps_are_planned():
    sampling = {"steps": 10_000, "guidance": {**DECAYING, "interval": [0.4, 0.4 + 2e-4]}, "guidance_scale": 2}
    assert plan_of(DECAYING, {**DRWKV, "q_shift": "neighbours"}, sampling=sampling).cells
    assert "do not form a grid" in problem_of(DECAYING, DRWKV, selector="rows", sampling=sampling)[1]


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.9, 0.5)])
def test_sparse_guidance_has_a_weak_branch_that_is_sparser(rates):
    place, message = problem_of({"name": "sparse", "blocks": "1:3", "strong": rates[0], "weak": rates[1]})
    assert place == "base.sampling.guidance"
    assert "must be less than weak 0.5" in message


@pytest.mark.parametrize("row", [{}, {"evaluate": "dense"}], ids=["trains", "judges"])
def test_a_rule_of_guidance_must_be_given_its_scale_which_may_be_1(row):
    base = {"backbone": DIT, "training": {"iterations": 8}}
    rows = {"dense": {}, "guided": {**row, "sampling": {"guidance": "cfg"}}}
    with pytest.raises(SuiteError, match="set guidance_scale") as caught:
        expand(Suite.model_validate({"name": "study", "base": base, "rows": rows}))
    assert caught.value.problems[0].loc[:3] == ("rows", "guided", "sampling")
    rows["guided"]["sampling"]["guidance_scale"] = 1
    assert expand(Suite.model_validate({"name": "study", "base": base, "rows": rows})).cells
