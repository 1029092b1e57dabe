"""MMDiT: its text changes in every block and no route takes it; and what finds one that routes it."""

from __future__ import annotations

from functools import partial

import torch

from tests.backbones import networks
from tests.backbones.networks import drawn, text_inputs
from tread_bench.backbones.mmdit.family import MMDIT
from tread_bench.core.describe.routes import ResolvedRoute, Route
from tread_bench.model.backbone import build_backbone, run_blocks

small = partial(networks.small, "MMDiT")
ROUTE = Route(1, 2, 0.5)


@torch.no_grad()
def test_the_text_is_whole_and_changes_in_every_block_but_the_last():
    model, texts, counts = small(), [], []

    def look(block, state):
        texts.append(state.streams["text"])
        counts.append(state.streams["x"].shape[1])

    start = model.start(*text_inputs())
    run_blocks(model, start, [ResolvedRoute(1, 2, 0.5)], drawn([ROUTE]), look)
    assert counts == [16, 8, 16, 16]
    assert [text.shape for text in texts] == [(3, 5, 32)] * 4
    before = [start.streams["text"], *texts]
    changed = [(one != other).any(2).all().item() for one, other in zip(before, texts, strict=False)]
    assert changed == [True, True, True, False]


def test_the_last_block_s_text_weights_are_what_the_image_reads():
    """What SD3 leaves out there: of the text, nothing but keys and values has an effect on the image."""
    model = build_backbone(MMDIT, small().spec, {"attention": "math"}, seed=0)
    model(*text_inputs()).square().sum().backward()
    query, key, value = model.joint_blocks[-1].context_block.attn.qkv.weight.grad.chunk(3)
    assert not query.any() and key.any() and value.any()
