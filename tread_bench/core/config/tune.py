"""How every row gets a learning rate of its own: the candidates, and the trainings that choose among them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tread_bench.core.config.base import Float, Int, Model, is_unused

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the suite's learning rate: the default candidates
FIRST_SEED = 1_000_000  # of the tuning seeds, which are none of a study's
LEAST = 3  # candidates: the best one needs a worse one on both sides
MOST_SEEDS = 100


def _ascending(candidates: tuple[float, ...]) -> tuple[float, ...]:
    if len(candidates) < LEAST:
        raise ValueError(
            f"{len(candidates)} candidates: the best needs a worse one on both sides, so give {LEAST} or more"
        )
    if len(set(candidates)) < len(candidates):
        raise ValueError("a candidate is written twice; every one must differ")
    return tuple(sorted(candidates))


Rate = Annotated[Float, Field(gt=0)]


class Tune(Model):
    """Each row is trained at every candidate on seeds of its own, then runs its study at its best one.

    The best candidate is the one of lowest dense validation loss, averaged over the tuning seeds.
    """

    candidates: Annotated[tuple[Rate, ...], AfterValidator(_ascending)] | None = Field(
        None,
        description="learning rates that every row is trained at; empty: 1/4, 1/2, 1, 2 and 4 times the suite's",
    )
    seeds: Int = Field(2, ge=1, le=MOST_SEEDS, description="trainings at each candidate, on seeds that no study has")
    share: Float = Field(0.5, gt=0, le=1, description="share of a row's iterations that these trainings have")
    shortest: bool = Field(
        False,
        exclude_if=is_unused,
        description="true: rows that differ in their length alone have the learning rate of the shortest of them",
    )
    check: tuple[str, ...] = Field(
        (),
        exclude_if=is_unused,
        description="with shortest: rows that train all candidates at their own length too, to see if the best moves",
    )
    generate: bool = Field(False, description="true: generate images at their end too, so that FID is measured")

    @model_validator(mode="after")
    def _checks_what_is_shared(self) -> Tune:
        if self.check and not self.shortest:
            raise ValueError("check has no effect: rows have the best learning rate of their own length; set shortest")
        return self

    @property
    def seed_numbers(self) -> range:
        """The tuning seeds."""
        return range(FIRST_SEED, FIRST_SEED + self.seeds)

    def rates(self, learning_rate: float) -> tuple[float, ...]:
        """Return the candidates, ascending; `learning_rate` is that of the suite."""
        return self.candidates or tuple(factor * learning_rate for factor in FACTORS)

    @property
    def cells_per_row(self) -> int:
        """Trainings of a row, over all candidates and seeds."""
        return len(self.candidates or FACTORS) * self.seeds
