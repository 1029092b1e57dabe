"""Inception score, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.config.base import Int
from tread_bench.core.describe.metrics import Figure, MetricFamily, MetricOptions, Needs

SEED = 2020  # torch-fidelity's own, of the order of the splits
SPLITS = 10


class InceptionScoreOptions(MetricOptions):
    """Inception score (Salimans et al. 2016), with the classifier of the protocol."""

    name: Literal["inception_score"] = "inception_score"
    chunk: Int | None = Field(
        None, ge=1, description="images in a chunk, in their order, as in ADM; empty: ten shuffled splits"
    )


def _protocol(options: InceptionScoreOptions) -> str:
    return f"{SPLITS} splits, seed {SEED}" if options.chunk is None else f"chunks of {options.chunk} in order"


INCEPTION_SCORE = MetricFamily(
    name="inception_score",
    options=InceptionScoreOptions,
    builder="tread_bench.measure.quality.inception_score.metric:InceptionScore",
    figures=(
        Figure(
            name="inception_score",
            title="IS",
            definition="Salimans et al. 2016, with the classifier of the protocol; higher is better",
            lower_is_better=False,
            of_itself=None,
        ),
    ),
    needs=frozenset({Needs.LOGITS}),
    min_samples=lambda options: SPLITS if options.chunk is None else 1,
    protocol=_protocol,
    protocol_samples=50_000,
)
