"""What is known of the method without torch."""

from typing import Literal

from pydantic import Field

from tread_bench import Evaluated, MethodFamily, MethodOptions, Tokens


class MeanFillOptions(MethodOptions):
    """Tokens are dropped inside their route; after it they are the mean of the others."""

    name: Literal["mean_fill"] = "mean_fill"
    keep_own: float = Field(0.5, ge=0, le=1, description="share of what the token held before that stays in it")


MEAN_FILL = MethodFamily(
    name="mean_fill",
    options=MeanFillOptions,
    builder="mean_fill.network:MeanFill",
    tokens=Tokens.DROP,
    evaluated=Evaluated.DENSE,
    has_modules=False,
    chooses_tokens=False,
    has_shallow_path=False,
)
