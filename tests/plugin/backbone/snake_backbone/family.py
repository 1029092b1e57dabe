"""What is known of Snake without torch."""

from pydantic import Field

from tread_bench import BackboneSpec, Family, TokenOrder


class SnakeSpec(BackboneSpec):
    depth: int = Field(6, ge=2)
    hidden: int = Field(64, ge=2, multiple_of=2)


SNAKE = Family(
    name="Snake",
    spec=SnakeSpec,
    published={"Snake-S/2": {"depth": 6, "hidden": 64, "patch": 2}},
    token_order=TokenOrder.SEQUENCE,
    num_blocks=lambda spec: spec.depth,
    num_prefix=lambda spec: 1,
    time_scale=1000.0,
    builder="snake_backbone.network:Snake",
)
