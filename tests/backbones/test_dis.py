from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from tests.backbones import networks
from tests.backbones.networks import assert_is_by_hand, inputs, present, rms_norm
from tread_bench.core.describe.families import make_spec
from tread_bench.core.numbers.costs import cost_of
from tread_bench.model.ops.patching import unpatchify

FAMILY = "DiS"
SMALL, ROUTES = networks.SMALL[FAMILY], networks.ROUTES[FAMILY]
small = partial(networks.small, FAMILY)


def test_scan_macs_are_three_per_token_channel_and_state_of_both_directions():
    family, spec = make_spec("Mamba", **SMALL)
    assert [block.scan for block in cost_of(family, spec).blocks] == [2 * 3 * 18 * 32 * 16] * 5


def by_hand(model, x, t, y, routes, ids):
    """Both streams and every skip kept at full length, sample by sample; a routed block writes to its tokens only."""
    outputs = []
    for sample in range(len(x)):
        state = model.start(x[sample : sample + 1], t[sample : sample + 1], y[sample : sample + 1])
        hidden, residual, skips = state.streams["hidden"], torch.zeros_like(state.streams["hidden"]), []
        for number, block in enumerate([*model.in_blocks, model.mid_block, *model.out_blocks]):
            seen = present(routes, ids, number, sample, prefix=2)
            h, hidden, residual = hidden[:, seen], hidden.clone(), residual.clone()
            if number > len(model.in_blocks):
                h = block.skip_linear(torch.cat([h, skips.pop()[:, seen]], dim=-1))
            residual[:, seen] += h
            hidden[:, seen] = block.mixer(rms_norm(residual[:, seen], block.norm.weight))
            if number < len(model.in_blocks):
                skips.append(hidden)
        normed = F.layer_norm(rms_norm(hidden + residual, model.norm_f.weight), (16,), eps=1e-6)
        shift, scale = model.final_layer.adaLN_modulation(state.c).chunk(2, dim=1)
        outputs.append(unpatchify(model.final_layer.linear(normed * (1 + scale) + shift)[:, 2:], (4, 4), 2)[:, :1])
    return torch.cat(outputs)


@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_dense_and_routed_equal_a_hand_written_forward_with_expanded_skips(routes):
    assert_is_by_hand(by_hand, small(), inputs, routes)


def test_the_residual_stream_is_the_sum_of_both_and_stays_in_float32():
    model, states = small(), {}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(*inputs(), on_block=states.__setitem__)
    for state in states.values():
        assert state.streams["hidden"].dtype is torch.bfloat16
        assert state.streams["residual"].dtype is torch.float32
        assert torch.equal(state.stream(), state.streams["hidden"] + state.streams["residual"])


def test_drop_path_drops_whole_samples_in_training_only():
    model = small(drop_path=0.9, hidden=8).double()
    x, t, y = (v[:1].repeat_interleave(64, 0) for v in inputs(dtype=torch.float64))
    predicted = model.eval()(x, t, y)
    torch.testing.assert_close(predicted[0], predicted[1], rtol=1e-12, atol=1e-12)  # rows of a product may differ
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trained = model.train()(x, t, y)
    kept = ~torch.isclose(trained[:, 0], trained[:1, 0], atol=1e-6).flatten(1).all(1)
    assert 0 < kept.sum() < 64  # some samples took another path than the first
    states = {}
    model.train()(x, t, y, on_block=states.__setitem__)
    for block in (0, 1):
        torch.testing.assert_close(*states[block].stream()[:2], rtol=1e-12, atol=1e-12)
    added = states[4].streams["residual"] - states[3].streams["residual"]
    dropped = (added == 0).flatten(1).all(1)
    assert 0 < dropped.sum() < 64
