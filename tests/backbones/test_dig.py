"""DiG, dense and routed, against its release's forward written out, with every mixer token by token in float64."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from tests.backbones import mixing, networks
from tests.backbones.networks import drawn, inputs, present
from tests.backbones.restated import image, layer_norm, linear, patches, time_mlp
from tread_bench import create_backbone
from tread_bench.backbones.dig import network
from tread_bench.core.describe.families import families, make_spec
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.numbers.costs import cost_of
from tread_bench.model.ops import recurrence
from tread_bench.model.ops.patching import sincos_positions

ROUTES = networks.ROUTES["DiG"]
small = partial(networks.small, "DiG")


def moved(cells, block):
    """The sequence before a block: reversed after every block, the grid transposed after every second one."""
    for number in range(block):
        cells = cells.flip(0)
        cells = cells.unflatten(0, (4, 4)).transpose(0, 1).flatten(0, 1) if number % 2 else cells
    return cells


def of(w, prefix):
    return {name.removeprefix(prefix): value for name, value in w.items() if name.startswith(prefix)}


def by_hand(model, x, t, y, routes, ids):
    """Sample by sample, moving the whole stream as released; cells without a token are zeros to the convolution."""
    spec, w = model.spec, dict(model.named_parameters())
    outputs = []
    for sample in range(len(x)):
        c = time_mlp(w, "t_embedder", t[sample]) + w["y_embedder.embedding_table.weight"][y[sample]]
        stream = patches(w, "x_embedder", spec, x[sample]) + sincos_positions(spec.hidden, spec.grid)
        firsts = {}
        for number in range(spec.depth):
            block = of(w, f"blocks.{number}.")
            seen = present(routes, ids, number, sample)
            places = [(at, cell) for at, cell in enumerate(moved(torch.arange(16), number).tolist()) if cell in seen]
            order, path = [cell for _, cell in places], [at for at, _ in places]
            steps = [at - before for at, before in zip(path, [-1, *path], strict=False)] if spec.decay_skipped else None
            part = stream[order]
            shift, scale, gate, *of_mlp = linear(block, "adaLN_modulation.1", F.silu(c)).chunk(6)
            mixer = spec.mixer_at(number)
            mix = partial(mixing.MIXERS[mixer.name], of(block, "attn."), heads=spec.heads, steps=steps)
            asked = layer_norm(part, 1e-6) * (1 + scale) + shift
            if mixer.shares_values:
                values = mixing.values(of(block, "attn."), asked)
                first = torch.stack([firsts.setdefault(cell, v) for cell, v in zip(order, values, strict=True)])
                mix = partial(mix, first=first)
            part = part + gate * mix(x_TD=asked)
            shift, scale, gate = of_mlp
            hidden = linear(block, "mlp.gate_proj", layer_norm(part, 1e-6) * (1 + scale) + shift)
            gated, value = hidden.chunk(2, dim=1)
            part = part + gate * linear(block, "mlp.down_proj", F.silu(gated) * value)
            grid = torch.zeros(16, spec.hidden, dtype=x.dtype)
            grid[path] = part
            grid = F.conv2d(
                grid.T.unflatten(1, (4, 4))[None], block["dw_conv.weight"], block["dw_conv.bias"], 1, 1, 1, spec.hidden
            )
            stream = stream.clone()
            stream[order] = grid[0].flatten(1).T[path]
        shift, scale = linear(w, "final_layer.adaLN_modulation.1", F.silu(c)).chunk(2)
        out = linear(w, "final_layer.linear", layer_norm(stream, 1e-6) * (1 + scale) + shift)
        outputs.append(image(spec, out)[: spec.channels])
    return torch.stack(outputs)


def difference(model, routes, ids=None):
    """The largest difference from the forward by hand, relative to its largest entry."""
    model, given, ids = model.double(), inputs(dtype=torch.float64), drawn(routes) if ids is None else ids
    with torch.no_grad():
        expected = by_hand(model, *given, routes, ids)
        return ((model(*given, routes=routes, ids=ids) - expected).abs().max() / expected.abs().max()).item()


@pytest.mark.parametrize("mixer", mixing.MIXERS)
@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_dense_and_routed_equal_the_release_written_out(routes, mixer):
    assert difference(small(mixer=mixer), routes) < 1e-9


@pytest.mark.parametrize("mixer", [name for name, one in mixers().items() if "recurrence" in one.kernels])
def test_the_kernel_that_is_chosen_computes_every_recurrence(mixer, monkeypatch):
    asked, right = [], recurrence._computed
    monkeypatch.setattr(recurrence, "_computed", lambda kernel, *some: asked.append(kernel) or right(kernel, *some))
    model = small(mixer=mixer, kernels={"recurrence": "numba"})
    model(*inputs())
    assert asked == ["numba"] * model.spec.depth


@pytest.mark.parametrize("sizes", [{"mixer": "rwkv7"}, {"decay_skipped": True}], ids=str)
@pytest.mark.parametrize("routes", [[], *ROUTES], ids=str)
def test_a_hybrid_has_attention_in_every_fourth_block(routes, sizes):
    model = small(depth=9, attention_every=4, **sizes)
    assert [number for number, block in enumerate(model.blocks) if hasattr(block.attn, "qkv")] == [3, 7]
    assert difference(model, routes) < 1e-9


@pytest.mark.parametrize("mixer", mixing.MIXERS)
def test_without_a_mixer_a_block_joins_neighbours_alone(mixer):
    """The last token along the path of the first block, and the first one, three cells away."""
    model, (x, t, y) = small(mixer=mixer, depth=1).double(), inputs(dtype=torch.float64)
    changed = x.clone()
    changed[:, :, :2, :2] += 1
    with torch.no_grad():
        difference = (model(changed, t, y) - model(x, t, y)).abs().amax((0, 1))
    reached = difference.unfold(0, 2, 2).unfold(1, 2, 2).amax((2, 3)) > 1e-12
    near = torch.zeros(4, 4, dtype=torch.bool)
    near[:2, :2] = True
    assert torch.equal(reached, near if mixer == "identity" else torch.ones_like(near))


@pytest.mark.parametrize("mixer", [name for name, one in mixers().items() if one.gates_by_token])
def test_decays_of_skipped_tokens_are_raised_by_the_gap(mixer):
    assert difference(small(mixer=mixer, decay_skipped=True), ROUTES[0]) < 1e-9
    without, raised = (small(mixer=mixer, decay_skipped=chosen) for chosen in (False, True))
    assert torch.equal(without(*inputs()), raised(*inputs()))  # all tokens are there
    routed = [model(*inputs(), routes=ROUTES[0], ids=drawn(ROUTES[0])) for model in (without, raised)]
    assert not torch.allclose(*routed)


def test_the_four_paths_begin_at_four_cells():
    paths = network.dig_paths((4, 4))
    assert paths[:, :3].tolist() == [[0, 1, 2], [15, 14, 13], [0, 4, 8], [15, 11, 7]]
    assert torch.equal(paths.sort(1).values, torch.arange(16).expand(4, -1))
    assert all(torch.equal(paths[block % 4], moved(torch.arange(16), block)) for block in range(8))


@pytest.mark.parametrize(
    ("name", "params"),
    [("DiG-S/2", 33_081_632), ("DiG-B/2", 130_748_192), ("DiG-L/2", 465_022_496), ("DiG-XL/2", 675_953_952)],
)
def test_published_sizes_have_the_parameters_of_the_release(name, params):
    family, spec = make_spec(name)
    cost = cost_of(family, spec)
    assert cost.params == params and cost.params - cost.trainable_params == 256 * spec.hidden
    assert cost.forward.scan == spec.depth * 256 * 3 * (spec.hidden // 2) * (spec.hidden // spec.heads)


def test_convolutions_begin_as_the_identity():
    model = create_backbone("DiG", seed=0, **networks.SMALL["DiG"])
    state = model.start(*inputs())
    tokens = state.streams["x"]
    torch.testing.assert_close(model.blocks[1].convolve(tokens, state), tokens, rtol=2**-22, atol=0)


def test_a_mixer_is_told_what_it_lacks():
    able = ", ".join(name for name, one in mixers().items() if one.gates_by_token)
    for name, one in mixers().items():
        if not one.gates_by_token:
            with pytest.raises(ValueError, match=f"not {name}: {able}"):
                families()["DiG"].spec(mixer=name, decay_skipped=True)
