"""What a cell computes stays on its GPU and keeps the host waiting for nothing, tried without a GPU."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn

from tests.model.methods.subjects import BACKBONES, OPTIONS, ROUTES
from tread_bench.contract import check_device
from tread_bench.core.describe.guidance import guidance_rules
from tread_bench.core.describe.losses import losses
from tread_bench.core.describe.methods import methods
from tread_bench.core.describe.mixers import both_ways, mixers
from tread_bench.core.describe.objectives import objectives
from tread_bench.model.fake_device import DEVICE, FakeDevice
from tread_bench.model.methods.sprint.network import Sprint

LOSSES = {"repa": {"projector": 8}}
RULES = {"autoguidance": {"snapshot": 3}}
METHODS_OF_RULES = {"path_drop": "sprint"}


def found(backbone="DiT", method="tread", objective="flow", loss=None, rule="none"):
    return check_device(
        backbone=BACKBONES[backbone],
        method={"name": method, **OPTIONS.get(method, {})},
        routes=ROUTES.get(method, "1:3@0.5"),
        objective={"name": objective},
        auxiliary=[{"name": loss, **LOSSES.get(loss, {})}] if loss else [],
        guidance={"name": rule, **RULES.get(rule, {})},
    )


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_family_stays_on_its_device(backbone):
    assert found(backbone) == []


VARIANTS = [
    *(BACKBONES["DiG"] | {"mixer": name} for name in mixers()),
    BACKBONES["DiG"] | {"mixer": "gla", "decay_skipped": True},
    *(BACKBONES[family] | {"mixer": name} for family, name in product(("DiS", "ZigMa"), both_ways())),
    BACKBONES["DiT"] | {"attention": "linear"},
]


@pytest.mark.slow
@pytest.mark.parametrize("backbone", VARIANTS, ids=lambda one: " ".join(map(str, one.values())))
def test_every_mixer_stays_on_its_device(backbone):
    assert check_device(backbone=backbone, method={"name": "tread"}, routes="1:3@0.5") == []


@pytest.mark.parametrize("method", methods())
def test_every_method_stays_on_its_device(method):
    assert found(method=method) == []


@pytest.mark.parametrize(("objective", "loss"), [*product(objectives(), losses())])
def test_every_objective_and_loss_stays_on_its_device(objective, loss):
    if loss == "mae" and objectives()[objective].predicts_noise:
        pytest.skip("the loss is on an estimate that this objective leaves open")
    assert found(objective=objective, loss=loss) == []


def test_a_learned_variance_stays_on_its_device():
    learned = {"name": "ddpm", "learned_variance": True}
    assert check_device(backbone=BACKBONES["DiT"], objective=learned, guidance={"name": "cfg"}) == []


@pytest.mark.parametrize("rule", guidance_rules())
def test_every_guidance_rule_stays_on_its_device(rule):
    assert found(rule=rule, method=METHODS_OF_RULES.get(rule, "tread")) == []


@pytest.mark.endurance
@pytest.mark.parametrize("loss", [None, *losses()])
@pytest.mark.parametrize("objective", objectives())
@pytest.mark.parametrize("method", methods())
@pytest.mark.parametrize("backbone", BACKBONES)
def test_all_of_them_together_stay_on_their_device(backbone, method, objective, loss):
    try:
        assert found(backbone, method, objective, loss) == []
    except ValueError as error:
        pytest.skip(str(error))


def test_a_loss_that_does_not_fit_the_cell_is_refused():
    with pytest.raises(ValueError, match="needs tokens that bypass a route, and method dense has none"):
        check_device(method={"name": "dense"}, routes=(), auxiliary=[{"name": "mae"}])
    with pytest.raises(ValueError, match="block 99"):
        check_device(auxiliary=[{"name": "repa", "projector": 8, "block": 99}])


ON_HOST = torch.ones(4)
DEFECTS = {
    "a value is read": (lambda x: x.sum().item(), "the host reads a value (aten._local_scalar_dense.default)"),
    "a branch depends on a value": (lambda x: x if x.sum() > 0 else -x, "the host reads a value"),
    "a list of values": (lambda x: x.tolist(), "the host reads a value"),
    "a mask of unknown size": (lambda x: x[x > 0], "the host reads a value (aten.nonzero.default)"),
    "a tensor left on the host": (lambda x: x + ON_HOST, "raised"),
    "an index on the host": (lambda x: x[torch.tensor([0, 2])], "aten.index.Tensor has tensors on cpu and cuda"),
    "a list as an index": (lambda x: x[[0, 2]], "aten._to_copy.default has tensors on cpu and cuda"),
    "a copy to the host": (lambda x: x.cpu(), "aten._to_copy.default has tensors on cpu and cuda"),
    "a copy to the device": (lambda x: x.copy_(ON_HOST), "aten.copy_.default has tensors on cpu and cuda"),
    "numbers made on the host": (lambda x: torch.tensor([1.0, 2.0], device=x.device), "aten._to_copy.default"),
    "a number made on the host": (lambda x: torch.tensor(2.0, device=x.device), "aten._to_copy.default"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_found_with_its_place(defect):
    compute, message = DEFECTS[defect]
    device = FakeDevice()
    x = device.holding(torch.zeros(3, 4))
    with device:
        compute(x)
    (only,) = device.found
    assert only.startswith(message) and only.endswith(f"in {__name__}:<lambda>")


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x * torch.tensor(2.0),  # a number is an argument of a kernel
        lambda x: x + torch.arange(4, device=x.device),
        lambda x: torch.where(x > 0, x, torch.zeros_like(x)).cumsum(1).gather(1, x.argsort(1)),
    ],
)
def test_what_stays_on_the_device_is_not_reported(compute):
    device = FakeDevice()
    x = device.holding(torch.zeros(3, 4))
    with device:
        assert compute(x).device == DEVICE
    assert device.found == []


def test_parameters_and_buffers_move_and_other_tensors_stay():
    norm, device = nn.BatchNorm1d(3), FakeDevice()
    norm.forgotten = torch.ones(3)
    device.move(norm)
    assert {tensor.device for tensor in (*norm.parameters(), *norm.buffers())} == {DEVICE}
    assert norm.forgotten.device.type == "cpu" and norm.weight.requires_grad


def a_step_that(changes):
    """Sprint's step with something in front of it."""
    step = Sprint.train_forward

    def changed(self, backbone, start, batch_range, on_block=None):
        return step(self, backbone, changes(start), batch_range, on_block)

    return changed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda start: start if start.stream().isfinite().all() else None, "the host reads a value"),
        (lambda start: start.with_stream(start.stream() + torch.ones(start.stream().shape)), "raised"),
        (lambda start: start.with_stream(start.stream()[torch.arange(start.batch)]), "aten.index.Tensor has tensors"),
    ],
    ids=["a value", "a tensor on the host", "an index on the host"],
)
def test_a_defect_in_a_method_s_step_is_a_violation(monkeypatch, changes, message):
    monkeypatch.setattr(Sprint, "train_forward", a_step_that(changes))
    (only,) = found(method="sprint")
    assert only.check == "training" and only.message.startswith(message)
    assert only.message.endswith(f"in {__name__}:<lambda>")
