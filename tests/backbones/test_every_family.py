"""What holds of every family beside the contract: published sizes and costs, routes, labels, precision."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import pytest
import torch

from tests.backbones.networks import ROUTES, SIZES, SMALL, TEXT, drawn, inputs, small, text_inputs
from tests.last_bit import LastBit
from tread_bench import Route, create_backbone
from tread_bench.core.describe.families import make_spec
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.numbers.costs import cost_of, counts_of
from tread_bench.measure.macs import count_cost

FAMILIES = ("DiT", "SiT", "LightningDiT", "JiT", "U-ViT", "DiS", "ZigMa", "MMDiT", "Diffusion-RWKV")
PUBLISHED = [
    row
    for row in csv.DictReader((Path(__file__).parents[1] / "published_models.csv").read_text().splitlines())
    if row["family"] in FAMILIES
]
NAMES = {  # in this package, of models that their releases name otherwise
    "MMDiT REPA MS-COCO": "MMDiT-B/2-T2I",
    "U-ViT-S/2 MS-COCO": "U-ViT-S/2-T2I",
    "U-ViT-S/2-Deep MS-COCO": "U-ViT-S-Deep/2-T2I",
    "ZigMa README demo 640x18 text": "ZigMa-Demo/1-T2I",
    "ZigMa __main__ 768x24 text": "ZigMa-B/1-T2I",
    "ZigMa s1024_zigzag8_b2": "ZigMa-B/2",
}
VARIANTS = [
    *((family, {}) for family in SMALL),
    *TEXT.items(),
    ("DiS", {"num_classes": 0, "learn_sigma": False}),
    ("LightningDiT", {"learn_sigma": True, "mlp_ratio": 2.5}),
    ("JiT", {"in_context_tokens": 0, "mlp_ratio": 2.5}),
    ("U-ViT", {"final_conv": False, "channels": 3}),
    ("MMDiT", {"learn_sigma": True, "context_tokens": 3}),
    ("ZigMa", {"mixer": "mamba2", "scan": "v2"}),
    ("DiT", {"attention": "linear"}),
    *(("DiG", {"mixer": mixer}) for mixer in mixers()),
    ("DiG", {"attention_every": 2}),
]


def published_spec(row):
    """The family and the sizes of a row of the published table."""
    model, family = row["model"], row["family"]
    if family in ("DiT", "SiT"):
        sizes = {"learn_sigma": False} if "learn_sigma=False" in model else {}
        return make_spec(model.split()[0], image_size=64 if "512px" in model else 32, **sizes)
    if family in ("LightningDiT", "JiT"):
        return make_spec(model)
    channels, side, _ = map(int, row["input"].split()[-1 if family == "ZigMa" else 1].split("x"))
    sizes = {"channels": channels, "image_size": side, "num_classes": int(row["num_classes"])}
    if family == "U-ViT":
        sizes["num_classes"] = max(sizes["num_classes"] - 1, 0)  # the table gives rows of the label table
    if family == "ZigMa":
        sizes |= {"num_classes": 0, "scan": "v2" if "v2" in model else "zigzagN8"}
        written = f"{model.split()[0].replace('H/XL', 'XL')}/{row['patch']}"
        return make_spec(NAMES.get(model, written), **sizes)
    return make_spec(NAMES.get(model, model.split()[0]), **sizes)


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['model']} {row['input']}")
def test_parameters_and_macs_are_the_published_ones(row):
    family, spec = published_spec(row)
    cost = cost_of(family, spec)
    sizes = (spec.patch, family.num_blocks(spec), spec.hidden)
    assert sizes == tuple(int(row[key]) for key in ("patch", "blocks", "hidden"))
    assert (cost.params, cost.trainable_params) == (int(row["params_total"]), int(row["params_trainable"]))
    recurrent = row["family"] in ("DiS", "Diffusion-RWKV")  # published without the recurrence
    if row["gmacs_recounted"]:
        macs = cost.forward.linear if recurrent else cost.forward.total
        assert macs / 1e9 == pytest.approx(float(row["gmacs_recounted"]), abs=6e-4)


@pytest.mark.parametrize(
    ("family", "sizes"),
    [pytest.param(*variant, marks=pytest.mark.full if variant[1] else ()) for variant in VARIANTS],
    ids=str,
)
def test_few_counts_give_what_each_route_is_counted_to_cost(family, sizes):
    found, spec = make_spec(family, **{**SIZES[family], **sizes})
    assert counts_of(found, spec) is not None
    for routes in ([], *(ROUTES[family][-1:] if sizes else ROUTES[family])):
        resolved = found.resolve(spec, routes, "random")
        assert cost_of(found, spec, resolved) == count_cost(found, spec, resolved)


RELEASED = {  # hashes of names and shapes of all weights, as the authors' releases have them
    "DiT": "47d40dbf77ef",
    "LightningDiT": "a517e443c50c",
    "JiT": "d68f6c03d05b",
    "U-ViT": "e4cfd659bae2",
    "DiS": "bd42053bea51",
    "ZigMa": "bc615acdd4d7",
    "DRWKV": "6cb5da3a019f",
    "DiG": "022019783753",
    "MMDiT": "d0ed85ea8f02",
}


@pytest.mark.parametrize("family", RELEASED)
def test_released_weights_fit_by_name_and_shape(family):
    found = sorted(f"{name} {tuple(value.shape)}" for name, value in small(family).state_dict().items())
    assert hashlib.sha256("\n".join(found).encode()).hexdigest()[:12] == RELEASED[family], found


@pytest.mark.parametrize("family", ["DiT", "LightningDiT", "JiT", "DRWKV", "DiG"])
def test_fresh_model_predicts_zero(family):
    x, t, y = inputs()
    assert torch.equal(create_backbone(family, **SMALL[family])(x, t, y), torch.zeros_like(x))


@pytest.mark.parametrize("family", SMALL)
def test_the_row_behind_the_last_class_is_what_no_label_means(family):
    model, (x, t, _) = small(family).eval(), inputs()
    assert torch.equal(model(x, t), model(x, t, torch.full((3,), 10)))
    assert small(family, num_classes=0)(x, t).shape == x.shape


@pytest.mark.parametrize(("family", "sizes"), [*((family, {}) for family in SMALL), *TEXT.items()], ids=str)
def test_weights_without_a_gradient_change_no_operator(family, sizes):
    """torch folds a batch into one product or not by that, where a layer's input is not contiguous."""
    model = small(family, **sizes).eval()
    given = text_inputs() if model.spec.context_shape else inputs()
    for routes in ([], ROUTES[family][0]):
        with LastBit():
            trained, frozen = (
                model.requires_grad_(has_gradient)(*given, routes=routes, ids=drawn(routes))
                for has_gradient in (True, False)
            )
        assert torch.equal(trained, frozen)


@pytest.mark.parametrize("family", ["LightningDiT", "JiT", "ZigMa", "DRWKV", "DiG"])
def test_what_depends_on_ids_alone_is_looked_up_once_per_route(family):
    caches = []
    model = small(family, depth=9)
    model(*inputs(), routes=[Route(0, 8, 0.5)], on_block=lambda block, state: caches.append(state.cache))
    found = dict(caches[0])
    assert found and all(caches[7][name] is value for name, value in found.items())


@pytest.mark.parametrize(
    ("family", "sizes", "rule"),
    [
        ("DiT", {"hidden": 30, "heads": 4}, "multiple of heads"),
        ("DiT", {"patch": 3}, "must divide image_size"),
        ("DiT", {"deepth": 3}, "deepth"),
        ("U-ViT", {"depth": 5}, "must be even"),
        ("U-ViT", {"hidden": 33, "heads": 3}, "must be even"),
        ("U-ViT", {"context_tokens": 5}, "num_classes 10 and context_tokens 5: a model takes labels or text"),
        ("MMDiT", {"num_classes": 10}, "num_classes 10: MMDiT takes text and no labels; take data with captions"),
        ("MMDiT", {"context_tokens": 0}, "context_tokens"),
        ("MMDiT", {"hidden": 30, "heads": 4}, "multiple of heads"),
        ("JiT", {"in_context_start": 4}, "in_context_start 4: must be one of the 4 blocks, 0 to 3"),
        ("DiS", {"hidden": 15}, "must be even"),
        ("DRWKV", {"depth": 4}, "must be odd"),
        ("DRWKV", {"hidden": 30}, "multiple of 4"),
        ("DRWKV", {"q_shift": "zeros"}, "q_shift"),
        ("DiG", {"hidden": 30}, "multiple of 4"),
        ("DiG", {"hidden": 36, "heads": 4}, "hidden 36 must be a multiple of 2 x heads, 8"),
        ("DiG", {"mixer": "mixture"}, "mixer"),
        *[("DiG", {"mixer": m, "decay_skipped": True}, f"not {m}: gated_delta, gla") for m in ("attention", "mamba")],
        ("DiG", {"attention_every": 1}, "attention_every"),
        ("DiG", {"attention_every": 6}, "attention_every 6 must be at most depth 5"),
        ("DiG", {"mixer": "mamba2", "heads": 5, "attention_every": 4}, "hidden 32 must be a multiple of heads 5"),
        ("DiS", {"mixer": "gla"}, "mixer"),
        ("LightningDiT", {"attention": "linear"}, "attention"),
        ("MMDiT", {"attention": "linear"}, "attention"),
    ],
)
def test_wrong_sizes_are_named(family, sizes, rule):
    with pytest.raises(ValueError, match=rule):
        create_backbone(family, **{**SIZES[family], **sizes})
