from __future__ import annotations

import torch

from tread_bench.ops.similarity import cosine_matrix


def test_parallel_orthogonal_and_opposite_layers():
    x = torch.zeros(2, 3, 4)
    x[..., 0] = 1
    y = torch.zeros(2, 3, 4)
    y[..., 1] = 5
    expected = torch.tensor([[1, 0, -1], [0, 1, 0], [-1, 0, 1]], dtype=torch.float64)
    torch.testing.assert_close(cosine_matrix(torch.stack([x, y, -2 * x])), expected)


def test_is_the_mean_of_the_tokens_cosines():
    layers = torch.randn(4, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.cosine_similarity(layers[:, None], layers[None], dim=-1).mean((-1, -2))
    torch.testing.assert_close(cosine_matrix(layers).float(), expected)
