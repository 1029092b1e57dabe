"""Long skips computed explicitly where a route begins and ends: what `TokenState.pop_skip` must return."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tread_bench.model.backbone import Backbone, Skip, TokenState, come_back, leave
from tread_bench.model.contract.subject import Case


def with_skips_by_hand(model: Backbone, state: TokenState, case: Case) -> TokenState:
    """Run all blocks, converting every skip at the route's borders to what its reader needs."""
    whole: dict[int, Skip] = {}
    for block in range(model.num_blocks):
        if block == case.route.start:
            outside = state.skips
            state = leave(state, case.ids)
            gathered = tuple(_gathered_by_hand(skip, state.positions) for skip in outside)
            whole = {id(inside): skip for inside, skip in zip(gathered, outside, strict=True)}
            state = replace(state, skips=gathered)
        state = model.run_block(block, state)
        if block == case.route.end:
            skips = tuple(whole[id(skip)] if id(skip) in whole else _expanded_by_hand(skip) for skip in state.skips)
            state = replace(come_back(state), skips=skips)
    return state


def _gathered_by_hand(skip: Skip, positions_BK: Tensor | None) -> Skip:
    assert positions_BK is not None
    value = torch.stack([tokens[kept] for tokens, kept in zip(skip.value, positions_BK, strict=True)])
    return Skip(value, positions_BK, None)


def _expanded_by_hand(skip: Skip) -> Skip:
    assert skip.background is not None and skip.positions is not None
    value = skip.background.clone()
    for sample, kept in enumerate(skip.positions):
        value[sample, kept] = skip.value[sample]
    return Skip(value, None, None)
