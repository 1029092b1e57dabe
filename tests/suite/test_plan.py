"""From suites to cells: merging, the matrix, resolution, names, references and costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tread_bench.backbones.dit.family import DIT
from tread_bench.cli.costs import plan_table
from tread_bench.core.config.suite import Cell, Suite
from tread_bench.core.describe import families as registry
from tread_bench.core.describe.families import Macs
from tread_bench.core.numbers import costs
from tread_bench.core.numbers.costs import Counts
from tread_bench.core.problems import SuiteError
from tread_bench.suite.load import load_plan
from tread_bench.suite.merge import Draft
from tread_bench.suite.plan import expand

CHECKOUT = Path(__file__).parents[2]
BASE = {
    "backbone": {"name": "DiT", "depth": 12, "hidden": 64, "heads": 4, "patch": 2},
    "training": {"iterations": 100},
}
TREAD = {"method": "tread", "routes": "2:8@0.5"}


def plan_of(base=None, **fields):
    return expand(Suite.model_validate({"name": "study", "base": {**BASE, **(base or {})}, **fields}))


def problems_of(base=None, **fields):
    with pytest.raises(SuiteError) as caught:
        plan_of(base, **fields)
    return [(problem.loc, problem.message) for problem in caught.value.problems]


# Merging


SMALL = {"name": "DiT", "depth": 4}


@pytest.mark.parametrize(
    ("layers", "merged"),
    [
        ([{"training.batch": 8, "training.betas": [0, 0]}], {"training": {"batch": 8, "betas": [0, 0]}}),
        ([{"training": {"batch": 8, "warmup": 5}}, {"training.batch": 9}], {"training": {"batch": 9, "warmup": 5}}),
        ([{"training": {"batch": 8}}, {"training": 3}], {"training": 3}),
        ([{"backbone": SMALL}, {"backbone": "DiT-S/2"}], {"backbone": {"name": "DiT-S/2"}}),
        ([{"backbone": SMALL}, {"backbone": {"name": "SiT"}}], {"backbone": {"name": "SiT"}}),
        ([{"backbone": SMALL}, {"backbone": {"depth": 6}}], {"backbone": {"name": "DiT", "depth": 6}}),
        ([{"backbone": SMALL}, {"backbone.name": "SiT"}], {"backbone": {"name": "SiT", "depth": 4}}),
    ],
)
def test_a_mapping_extends_and_a_choice_with_its_name_or_any_other_value_replaces(layers, merged):
    draft = Draft().lay(layers[0], ("base",))
    before = draft.copy()
    for layer in layers[1:]:
        draft.lay(layer, ("overrides",))
    assert draft.values == merged
    assert before.values == Draft().lay(layers[0], ("base",)).values


def test_layers_come_in_the_order_base_matrix_row_overrides():
    cells = plan_of(
        base={"training": {"iterations": 1, "batch": 1, "warmup": 1, "checkpoint_every": 1}},
        matrix={"training.batch": [2], "training.warmup": [2], "training.checkpoint_every": [2]},
        rows={"row": {"training.warmup": 3, "training.checkpoint_every": 3}},
        overrides={"training.checkpoint_every": 4},
    ).cells
    training = cells[0].cell.training
    assert (training.iterations, training.batch, training.warmup, training.checkpoint_every) == (1, 2, 3, 4)


# The matrix


AXES = {"training.batch": [1, 2], "training.warmup": [0, 5]}
ONE_AXIS = {"training.batch": [1, 2]}


@pytest.mark.parametrize(
    ("matrix", "batch_and_warmup"),
    [
        (AXES, [(1, 0), (1, 5), (2, 0), (2, 5)]),
        ({**ONE_AXIS, "include": [{"training.batch": 3}]}, [(1, 0), (2, 0), (3, 0)]),
        ({"include": [{"training.batch": 3}, {"training.batch": 4}]}, [(3, 0), (4, 0)]),
        ({**ONE_AXIS, "include": [{"training.batch": 2, "training.warmup": 7}]}, [(1, 0), (2, 7)]),
        ({**ONE_AXIS, "include": [{"training.warmup": 7}]}, [(1, 7), (2, 7)]),
    ],
)
def test_a_matrix_is_a_product_with_what_is_included(matrix, batch_and_warmup):
    assert [(c.cell.training.batch, c.cell.training.warmup) for c in plan_of(matrix=matrix).cells] == batch_and_warmup


def test_rows_are_named_after_row_and_combination():
    rows = plan_of(matrix=AXES, rows={"dense": None, "tread": TREAD}).rows
    assert (list(rows)[:2], len(rows)) == (["dense batch=1 warmup=0", "tread batch=1 warmup=0"], 8)
    routes = {"routes": ["2:8@0.5", ["1:2@0.5", "4:5@0.5"]]}
    assert list(plan_of(base=TREAD, matrix=routes).rows) == ["routes=2:8@0.5", "routes=1:2@0.5+4:5@0.5"]
    assert list(plan_of().rows) == ["study"]
    named = {"backbone": [{**BASE["backbone"], "name": name} for name in ("DiT", "SiT")], "training.batch": [4]}
    rows = plan_of(matrix={**named, "include": [{"backbone": {"depth": 6}}]}).rows
    assert list(rows) == ["DiT batch=4", "SiT batch=4", "backbone=depth=6"]


@pytest.mark.parametrize(
    ("matrix", "loc", "message"),
    [
        ({"training.batch": 3}, ("matrix", "training.batch"), "must be a valid list"),
        ({"training.batch": []}, ("matrix", "training.batch"), "at least 1 item"),
        ({"include": 3}, ("matrix", "include"), "must be a valid list"),
        ({**AXES, "exclude": [{"training.batch": 1}]}, ("matrix", "exclude", 0), "unknown key 'exclude'"),
        ({f"training.k{i}": [0] * 10 for i in range(60)}, ("matrix",), "split it"),
    ],
)
def test_a_wrong_matrix_is_located(matrix, loc, message):
    (found,) = problems_of(matrix=matrix)
    assert found[0] == loc
    assert message in found[1]


# Cells


def test_a_cell_leaves_nothing_open():
    (cell,) = plan_of(base={**TREAD, "routes": "2:-4@0.5"}).cells
    assert cell.cell.metrics.at == (100,)
    assert str(cell.cell.routes[0]) == "2:8@0.5"
    assert cell.cell.backbone.spec(cell.cell.data).depth == 12
    assert Cell.model_validate(cell.cell.model_dump(mode="json")) == cell.cell


def test_ids_tell_row_and_seed_and_are_safe_as_file_names():
    cells = plan_of(rows={"Tread/2:8@0.5": TREAD}, seeds=[3, 5]).cells
    assert [cell.id.rpartition("-")[0] for cell in cells] == ["tread-2-8-0.5-s3", "tread-2-8-0.5-s5"]
    assert cells[0].row == "Tread/2:8@0.5"


def test_ids_change_with_the_cell_and_the_numerical_choices_alone():
    (cell,) = plan_of(base=TREAD).cells
    assert plan_of(base=TREAD, description="other", timing={"pairs": 0}).cells[0].id == cell.id
    assert plan_of(base={**TREAD, "routes": "1/6:-4@0.5"}).cells[0].id == cell.id
    assert plan_of(base={"backbone": dict(reversed(BASE["backbone"].items())), **TREAD}).cells[0].id == cell.id
    for changed in (
        plan_of(base=TREAD, compute={"threads": 2}),
        plan_of(base={**TREAD, "training": {"iterations": 101}}),
        plan_of(base={**TREAD, "routes": "2:8@0.25"}),
    ):
        assert changed.cells[0].id != cell.id


def test_ids_of_the_shipped_suites_stay_as_they_are():
    """A new key, or another default, that changed them would have every run folder trained again."""
    smoke, routes = (load_plan(CHECKOUT / "suites" / f"{name}.yaml") for name in ("smoke", "multi_route"))
    assert smoke.cells[0].id == "dense-s0-f7c2b179c3"
    assert {cell.id for cell in routes.cells} >= {"dense-s0-daca9c4999", "two-mae-s3-de220f0cb2"}


def test_the_reference_is_the_dense_cell_of_the_same_seed_and_everything_else():
    plan = plan_of(rows={"tread": TREAD, "dense": None}, matrix={"training.batch": [1, 2]}, seeds=2)
    dense = {(c.seed, c.cell.training.batch): c.id for c in plan.cells if c.cell.method.name == "dense"}
    assert all(cell.reference == dense[cell.seed, cell.cell.training.batch] for cell in plan.cells)
    assert {cell.reference for cell in plan_of(base=TREAD).cells} == {""}


def test_keys_join_cells_of_one_architecture_and_of_one_row():
    plan = plan_of(rows={"dense": None, "tread": TREAD, "small": {"backbone.depth": 2}}, seeds=2)
    dense, tread, small = plan.rows.values()
    assert {c.architecture_key for c in dense} == {c.architecture_key for c in tread}
    assert {c.architecture_key for c in small}.isdisjoint(c.architecture_key for c in dense)
    assert [len({c.row_key for c in row}) for row in (dense, tread, small)] == [1, 1, 1]
    assert len({c.row_key for c in plan.cells}) == 3


VARIANCE = {"objective": {"name": "ddpm", "learned_variance": True}}
TWO_WEIGHTS = {"metrics.extractor": {"name": "inception", "weights": "w"}, "metrics.inception_weights": "v"}


@pytest.mark.parametrize(
    ("row", "loc", "message"),
    [
        ({"method": "tread"}, ("method",), "add them (routes: 2:8@0.5) or set method: dense"),
        ({"routes": "2:8@0.5"}, ("routes",), "set routes: [] or method: tread"),
        ({**TREAD, "routes": "2:12@0.5"}, ("routes",), "has 12 blocks"),
        ({"metrics.at": [50, 101]}, ("metrics.at",), "1..100"),
        ({"metrics.at": [50, 0.5]}, ("metrics.at",), "metrics.at [50, 0.5]: must ascend"),
        ({"metrics.at": [1.5]}, ("metrics.at", 0), "a share of the training must lie between 0 and 1"),
        ({"metrics.at": [-1]}, ("metrics.at", 0), "iterations count from 0"),
        ({"metrics": {"num_samples": 64}}, ("metrics", "num_samples"), "more; change it or metrics.kid_subset_size"),
        ({"metrics.protocol": "amd"}, ("metrics.protocol",), "did you mean 'adm'"),
        ({"metrics.reference": "real"}, ("metrics.reference",), "'real': must be an .npz file of statistics or images"),
        (TWO_WEIGHTS, ("metrics.extractor",), "metrics.extractor.weights are both given"),
        ({"backbone": "DiT-XS/2"}, ("backbone", "name"), "DiT has no 'DiT-XS/2'; published: DiT-S/2, "),
        ({"backbone": "JiT-B/4"}, ("backbone", "name"), "; for another size, name one of them or JiT, and set what"),
        ({"backbone.patch": 3}, ("backbone.patch",), "must divide image_size 8"),
        ({"backbone.image_size": 16}, ("backbone.image_size",), "the data has 8"),
        ({"backbone": "U-ViT-S/2-T2I"}, ("backbone", "name"), "takes 77 tokens of text, and data digits has no capt"),
        ({"backbone": {"name": "ZigMa", "context_tokens": 7}}, ("backbone", "name"), "(context_tokens: 0)"),
        ({"training": {"iterations": True}}, ("training", "iterations"), "must be a number, not true"),
        ({"training": {"learning_rate": float("inf")}}, ("training", "learning_rate"), "finite"),
        ({"sampling.guidance_scale": 2}, ("sampling.guidance_scale",), "set guidance: cfg"),
        ({"objective": {"name": "edm", "sigma_min": 90}}, ("objective",), "must be less than sigma_max 80"),
        ({"metrics.similarity_times": [0.5, 2]}, ("metrics.similarity_times",), "objective flow lie in 0..1"),
        ({"sampling.churn": {"s_churn": 3}}, ("sampling.churn",), "set churn: null or objective: ddpm or edm"),
        ({"sampling.churn": {"s_churn": 3, "s_min": 2, "s_max": 1}}, ("sampling.churn",), "s_min 2 must not exceed"),
        ({"sampling.sampler": "ddim"}, ("sampling.sampler",), "set sampler: euler or heun, or objective: ddpm or edm"),
        ({"objective": "ddpm", "sampling.steps": 1001}, ("sampling.steps",), "objective ddpm has 1000 noise levels"),
        (
            {**VARIANCE, "backbone": "U-ViT-S/2"},
            ("objective", "learned_variance"),
            "learn_sigma: true, such as DiT-S/2",
        ),
        ({**VARIANCE, "backbone.learn_sigma": False}, ("objective", "learned_variance"), "for which backbone DiT"),
        ({"objective": "ddpm", "method": "mask", "routes": "0:-1@0.5"}, ("method",), "or set method.mae_weight: 0"),
        ({**TREAD, "objective": "ddpm", "auxiliary": "mae"}, ("auxiliary", 0), "edm, flow, x_prediction, or remove it"),
        ({"objective": {"name": "ddpm", "schedule": "cosine"}}, ("objective", "schedule"), "linear"),
        ({"objective": "edm", "sampling": {"churn": {"s_min": 1}}}, ("sampling", "churn"), "s_churn is missing"),
        ({"training": {"batch": 1}, "training.batch": 2}, ("training.batch",), "set twice"),
    ],
)
def test_mistakes_of_a_row_are_located_where_they_were_written(row, loc, message):
    found = problems_of(rows={"dense": None, "row": row})
    assert [where for where, text in found if message in text] == [("rows", "row", *loc)], found


def test_the_same_cells_under_two_names_are_refused_and_a_mistake_of_the_base_is_told_once():
    found = problems_of(rows={"one": TREAD, "two": {**TREAD, "routes": "2:-4@0.5"}})
    assert found == [(("rows", "two"), "row 'two' has the same cells as row 'one': change one of them or remove it")]
    found = problems_of(base={"training": {"iteratons": 5, "iterations": 3}}, rows={"a": None, "b": TREAD}, seeds=3)
    assert [loc for loc, _ in found] == [("base", "training", "iteratons")]


LATENTS = {"name": "latents", "train": [__file__], "held_out": [__file__], "num_classes": 10}


def test_latents_are_judged_through_a_decoder_against_real_images_or_not_at_all(tmp_path):
    for given, missing in (
        ({}, "data latents without data.decoder and data.images: "),
        ({"decoder": __file__}, "data latents without data.images: "),
        ({"images": [__file__]}, "data latents without data.decoder: "),
        ({"decoder": "gone", "images": ["gone.parquet"]}, "no such file: gone.parquet"),
    ):
        data = {"data": {**LATENTS, **given}}
        assert problems_of(base=data)[0][1].startswith(missing)
        assert plan_of(base={**data, "metrics.generate": False}).cells

    # A reference takes the place of real images, not of the decoder.
    (tmp_path / "reference.npz").touch()
    judged = {"metrics.reference": str(tmp_path / "reference.npz")}
    assert plan_of(base={"data": {**LATENTS, "decoder": __file__}, **judged}).cells
    assert problems_of(base={"data": LATENTS, **judged})


# Selectors and costs


def test_a_selector_must_suit_the_family(monkeypatch):
    monkeypatch.setattr(registry, "families", lambda: {"DiT": replace(DIT, selectors=("rows", "blocks"))})
    ((loc, message),) = problems_of(base=TREAD)
    assert loc == ("base",)
    assert "choose one of rows, blocks" in message


def test_the_table_follows_from_the_counts(monkeypatch):
    block = ((16, 0, 0, 0), (15, 0, 0, 0), (14, 0, 0, 0))  # a MAC per token, of which 0, 1 and 2 bypass
    counts = Counts(1000, 900, Macs(linear=9), 2, (block,) * 3)
    monkeypatch.setattr(costs, "counts_of", lambda family, spec, lora: counts)
    base = {"backbone": {**BASE["backbone"], "depth": 3}}
    plan = plan_of(base, rows={"dense": None, "tread": {"method": "tread", "routes": "1:1@0.5"}})
    dense, tread = plan_table(plan)
    assert (dense["tokens_per_block"], tread["tokens_per_block"]) == ([16, 16, 16], [16, 8, 16])
    assert (dense["forward_macs"], tread["forward_macs"], tread["train_step_macs"]) == (57, 49, 145)
    assert tread["ideal_speedup"] == 57 / 49


def test_the_table_tells_cells_tokens_and_disk():
    plan = plan_of(rows={"dense": None, "tread": TREAD}, seeds=5)
    dense, tread = table = plan_table(plan)
    assert [row["cells"] for row in table] == [5, 5]
    assert tread["tokens_per_block"] == [16, 16, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16]
    assert (dense["ideal_speedup"], dense["params"]) == (1, tread["params"])
    weights, grid = dense["params"] * 4, 40 * 9 * 9
    assert dense["disk_bytes"] == 5 * (2 * 4 * weights + weights + 2 * grid + 2**20)  # two checkpoints, last weights
    assert json.loads(json.dumps(table)) == table


# Rows to run


BY_GUIDE = {"guidance": {"name": "autoguidance", "row": "guide"}, "guidance_scale": 2}
GUIDED = {
    "dense": {},
    "guide": {"training.iterations": 50},
    "routed": TREAD,
    "judged": {"evaluate": {"row": "routed"}, "sampling": BY_GUIDE},
}


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        ((), ["dense", "guide", "routed", "judged"]),
        (("routed",), ["routed"]),
        (("routed, dense",), ["dense", "routed"]),
        (("routed", "dense"), ["dense", "routed"]),
        (("judged",), ["guide", "routed", "judged"]),
    ],
)
def test_chosen_rows_bring_the_rows_whose_weights_they_read(names, rows):
    plan = plan_of(rows=GUIDED, seeds=[0, 1])
    assert [(cell.row, cell.seed) for cell in plan.chosen(names)] == [(row, seed) for row in rows for seed in (0, 1)]


def test_a_row_of_the_suite_is_all_rows_that_its_matrix_makes_and_a_name_may_contain_commas():
    routes = ["2:8@0.5", "1:2@0.5,4:5@0.5"]
    plan = plan_of(rows={"dense": {}, "routed": {"method": "tread", "matrix": {"routes": routes}}})
    one, several = (f"routed routes={text}" for text in routes)
    assert [cell.row for cell in plan.chosen(["routed"])] == [one, several]
    assert [cell.row for cell in plan.chosen([several])] == [several]
    with pytest.raises(SuiteError) as caught:
        plan.chosen(["rooted,dense,nothing"])
    first, second = str(caught.value).splitlines()
    assert first.startswith("--rows: unknown row 'rooted'; known: dense, ") and "unknown row 'nothing'" in second
