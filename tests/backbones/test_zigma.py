from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.backbones import networks
from tests.backbones.networks import inputs, text_inputs
from tread_bench import create_backbone
from tread_bench.backbones.zigma.network import zigzag_paths
from tread_bench.core.describe.families import make_spec
from tread_bench.core.numbers.costs import cost_of

FAMILY = "ZigMa"
SMALL, ROUTES, TEXT = networks.SMALL[FAMILY], networks.ROUTES[FAMILY], networks.TEXT[FAMILY]
small = partial(networks.small, FAMILY)


def test_the_demo_of_the_readme_brings_all_its_sizes():
    assert cost_of(*make_spec("ZigMa-Demo/1-T2I")).params == 116_996_483


@pytest.mark.parametrize("side", [2, 3, 4, 16])
def test_paths_visit_every_cell_once_from_neighbour_to_neighbour(side):
    paths = zigzag_paths((side, side))
    assert torch.equal(paths.sort(1).values, torch.arange(side**2).expand(8, -1))
    rows, columns = paths // side, paths % side
    assert (rows.diff(dim=1).abs() + columns.diff(dim=1).abs() == 1).all()
    assert len({tuple(path.tolist()) for path in paths}) == 8


def test_paths_come_in_the_releases_order():
    first = zigzag_paths((3, 3))
    assert first[:4].tolist() == [
        [0, 1, 2, 5, 4, 3, 6, 7, 8],  # rows from the top left
        [0, 3, 6, 7, 4, 1, 2, 5, 8],  # columns from the top left
        [2, 1, 0, 3, 4, 5, 8, 7, 6],  # rows from the top right
        [2, 5, 8, 7, 4, 1, 0, 3, 6],  # columns from the top right
    ]
    assert first[4:, 0].tolist() == [6, 6, 8, 8]


def test_learned_positions_begin_at_zero_and_are_added_once():
    model = create_backbone("ZigMa", **SMALL, learned_positions=True)
    assert not model.pos_embed.any()
    positions, (x, t, y) = torch.randn(model.pos_embed.shape), inputs()
    without = model.start(x, t, y).streams["x"]
    model.pos_embed.data = positions
    torch.testing.assert_close(model.start(x, t, y).streams["x"], without + positions)


@pytest.mark.parametrize("sizes", [{}, TEXT], ids=["labels", "text"])
def test_gates_begin_at_zero(sizes):
    model = create_backbone("ZigMa", **{**SMALL, **sizes})
    for block in model.blocks:
        assert not block.adaLN_modulation[1].weight.any() and not block.adaLN_modulation[1].bias.any()
        assert block.mixer.out_proj.weight.any()
    assert model.final_layer.linear.weight.any()


@pytest.mark.parametrize(("sizes", "condition"), [({}, inputs), (TEXT, text_inputs)], ids=["labels", "text"])
def test_drop_path_adds_the_last_blocks_output_to_the_residual_wholly_or_not_at_all(sizes, condition):
    model, states = small(drop_path=0.5, **sizes).train(), {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model(*condition(), on_block=states.__setitem__)
    dropped = set()
    for block in range(1, 10):
        before, after = states[block - 1].streams, states[block].streams
        kept = before["x"] / model.blocks[block].drop_path.keep
        for sample in range(3):
            added = (after["residual"] - before["residual"])[sample]
            dropped.add(not added.any())
            torch.testing.assert_close(added, kept[sample] * bool(added.any()), rtol=1e-4, atol=1e-4)
    assert dropped == {True, False}
