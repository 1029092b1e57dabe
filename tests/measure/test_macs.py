from __future__ import annotations

import pytest

from tread_bench.core.describe.families import make_spec
from tread_bench.core.describe.routes import Route
from tread_bench.core.numbers.costs import cost_of
from tread_bench.measure.macs import count_cost


@pytest.mark.parametrize(
    ("name", "routes"),
    [("DiT-S/8", []), ("SiT-B/4", [Route(2, 8, 0.5)]), ("DiT-XL/2", [Route(0, 3, 0.25), Route(5, -1, 0.75)])],
    ids=str,
)
def test_closed_form_equals_the_count_on_the_meta_device(name, routes):
    family, spec = make_spec(name)
    resolved = family.resolve(spec, routes, "random")
    assert cost_of(family, spec, resolved) == count_cost(family, spec, resolved)


def test_a_linear_layer_is_counted_once_per_multiply_add():
    family, spec = make_spec("DiT", depth=1, hidden=8, heads=1, patch=1, image_size=2, channels=1, num_classes=0)
    block = cost_of(family, spec).blocks[0]
    assert block.linear == 4 * (3 * 8 * 8 + 8 * 8 + 2 * 8 * 32) + 8 * 48  # 4 tokens: qkv, projection, MLP; once: adaLN
    assert block.attention == 2 * 4 * 4 * 8


def test_cross_attention_is_counted_as_queries_keys_values_and_two_products():
    sizes = {"depth": 1, "hidden": 8, "patch": 1, "image_size": 2, "channels": 1, "num_classes": 0}
    (plain, without), (_, text) = (make_spec("ZigMa", **sizes, context_tokens=m, context_dim=6) for m in (0, 3))
    one, two = count_cost(plain, without), count_cost(plain, text)
    # 4 tokens to 8 heads of 64 and back, 3 of text to keys and values, 3 more parts of the modulation
    assert two.blocks[0].linear - one.blocks[0].linear == 512 * 8 * (2 * 4 + 2 * 3) + 3 * 8 * 8
    assert two.blocks[0].attention == 2 * 4 * 3 * 512 and two.blocks[0].scan == one.blocks[0].scan
    assert two.outside.linear - one.outside.linear == two.inputs - one.inputs == 3 * 6 * 8  # the text has no gradient
