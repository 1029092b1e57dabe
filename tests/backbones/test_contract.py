"""Every registered backbone keeps the contract, and each of its checks finds what it is there for."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from tests.backbones import broken, networks
from tests.backbones.networks import NUMBA, inputs
from tread_bench.contract import check_backbone
from tread_bench.core.describe.families import BackboneSpec, families
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.describe.violations import run_checks
from tread_bench.model.contract.backbones import CHECKS, gradients_of, trial_of

SMALL = {"hidden": 32, "heads": 2, "bottleneck": 3, "in_context_tokens": 3, "in_context_start": 2}
TEXT = {"num_classes": 0, "context_tokens": 3, "context_dim": 5}
LABELLED = [family for family in families().values() if family.spec.model_fields["num_classes"].default]
CASES = [(family, {}) for family in LABELLED]
CASES += [(family, TEXT) for family in families().values() if TEXT.keys() <= family.spec.model_fields.keys()]


VARIANTS = [
    ("DiT", {"attention": "linear"}, {}),
    ("DiT", {}, NUMBA),
    ("MMDiT", TEXT, {"attention": "math"}),
    *[(family, {}, NUMBA) for family in ("DiS", "ZigMa", "DRWKV")],
    *[(family, {"mixer": "mamba2"}, NUMBA) for family in ("ZigMa", "DiS")],
    *[("ZigMa", {"mixer": mixer, "scan": "v2"}, {}) for mixer in ("mamba", "mamba2")],
    *[("DiG", {"mixer": mixer}, {"attention": "math"}) for mixer in mixers()],
    ("DiG", {"mixer": "rwkv7", "attention_every": 4}, NUMBA),
    *[("DiG", {"mixer": mixer, "decay_skipped": True}, NUMBA) for mixer in ("gla", "gated_delta", "mamba2")],
]


def case_name(case):
    family, sizes = case
    return f"{family.name} with text" if sizes else family.name


def small_spec(family, sizes):
    """16 tokens and the fewest blocks, from 4, that the family's rules allow."""
    for depth in (4, 5):
        wanted = {"image_size": 8, "channels": 2, "num_classes": 3, "patch": 2, **SMALL, "depth": depth, **sizes}
        try:
            return family.spec(**{name: size for name, size in wanted.items() if name in family.spec.model_fields})
        except ValidationError:
            continue
    raise AssertionError(f"{family.name} takes none of the small sizes")


@pytest.fixture(scope="module", params=CASES, ids=case_name)
def subject(request):
    family, sizes = request.param
    return trial_of(family, small_spec(family, sizes))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_every_registered_backbone_keeps_the_contract(subject, check):
    assert run_checks([check], subject) == []


@pytest.mark.parametrize(("family", "sizes", "kernels"), VARIANTS, ids=str)
def test_every_formulation_and_choice_keeps_the_contract(family, sizes, kernels):
    found = families()[family]
    subject = trial_of(found, small_spec(found, sizes), kernels)
    assert {check.__name__: run_checks([check], subject) for check in CHECKS} == {
        check.__name__: [] for check in CHECKS
    }


KERNELS = {"attention": "math"}, NUMBA
RECURRENT = [name for name, one in mixers().items() if "recurrence" in one.kernels]
COMPILED = [*((family, {}) for family in ("DiT", "DiS", "ZigMa", "DRWKV")), *(("DiG", {"mixer": m}) for m in RECURRENT)]


@pytest.mark.parametrize(("family", "sizes"), COMPILED, ids=str)
def test_compiled_kernels_change_rounding_alone(family, sizes):
    expected, computed = (networks.small(family, **sizes, kernels=chosen).eval()(*inputs()) for chosen in KERNELS)
    assert (computed - expected).abs().max() <= 1e-5 * expected.abs().max()
    if family != "DRWKV":  # which both compute in float64
        assert not torch.equal(computed, expected)  # the kernel was asked for, and used


def test_the_compiled_block_is_not_used_where_there_is_text():
    """It has no attention to a text, so that blocks run as modules, whatever kernel is asked for."""
    plain, asked = (networks.small("DiT", **networks.TEXT["DiT"], kernels=chosen) for chosen in KERNELS)
    given = networks.text_inputs()
    assert torch.equal(plain(*given), asked(*given))


@pytest.mark.gpu
@pytest.mark.parametrize(("family", "sizes"), CASES, ids=map(case_name, CASES))
def test_every_registered_backbone_keeps_the_contract_on_a_gpu(family, sizes):
    assert check_backbone(family, small_spec(family, sizes), device="cuda") == []


@pytest.mark.parametrize("sound", broken.SOUND_ONES)
def test_a_sound_backbone_breaks_nothing(sound):
    assert check_backbone(sound.family, sound.tried_on) == []


@pytest.mark.parametrize("backbone", broken.BROKEN, ids=lambda backbone: backbone.__name__)
def test_what_an_author_forgets_is_found(backbone):
    violations = check_backbone(broken.broken_family(backbone), backbone.tried_on)
    checks = [violation.check for violation in violations]
    assert backbone.found_by in checks
    assert len(checks) == len(set(checks)), "a fault is one message of a check"
    for violation in violations:
        assert ("expected" in violation.message and "saw" in violation.message) or "raised" in violation.message


def test_outputs_of_opposite_sign_do_not_cancel_in_a_gradient():
    network = nn.Linear(1, 1, bias=False)
    assert gradients_of(network, torch.cat([network.weight, -network.weight]))["weight"].any()


def test_a_violation_reads_as_one_line():
    (violation,) = check_backbone(broken.broken_family(broken.RefusesAllRoutes), broken.SPEC)
    assert str(violation) == "blocks: expected routes accepted at one of the rates (0.5, 0.75, 0.25); saw all refused"


def test_too_few_tokens_are_refused_with_the_way_out():
    with pytest.raises(ValueError, match="1 image tokens are too few to route: take a larger image_size"):
        check_backbone(broken.SOUND, BackboneSpec(image_size=2, channels=2, num_classes=3))
