"""What is known of the metric without torch."""

from typing import Literal

from pydantic import Field

from tread_bench import Figure, MetricFamily, MetricOptions, Needs


class CoverageOptions(MetricOptions):
    """Share of real images with a generated one in their neighbourhood (Naeem et al. 2020)."""

    name: Literal["coverage"] = "coverage"
    neighbours: int = Field(5, ge=1, description="how many real images make a neighbourhood")


COVERAGE = MetricFamily(
    name="coverage",
    options=CoverageOptions,
    builder="feature_coverage.metric:Coverage",
    figures=(
        Figure(
            name="coverage",
            title="Coverage",
            definition="share of real images with a generated one in their neighbourhood; higher is better",
            lower_is_better=False,
            of_itself=1.0,
        ),
    ),
    needs=frozenset({Needs.FEATURES}),
    min_samples=lambda options: options.neighbours + 1,
    protocol=lambda options: f"{options.neighbours} neighbours, 1",
)
