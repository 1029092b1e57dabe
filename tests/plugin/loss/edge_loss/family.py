"""What is known of the loss without torch."""

from typing import Literal

from tread_bench import LossFamily, LossOptions


class EdgeOptions(LossOptions):
    """The differences of neighbouring pixels of the denoised image are those of the data."""

    name: Literal["edges"] = "edges"


EDGES = LossFamily(
    name="edges",
    options=EdgeOptions,
    builder="edge_loss.network:EdgeLoss",
    needs_absent_tokens=False,
    reads_tokens=False,
)
