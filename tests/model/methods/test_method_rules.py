"""What methods, schedules, auxiliary losses and guidance refuse, where it is written, and the way out."""

from __future__ import annotations

import pytest
import torch

from tests.model.methods.subjects import cell_of, inputs, network_of, watch
from tests.small_backbones import take_whole_rows_alone
from tread_bench.core.config.suite import Suite
from tread_bench.core.problems import SuiteError
from tread_bench.suite.plan import expand

DIT = {"name": "DiT", "depth": 12, "hidden": 64, "heads": 4, "patch": 2}
UVIT = {"name": "U-ViT", "depth": 12, "hidden": 64, "heads": 4, "patch": 2}
DRWKV = {"name": "DRWKV", "depth": 13, "hidden": 32, "patch": 2}
MASK = {"name": "mask", "decoder_heads": 4}
DEFERRED = {"name": "deferred_masking", "mixer_heads": 5}
ELIT = {"name": "elit", "groups": 2}

TWO_WEIGHTS = {"name": "mae", "route_weights": [1, 1]}
OF_A_MODEL = {"name": "repa", "model": "test_vit"}
LATENTS = {"data": "random_latents", "metrics.generate": False}


UNLABELLED = {"training.label_dropout": 0}
SPARSE = {"name": "sparse", "blocks": "1:3"}
PATH_DROP = {"name": "path_drop", "blocks": "2:3"}


def plan_of(row, backbone=DIT, **others):
    base = {"backbone": backbone, "training": {"iterations": 100}}
    return expand(Suite.model_validate({"name": "study", "base": base, "rows": {**others, "row": row}}))


def guided(rule, **keys):
    return {"sampling": {"steps": 3, "guidance": rule, "guidance_scale": 2}, **keys}


MISTAKES = [
    (guided({"name": "path_drop", "blocks": "0:2,3:-1"}), "guidance.blocks", "leaves no block"),
    (guided({"name": "path_drop"}, method="tread", routes="0:-1@0.5"), "guidance", "leaves no block"),
    (guided("cfg", **UNLABELLED), "guidance", "set training.label_dropout above 0"),
    (guided({**SPARSE, "label_weak": False}, **UNLABELLED), "guidance.name", "set training.label_dropout above 0"),
    (guided({**SPARSE, "name": "tread_released"}, **UNLABELLED), "guidance.name", "set training.label_dropout above"),
    (guided(PATH_DROP, **UNLABELLED), "guidance.name", "set training.label_dropout above 0"),
    (guided({"name": "cfg", "interval": [0.4, 0.5]}), "guidance.interval", "lies in it, from 0.3333 to 1; widen it"),
    (guided({"name": "cfg", "interval": [1.0, 2.0]}), "guidance.interval", "widen it"),  # above its lower end
    (guided({**SPARSE, "strong": 0.5, "weak": 0.5}), "guidance", "must be less than weak 0.5"),
    (guided({**SPARSE, "strong": 0.9, "weak": 0.5}), "guidance", "must be less than weak 0.5"),
    ({"sampling": {"guidance": "cfg"}}, "sampling", "set guidance_scale"),
    ({"method": "mask", "routes": "2:8@0.5"}, "routes", "0:-1@RATE"),
    ({"method": "mask", "routes": "0:5@0.5,6:11@0.5"}, "routes", "one route"),
    (
        {"method": {**MASK, "decoder_heads": 7}, "routes": "0:-1@0.5"},
        "decoder_heads",
        "divide method.decoder_width",
    ),
    ({"method": {**MASK, "decoder_width": 30}, "routes": "0:-1@0.5"}, "decoder_width", "multiple of 4"),
    ({"method": "sprint", "routes": "1:4@0.5,6:8@0.5"}, "routes", "keep one"),
    ({"method": "sprint", "routes": "0:8@0.5"}, "routes", "start at 1 or later"),
    ({"method": "sprint", "routes": "2:11@0.5"}, "routes", "end at 10 or before"),
    ({"method": "mdt", "routes": "1:3@0.5"}, "routes", "write one route 0:END@RATE, ending at 10 or before"),
    ({"method": "mdt", "routes": "0:-1@0.5"}, "routes", "its last blocks decode all of them"),
    ({"method": "mdt", "routes": "0:3@0.5", "schedule.warmup": 0.5}, "warmup", "do not become one by degrees"),
    ({"method": "deferred_masking", "routes": "1:3@0.5"}, "routes", "deferred_masking drops tokens for all blocks"),
    ({"method": DEFERRED, "routes": "0:-1@0.5"}, "mixer_heads", "must divide method.mixer_width 512"),
    ({"method": {**ELIT, "groups": 3}, "routes": "2:8@0.75"}, "groups", "sides of the grid of tokens, 4 x 4"),
    ({"method": {**ELIT, "groups": 4}, "routes": "2:8@0.5"}, "routes", "never drops a latent: a group has 1"),
    ({"method": ELIT, "routes": "0:1@0.5,3:3@0.5"}, "routes", "method elit takes one route, here 0:1@0.5,3:3@0.5"),
    ({"method": ELIT, "routes": "2:8@0.5", "schedule.warmup": 0.5}, "warmup", "from the first step on; leave it out"),
    ({"method": "mod", "routes": "2:8@0.5", "selector": "rows"}, "selector", "leave selector out"),
    ({"method": "layer_skip", "routes": "2:8@0.5", "selector": "rows"}, "selector", "leave selector out"),
    ({"method": "mod", "routes": "2:8@0.5", "schedule.until": 0.5}, "schedule.until", "evaluated routed"),
    ({"method": "dense", "schedule.warmup": 0.1}, "schedule.warmup", "no routes"),
    ({"method": "dense", "schedule.until": 0.5}, "schedule.until", "dense_learning_rate"),
    ({"method": "tread", "routes": "2:8@0.5", "schedule": {"warmup": 0.6, "until": 0.5}}, "schedule", "dense part"),
    ({"method": "tread", "routes": "2:8@0.5", "schedule.dense_learning_rate": 1}, "dense_learning_rate", "until"),
    ({"method": "tread", "routes": "2:8@0.5", "schedule.until": 0}, "schedule.until", "greater than 0"),
    ({"method": "tread", "routes": "2:8@0.5", "schedule.until": 0.999}, "schedule.until", "less than a step"),
    ({"method": "tread", "routes": "2:8@0.5", "schedule.until": 0.001}, "schedule.until", "less than a step"),
    ({"method": "tread", "routes": "2:8@0.5", "schedule.warmup": 0.001}, "schedule.warmup", "less than a step"),
    ({"training.decay": {"name": "wsd", "share": 0.004}}, "training.decay.share", "less than a step"),
    ({"training.decay": {"name": "wsd", "share": 1}}, "training.decay", "less than 1"),
    ({"training.decay": {"name": "linear", "share": 0.5}}, "training.decay", "share"),
    ({"training.decay": "liner"}, "training.decay", "linear"),
    ({"method": MASK, "routes": "0:-1@0.5", "backbone.patch": 1}, "method", "method.mae_weight: 0"),
    ({"method": "tread", "routes": "2:8@0.5", "auxiliary": "mae", "backbone.patch": 1}, "auxiliary", "single value"),
    ({"method": "dense", "auxiliary": ["mae"]}, "auxiliary", "drop, mdt, sprint, tread"),
    ({"method": "mask", "routes": "0:-1@0.5", "auxiliary": ["mae"]}, "auxiliary", "method.mae_weight"),
    ({"method": "tread", "routes": "2:8@0.5", "auxiliary": [TWO_WEIGHTS]}, "auxiliary", "each of the 1 routes"),
    ({"method": "dense", "auxiliary": ["repa", "repa"]}, "auxiliary", "twice"),
    ({"method": "dense", "auxiliary": [{"name": "repa", "block": 12}]}, "auxiliary", "0..11"),
    ({"method": "dense", "auxiliary": [OF_A_MODEL]}, "auxiliary", "repa.weights"),
    ({"method": "dense", "auxiliary": [{**OF_A_MODEL, "weights": "/none/x.pth"}]}, "auxiliary", "no such file"),
    ({"auxiliary": [{**OF_A_MODEL, "weights": __file__}], **LATENTS}, "auxiliary", "random_latents has 4 channels"),
    ({"method": "layer_skip", "routes": "2:8@0.5", "auxiliary": ["repa"]}, "auxiliary", "no tokens to align"),
    ({"method": "dense", "auxiliary": "rapa"}, "auxiliary", "repa"),
    ({"method": "dense", "auxiliary": 3}, "auxiliary", "list of losses"),
    ({"method": "dense", "auxiliary": [{"name": "repa", "projektor": 3}]}, "auxiliary", "projector"),
]


@pytest.mark.parametrize(("row", "place", "message"), MISTAKES, ids=[message for *_, message in MISTAKES])
def test_a_mistake_is_located_and_tells_the_way_out(row, place, message):
    with pytest.raises(SuiteError) as caught:
        plan_of(row)
    (problem,) = caught.value.problems
    assert problem.loc[:2] == ("rows", "row")
    assert place in ".".join(map(str, problem.loc))
    assert message in problem.message


@pytest.mark.parametrize(
    ("method", "routes", "way_out"),
    [
        ("drop", "2:8@0.5", "2:12@0.5"),
        ("sprint", "2:8@0.5", "2:10@0.5"),
        ("layer_skip", "4:10@0.5", "2:10@0.5"),
        (ELIT, "2:8@0.5", "2:10@0.5"),
    ],
)
def test_a_long_skip_around_what_a_method_takes_away_is_refused_and_the_way_out_works(method, routes, way_out):
    with pytest.raises(SuiteError, match="long skip") as caught:
        plan_of({"method": method, "routes": routes}, UVIT)
    assert way_out in str(caught.value)
    assert plan_of({"method": method, "routes": way_out}, UVIT).cells
    assert plan_of({"method": method, "routes": routes}, DIT).cells


@pytest.mark.parametrize("blocks", ["1:2", "0:1", "3:4"])
def test_path_drop_across_a_long_skip_is_refused_before_what_it_judges_is_trained(blocks):
    rule = {"name": "path_drop", "blocks": blocks}
    for row in (guided(rule), guided(rule, evaluate="dense")):
        with pytest.raises(SuiteError, match="long skip of U-ViT") as caught:
            plan_of(row, UVIT, dense={})
        assert caught.value.problems[0].loc == ("rows", "row", "sampling", "guidance", "blocks")
    assert plan_of(guided({"name": "path_drop", "blocks": "5:7"}), UVIT).cells


@pytest.mark.parametrize(
    "row",
    [
        guided({"name": "cfg", "interval": [0.9, 1.0]}),
        guided(SPARSE, **UNLABELLED),
        guided({**PATH_DROP, "label_weak": True}, **UNLABELLED),
        guided(PATH_DROP),
        {"sampling": {"guidance": "cfg", "guidance_scale": 1}},
    ],
)
def test_guidance_that_a_network_can_be_asked_for_is_planned(row):
    assert plan_of(row).cells


@pytest.mark.parametrize("backbone", ["U-ViT", "DiS", "DiT"])
def test_a_family_tells_its_long_skips_as_its_blocks_make_them(backbone):
    model, saved, joined = network_of(cell_of("dense", backbone)).backbone, [], []

    def note(block, before, after):
        if len(after.skips) > len(before.skips):
            saved.append(block)
        elif len(after.skips) < len(before.skips):
            joined.append((saved.pop(), block))

    watch(model, note)
    with torch.no_grad():
        model(*inputs())
    assert sorted(joined) == sorted(model.family.long_skips(model.spec))


@pytest.mark.parametrize("patch", [2, 4], ids=["4 x 4 tokens", "2 x 2, so that the first token alone is on the way"])
def test_tokens_that_a_family_refuses_are_refused_during_a_warm_up_too(patch, monkeypatch):
    drwkv = {**DRWKV, "patch": patch}
    row = {"method": "tread", "routes": "3:9@0.5", "selector": "rows", "schedule.warmup": 0.1}
    assert plan_of(row, drwkv).cells
    take_whole_rows_alone(monkeypatch, "DRWKV")
    assert plan_of({**row, "schedule.warmup": 0}, drwkv).cells
    with pytest.raises(SuiteError, match=r"leave the warm-up out"):
        plan_of(row, drwkv)


def test_a_patch_of_one_value_is_fine_without_a_loss_on_it():
    assert plan_of({"method": {**MASK, "mae_weight": 0}, "routes": "0:-1@0.5", "backbone.patch": 1}).cells


def test_rows_that_differ_in_how_they_train_are_compared_with_the_plainly_dense_one():
    rows = {
        "repa": {"auxiliary": ["repa"]},
        "slower": {"schedule": {"until": 0.8, "dense_learning_rate": 1e-5}},
        "dense": None,
        "tread": {"method": "tread", "routes": "2:8@0.5", "schedule.warmup": 0.1, "auxiliary": ["mae"]},
    }
    base = {"backbone": DIT, "training": {"iterations": 100}}
    plan = expand(Suite.model_validate({"name": "study", "base": base, "rows": rows}))
    dense = plan.rows["dense"][0].id
    assert {cell.reference for cell in plan.cells} == {dense}
    assert len({cell.architecture_key for cell in plan.cells}) == 1
