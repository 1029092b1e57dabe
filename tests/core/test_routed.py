"""What a trained network can be asked for while it is sampled, told before anything is trained."""

from __future__ import annotations

import pytest

from tread_bench.core.config.suite import Suite
from tread_bench.core.problems import SuiteError
from tread_bench.suite.plan import expand

DIT = {"name": "DiT", "depth": 6, "hidden": 16, "heads": 2, "patch": 2}
UVIT = {**DIT, "name": "U-ViT"}


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


UNLABELLED = {"training.label_dropout": 0}
ALL_BLOCKS = {"name": "path_drop", "blocks": "0:2,3:-1"}
MISTAKES = [
    (ALL_BLOCKS, {}, ".blocks", "leaves no block"),
    ({"name": "path_drop"}, {"method": "tread", "routes": "0:-1@0.5"}, "", "leaves no block"),
    ("cfg", UNLABELLED, ".name", "set training.label_dropout above 0"),
    ({"name": "sparse", "blocks": "2:3", "label_weak": False}, UNLABELLED, ".name", "set training.label_dropout above"),
    ({"name": "tread_released", "blocks": "2:3"}, UNLABELLED, ".name", "set training.label_dropout above 0"),
    ({"name": "path_drop", "blocks": "2:3"}, UNLABELLED, ".name", "set training.label_dropout above 0"),
    ({"name": "cfg", "interval": [0.4, 0.5]}, {}, ".interval", "lies in it, from 0.3333 to 1; widen it"),
    ({"name": "cfg", "interval": [1.0, 2.0]}, {}, ".interval", "widen it"),  # above its lower end
    ({"name": "sparse", "blocks": "1:3", "strong": 0.5, "weak": 0.5}, {}, "", "must be less than weak 0.5"),
    ({"name": "sparse", "blocks": "1:3", "strong": 0.9, "weak": 0.5}, {}, "", "must be less than weak 0.5"),
]


@pytest.mark.parametrize(("rule", "keys", "place", "told"), MISTAKES)
def test_what_a_network_cannot_be_asked_for_is_told_at_its_place(rule, keys, place, told):
    found, message = problem_of(rule, **keys)
    name_of_text = found.endswith("guidance") and isinstance(rule, str)
    assert (found == f"base.sampling.guidance{place}" or name_of_text) and told in message


@pytest.mark.parametrize(
    ("rule", "keys"),
    [
        ("cfg", {}),
        ({"name": "cfg", "interval": [0.9, 1.0]}, {}),
        ({"name": "sparse", "blocks": "2:3"}, UNLABELLED),
        ({"name": "path_drop", "blocks": "2:3", "label_weak": True}, UNLABELLED),
        ({"name": "path_drop", "blocks": "1:2"}, {}),
    ],
)
def test_what_it_can_be_asked_for_is_planned(rule, keys):
    assert plan_of(rule, **keys).cells


@pytest.mark.parametrize("blocks", ["1:2", "0:1", "3:4"])
def test_path_drop_across_a_long_skip_is_refused_and_symmetrical_blocks_are_planned(blocks):
    place, message = problem_of({"name": "path_drop", "blocks": blocks}, UVIT)
    assert place == "base.sampling.guidance.blocks"
    assert "long skip of U-ViT" in message
    assert plan_of({"name": "path_drop", "blocks": "2:4"}, UVIT).cells


@pytest.mark.parametrize(
    ("sampling", "told", "place"),
    [
        ({"guidance": {"name": "path_drop", "blocks": "1:2"}, "guidance_scale": 2}, "long skip", "guidance.blocks"),
        ({"guidance": "cfg"}, "set guidance_scale", ""),
        ({"guidance": "cfg", "guidance_scale": 1}, None, ""),
    ],
)
def test_a_row_that_judges_others_is_told_before_they_are_trained_and_a_rule_must_be_given_its_scale(
    sampling, told, place
):
    rows = {"dense": {}, "guided": {"evaluate": "dense", "sampling": sampling}}
    base = {"backbone": UVIT, "training": {"iterations": 8}}
    suite = Suite.model_validate({"name": "study", "base": base, "rows": rows})
    if told is None:
        assert expand(suite).cells
        return
    with pytest.raises(SuiteError, match=told) as caught:
        expand(suite)
    assert ".".join(map(str, caught.value.problems[0].loc)).startswith(f"rows.guided.sampling.{place}".rstrip("."))
