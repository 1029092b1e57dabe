"""What a study states before it runs: a claim, the test that decides it, its margin, and when it stops."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from tread_bench.core.config.base import Float, Int, Model

MOST_CHARACTERS = 1000  # of a claim
SAME_BUDGET = 1.05  # ratio up to which the training MACs of two arms or widths are one length


class Hypothesis(Model):
    """A pre-registered hypothesis; a run that was started under one refuses another."""

    claim: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_CHARACTERS)] = Field(
        description="what the study is to show, in a sentence"
    )
    test: Literal["onset"] = Field(description="rule that decides; onset: from how much compute on a route pays")
    margin: Float = Field(
        ge=1, description="compute of a reference over a route's at equal loss, which a route must exceed to pay"
    )
    stop: Int = Field(ge=2, description="number of seeds after which the study ends, whatever they show")
