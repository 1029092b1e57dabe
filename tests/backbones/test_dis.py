from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tread_bench import Route, create_backbone
from tread_bench.core.costs import cost_of
from tread_bench.core.families import make_spec
from tread_bench.measure.macs import count_cost
from tread_bench.model.ops.patching import unpatchify

PUBLISHED = [
    row
    for row in csv.DictReader((Path(__file__).parents[1] / "published_models.csv").read_text().splitlines())
    if row["family"] == "DiS"
]
SMALL = {"depth": 4, "hidden": 16, "patch": 2, "image_size": 8, "channels": 1, "num_classes": 10}
ROUTES = [
    [Route(1, 2, 0.5)],  # a skip made inside ends outside
    [Route(2, 3, 0.5)],  # a skip made outside ends inside
    [Route(1, 3, 0.75)],  # made and ended inside
    [Route(0, 1, 0.25), Route(3, 4, 0.5)],  # made inside one route, ended inside the other
]


def small(**changes):
    """A DiS whose positions are not zero; without drop path unless asked for."""
    model = create_backbone("DiS", seed=0, **{**SMALL, "drop_path": 0.0, **changes})
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def inputs(batch=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(batch, 1, 8, 8, generator=generator, dtype=dtype)
    return x, torch.rand(batch, generator=generator), torch.randint(0, 11, (batch,), generator=generator)


def drawn(routes, batch=3):
    """Ascending ids (B, K) of each route over the 16 patches."""
    generator = torch.Generator().manual_seed(3)
    return [torch.rand(batch, 16, generator=generator).argsort(1)[:, : r.kept(16)].sort(1).values for r in routes]


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['model']} {row['input']}")
def test_parameters_and_macs_are_the_published_ones(row):
    channels, size, _ = map(int, row["input"].split()[1].split("x"))
    family, spec = make_spec(row["model"], channels=channels, image_size=size, num_classes=int(row["num_classes"]))
    cost = cost_of(family, spec)
    sizes = (spec.patch, family.num_blocks(spec), spec.hidden)
    assert sizes == tuple(int(row[key]) for key in ("patch", "blocks", "hidden"))
    assert (cost.params, cost.trainable_params) == (int(row["params_total"]), int(row["params_trainable"]))
    assert cost.forward.linear / 1e9 == pytest.approx(float(row["gmacs_recounted"]), abs=6e-4)


@pytest.mark.parametrize("sizes", [{}, {"num_classes": 0}, {"learn_sigma": False, "channels": 3}], ids=str)
@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_closed_form_equals_the_count_on_the_meta_device(sizes, routes):
    family, spec = make_spec("DiS", **{**SMALL, **sizes})
    resolved = family.resolve(spec, routes, "random")
    assert cost_of(family, spec, resolved) == count_cost(family, spec, resolved)


def test_closed_form_equals_the_count_of_the_largest():
    family, spec = make_spec("DiS-H/4")
    resolved = family.resolve(spec, [Route(2, -4, 0.5)], "random")
    assert cost_of(family, spec, resolved) == count_cost(family, spec, resolved)


def test_scan_macs_are_three_per_token_channel_and_state_of_both_directions():
    family, spec = make_spec("Mamba", **SMALL)
    assert [block.scan for block in cost_of(family, spec).blocks] == [2 * 3 * 18 * 32 * 16] * 5


@pytest.mark.parametrize("routes", [[Route(r.start, r.end, 0.0) for r in routes] for routes in ROUTES], ids=str)
def test_rate_zero_is_the_dense_output_bit_for_bit_through_gather_and_scatter(routes):
    model = small()
    seen = []
    run_block = model.run_block
    model.run_block = lambda block, state: (seen.append(state.ids is not None), run_block(block, state))[1]
    assert torch.equal(model(*inputs(), routes=routes), model(*inputs()))
    assert any(seen), "the route was never entered"


@pytest.mark.parametrize("routes", [[Route(r.start, r.end, 0.0) for r in routes] for routes in ROUTES], ids=str)
def test_rate_zero_is_dense_in_training_under_bfloat16_with_every_gradient(routes):
    results = []
    for chosen in ([], routes):
        model = small(drop_path=0.5).train()
        with torch.random.fork_rng(), torch.autocast("cpu", dtype=torch.bfloat16):
            torch.manual_seed(0)  # of drop path
            output = model(*inputs(), routes=chosen, ids=drawn(chosen))
        output.float().square().mean().backward()
        results.append([output, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert all(torch.equal(dense, routed) for dense, routed in zip(*results, strict=True))


def by_hand(model, x, t, y, routes, ids):
    """Both streams and every skip kept at full length, sample by sample; a routed block writes to its tokens only."""
    outputs = []
    for sample in range(len(x)):
        state = model.start(x[sample : sample + 1], t[sample : sample + 1], y[sample : sample + 1])
        hidden, residual, skips = state.streams["hidden"], torch.zeros_like(state.streams["hidden"]), []
        for number, block in enumerate([*model.in_blocks, model.mid_block, *model.out_blocks]):
            inside = [kept for route, kept in zip(routes, ids, strict=True) if route.start <= number <= route.end]
            present = [0, 1, *(2 + inside[0][sample]).tolist()] if inside else list(range(18))
            h, hidden, residual = hidden[:, present], hidden.clone(), residual.clone()
            if number > len(model.in_blocks):
                h = block.skip_linear(torch.cat([h, skips.pop()[:, present]], dim=-1))
            residual[:, present] += h
            hidden[:, present] = block.mixer(rms_norm(residual[:, present], block.norm.weight))
            if number < len(model.in_blocks):
                skips.append(hidden)
        normed = F.layer_norm(rms_norm(hidden + residual, model.norm_f.weight), (16,), eps=1e-6)
        shift, scale = model.final_layer.adaLN_modulation(state.c).chunk(2, dim=1)
        outputs.append(unpatchify(model.final_layer.linear(normed * (1 + scale) + shift)[:, 2:], (4, 4), 2)[:, :1])
    return torch.cat(outputs)


def rms_norm(x, weight):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_dense_and_routed_equal_a_hand_written_forward_with_expanded_skips(routes):
    model = small().double()
    x, t, y = inputs(dtype=torch.float64)
    ids = drawn(routes)
    computed = model(x, t, y, routes=routes, ids=ids)
    torch.testing.assert_close(computed, by_hand(model, x, t, y, routes, ids), rtol=1e-11, atol=1e-11)


def test_bypassed_tokens_keep_both_streams_and_the_prefix_never_leaves():
    model, states = small(), {}
    model(*inputs(), routes=[Route(1, 3, 0.75)], ids=drawn([Route(1, 3, 0.75)]), on_block=states.__setitem__)
    bypassed = torch.ones(3, 18, dtype=torch.bool).scatter(1, states[1].positions, False)
    assert bypassed.sum() == 3 * 12 and not bypassed[:, :2].any()
    for name in ("hidden", "residual"):
        before, after = states[0].streams[name], states[3].streams[name]
        assert torch.equal(after[bypassed], before[bypassed])
        assert (after[~bypassed] != before[~bypassed]).any(-1).all()


def test_the_residual_stream_is_the_sum_of_both_and_stays_in_float32():
    model, states = small(), {}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(*inputs(), on_block=states.__setitem__)
    for state in states.values():
        assert state.streams["hidden"].dtype is torch.bfloat16
        assert state.streams["residual"].dtype is torch.float32
        assert torch.equal(state.stream(), state.streams["hidden"] + state.streams["residual"])


def test_unsorted_ids_are_refused():
    routes = [Route(1, 3, 0.5)]
    with pytest.raises(ValueError, match="ascending"):
        small()(*inputs(), routes=routes, ids=[drawn(routes)[0].flip(1)])


def test_the_order_of_the_tokens_counts():
    x, t, y = inputs()
    model = small()
    assert not torch.allclose(model(x.mT, t, y).mT, model(x, t, y), atol=1e-3)


@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_every_parameter_of_a_fresh_model_gets_a_gradient(routes):
    model = create_backbone("DiS", seed=0, **{**SMALL, "learn_sigma": False})
    model(*inputs(), routes=routes, ids=drawn(routes)).square().mean().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@pytest.mark.parametrize("routes", [[], [Route(1, 3, 0.5)]], ids=str)
def test_bfloat16_autocast_is_finite_and_near_float32(routes):
    model = small()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        computed = model(*inputs(), routes=routes, ids=drawn(routes))
    computed.float().square().mean().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    expected = model(*inputs(), routes=routes, ids=drawn(routes))
    assert (computed.float() - expected).abs().max() < 0.1 * expected.abs().max()


def test_drop_path_reaches_its_rate_at_the_last_block_as_released():
    """0 at the first block, then linear over the `depth` blocks after it; the release has depth + 1 blocks."""
    model = create_backbone("DiS", seed=0, **{**SMALL, "drop_path": 0.3})
    blocks = [*model.in_blocks, model.mid_block, *model.out_blocks]
    assert [block.drop_path.drop_prob for block in blocks] == pytest.approx([0, 0, 0.1, 0.2, 0.3])


def test_drop_path_drops_whole_samples_in_training_only():
    model = small(drop_path=0.9, hidden=8)
    x, t, y = (v[:1].repeat_interleave(64, 0) for v in inputs())
    assert torch.equal(model.eval()(x, t, y)[0], model(x, t, y)[1])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trained = model.train()(x, t, y)
    kept = ~torch.isclose(trained[:, 0], trained[:1, 0], atol=1e-6).flatten(1).all(1)
    assert 0 < kept.sum() < 64  # some samples took another path than the first
    states = {}
    model.train()(x, t, y, on_block=states.__setitem__)
    for block in (0, 1):
        assert torch.equal(states[block].stream()[0], states[block].stream()[1])
    added = states[4].streams["residual"] - states[3].streams["residual"]
    dropped = (added == 0).flatten(1).all(1)
    assert 0 < dropped.sum() < 64


def test_label_row_means_no_label_and_unconditional_models_take_none():
    model = small()
    x, t, _ = inputs()
    assert torch.equal(model(x, t), model(x, t, torch.full((3,), 10)))
    assert small(num_classes=0)(x, t).shape == x.shape


def test_parameter_names_are_those_of_the_release():
    names = set(dict(create_backbone("DiS", **SMALL).named_parameters()))
    assert {"patch_embed.proj.weight", "time_embed.0.bias", "label_emb.embedding_table.weight", "pos_embed"} <= names
    assert {"in_blocks.1.mixer.A_b_log", "mid_block.norm.weight", "out_blocks.0.skip_linear.bias"} <= names
    assert {"norm_f.weight", "final_layer.linear.weight", "final_layer.adaLN_modulation.1.weight"} <= names


@pytest.mark.parametrize(("sizes", "rule"), [({"depth": 5}, "must be even"), ({"hidden": 15}, "must be even")])
def test_wrong_sizes_are_named(sizes, rule):
    with pytest.raises(ValueError, match=rule):
        create_backbone("DiS", **{**SMALL, **sizes})
