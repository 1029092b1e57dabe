"""Some samples of a batch, which pass blocks without the others."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from tread_bench.model.backbone import TokenState


def only(state: TokenState, chosen: Tensor) -> TokenState:
    """Return the chosen samples only; skips saved before are left out."""
    part = {name: stream[chosen] for name, stream in state.streams.items()}
    c = None if state.c is None else state.c[chosen]
    context = None if state.context is None else state.context[chosen]
    conditioning = tuple(None if one is None else one[chosen] for one in state.conditioning)
    drawn = None if state.drop_draws is None else state.drop_draws[chosen]
    alone = replace(state, streams=part, c=c, context=context, conditioning=conditioning, drop_draws=drawn)
    return replace(alone, skips=(), cache={})


def put_back(state: TokenState, chosen: Tensor, part: TokenState) -> TokenState:
    """Return the whole batch, with the streams of `part` for the chosen samples."""
    whole = {}
    for name, stream in state.streams.items():
        whole[name] = stream.index_copy(0, chosen, part.streams[name].to(stream.dtype))
    return state.with_streams(**whole)
