"""Inception score, without torch."""

from __future__ import annotations

from typing import Literal

from tread_bench.core.metrics import Figure, MetricFamily, MetricOptions, Needs

SEED = 2020  # torch-fidelity's own, of the order of the splits
SPLITS = 10


class InceptionScoreOptions(MetricOptions):
    """Inception score (Salimans et al. 2016), with the classifier of the protocol."""

    name: Literal["inception_score"] = "inception_score"


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
    min_samples=lambda options: SPLITS,
    protocol=lambda options: f"{SPLITS} splits, seed {SEED}",
)
