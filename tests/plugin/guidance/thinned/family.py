"""The rule itself, without torch."""

from typing import Literal

from pydantic import Field

from tread_bench import Branch, GuidanceFamily, GuidanceOptions, Route


class Thinned(GuidanceOptions):
    """The weak branch sees fewer tokens than the strong one, at times in the middle."""

    name: Literal["thinned"] = "thinned"
    blocks: tuple[Route, ...] = ()  # those of the cell's routes; a plan writes their numbers here
    weak: float = Field(0.75, gt=0.25, lt=1, description="share of the tokens that bypasses in the weak branch")

    @property
    def guided_times(self):
        return 0.2, 0.8

    @property
    def routed_blocks(self):
        return self.blocks

    @property
    def rates(self):
        return 0.25, self.weak

    @property
    def branches(self):
        return tuple(
            Branch(name, routes=tuple(Route(block.start, block.end, rate) for block in self.blocks))
            for name, rate in zip(("strong", "weak"), self.rates, strict=True)
        )


THINNED = GuidanceFamily(name="thinned", options=Thinned)
