"""The ranking itself."""

import torch


def rank_by_colour(scores_BN, grid):
    """The colour that comes first is drawn per sample, and so is the order of the tokens of one colour."""
    row, column = (torch.arange(side, device=scores_BN.device) for side in grid)
    colour_N = ((row[:, None] + column) % 2).flatten()
    first_B1 = (2 * scores_BN[:, :1]).long()  # the first bit of a score
    within_BN = 2 * scores_BN % 1  # the others, which do not depend on it
    return (colour_N + first_B1) % 2 + within_BN
