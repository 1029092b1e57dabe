"""What each method does with a stream that no route takes: the text of MMDiT."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.model.methods.subjects import OPTIONS, watch
from tests.model.methods.subjects import ROUTES as METHOD_ROUTES
from tread_bench.core.describe.methods import methods
from tread_bench.model.backbone import leave
from tread_bench.model.contract.methods import MethodSubject
from tread_bench.model.methods.base import BatchRange, run_range

TEXT = {"num_classes": 0, "context_tokens": 3, "context_dim": 5}
MMDIT = {"name": "MMDiT", "depth": 5, "hidden": 16, "heads": 2, "patch": 2, **TEXT}


def subject_of(name, **options):
    routes = METHOD_ROUTES.get(name, "1:3@0.5")
    return MethodSubject(methods.find(name), {**OPTIONS.get(name, {}), **options}, routes, MMDIT)


def start_of(subject):
    return subject.network.backbone.start(subject.x, subject.t, subject.y)


@torch.no_grad()
@pytest.mark.parametrize("name", methods())
def test_the_text_is_whole_in_every_block_that_a_step_runs(name):
    subject = subject_of(name)
    backbone, seen = subject.network.backbone, []

    def look(block, state, after):
        text, is_last = state.streams["text"], block == backbone.num_blocks - 1
        seen.append((block, text.shape[1], torch.equal(text, after.streams["text"]) == is_last, state.routed))

    watch(backbone, look)
    subject.network.method.train_forward(backbone, start_of(subject), BatchRange(0, 0, len(subject.x)))
    assert list(dict.fromkeys(seen)) == [(block, 3, True, ("x",)) for block in range(5)]


@torch.no_grad()
def test_a_sample_that_loses_its_deep_path_keeps_the_text_from_before_it():
    subject = subject_of("sprint", path_drop=0.999999)
    network, start = subject.network, start_of(subject)
    shallow = network.method.shallow_forward(network.backbone, start)
    found = network.method.train_forward(network.backbone, start, BatchRange(0, 0, len(subject.x))).output
    torch.testing.assert_close(found, shallow, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_one_that_keeps_its_deep_path_goes_on_with_the_text_from_there():
    subject = subject_of("sprint", path_drop=0.0)
    network, backbone, start = subject.network, subject.network.backbone, start_of(subject)
    method, texts = network.method, {}
    batch_range = BatchRange(0, 0, len(subject.x))
    found = method.train_forward(backbone, start, batch_range, lambda b, s: texts.update({b: s.streams["text"]})).output

    shallow = run_range(backbone, start, range(1))
    (ids,) = method.draw(backbone, batch_range, start.device).values()
    deep = run_range(backbone, leave(shallow, ids), range(1, 4))
    assert torch.equal(texts[3], deep.streams["text"])
    fused = method.fuse(torch.cat([method.mask_token.fill(deep).stream(), shallow.stream()], dim=2))
    last = run_range(backbone, shallow.with_streams(x=fused, text=deep.streams["text"]), range(4, 5))
    torch.testing.assert_close(found, backbone.finish(last), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_mixture_of_depths_scales_the_image_alone():
    """Routers that say 0 leave every image token as it is, and the text as the block has made it."""
    subject = subject_of("mod")
    backbone, method = subject.network.backbone, subject.network.method
    for router in method.routers.values():
        nn.init.zeros_(router.weight)
    states = []
    method.train_forward(backbone, start_of(subject), BatchRange(0, 0, len(subject.x)), lambda b, s: states.append(s))
    first, second = states[0], states[1]
    assert torch.equal(second.streams["x"], first.streams["x"])
    chosen = torch.zeros(len(subject.x), 16).topk(8, dim=1).indices.sort(dim=1).values  # as of equal weights
    expected = backbone.run_block(1, leave(first, chosen)).streams["text"]
    torch.testing.assert_close(second.streams["text"], expected)


@torch.no_grad()
def test_a_sample_that_skips_blocks_keeps_its_text():
    subject = subject_of("layer_skip")
    backbone, states = subject.network.backbone, {}
    watch(backbone, lambda block, before, after: states.update({block: before}))
    subject.network.method.train_forward(backbone, start_of(subject), BatchRange(0, 0, len(subject.x)))
    before, count = run_range(backbone, start_of(subject), range(1)).streams, len(states[2].streams["x"])
    assert 0 < count < len(subject.x)
    for name in ("x", "text"):
        assert (states[4].streams[name] == before[name]).flatten(1).all(1).sum() == len(subject.x) - count, name


@torch.no_grad()
def test_the_block_after_a_route_has_its_text_in_float32_as_well():
    subject = subject_of("tread", float32_after_route=True)
    backbone, dtypes = subject.network.backbone, []
    watch(backbone, lambda block, before, after: dtypes.append(before.streams["text"].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        subject.network.method.train_forward(backbone, start_of(subject), BatchRange(0, 0, len(subject.x)))
    assert dtypes[4] == torch.float32 != dtypes[1]
