from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from tread_bench.core.describe.routes import Route
from tread_bench.model.ops.routing import gather_tokens, lowest, scatter_tokens, with_prefix

sizes = st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(1, 5), st.integers(0, 3))  # B, N, D, P


@given(sizes, st.floats(0, 0.99), st.integers(0, 2**31))
def test_gather_then_scatter_is_the_identity(size, rate, seed):
    batch, tokens, width, prefix = size
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, prefix + tokens, width, generator=generator)
    ids = lowest(torch.rand(batch, tokens, generator=generator), Route(0, 0, rate).kept(tokens))
    positions = with_prefix(ids, prefix)
    assert torch.equal(scatter_tokens(x, gather_tokens(x, positions), positions), x)


def test_gradients_reach_kept_and_bypassed_tokens_once():
    x = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    positions = torch.tensor([[0, 2, 5], [1, 3, 4]])

    def doubled_inside(x):
        return scatter_tokens(x, 2 * gather_tokens(x, positions), positions)

    assert torch.autograd.gradcheck(doubled_inside, x)
    doubled_inside(x).sum().backward()
    inside = torch.zeros(2, 6).scatter(1, positions, 1.0).unsqueeze(-1)
    assert torch.equal(x.grad, (1 + inside).expand(2, 6, 3).double())
