"""The posterior of DDPM over noise levels: one step from x + sigma noise to x + sigma' noise, sigma' < sigma.

Given the data x, it is normal with mean x + (sigma' / sigma)^2 (x_sigma - x) and the smallest variance below: eq. 7 of
Ho et al. 2020 (arXiv 2006.11239), with both sides scaled so that the data keep their size.
"""

from __future__ import annotations

from torch import Tensor


def log_variances(now: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logarithms of the smallest and the largest variance of a step between two noise levels.

    The smallest is the posterior's, -inf in a step to 0; the largest is beta, that of the step of noising. A learned
    variance lies between (Nichol and Dhariwal 2021, arXiv 2102.09672, eq. 15).
    """
    lost = (now.square() - after.square()).log()
    smallest = lost + 2 * (after / now).log()
    largest = lost + after.square().log1p() - now.square().log1p()
    return smallest, largest
