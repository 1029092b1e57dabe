"""Rankings that break one rule each."""

from __future__ import annotations

import torch


def rank_half(scores, grid):
    return scores[:, ::2]


def rank_by_the_batch(scores, grid):
    return (scores - scores.mean(0)).abs()


def rank_in_numpy(scores, grid):
    return torch.from_numpy(scores.numpy())
