"""Lookup of backbone families by name, through entry points of the group `tread_bench.backbones`.

`Family.builder` names the module that holds a family's network, which `model.backbone.build_backbone` imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, model_validator

from tread_bench.core.config.base import Model
from tread_bench.core.describe.plugins import Description, Kind
from tread_bench.core.describe.routes import ResolvedRoute, Route, RoutesLike, resolve_routes
from tread_bench.core.describe.selectors import TokenOrder, selectors
from tread_bench.core.names import unknown


class BackboneSpec(Model):
    """Sizes of a backbone; a family's own spec adds its depth, width and so on.

    `image_size` and `channels` are those of the tensor that the backbone sees (latents where there is an autoencoder).
    """

    image_size: int = Field(32, ge=1, description="side of the square input, in its own pixels")
    channels: int = Field(4, ge=1, description="channels of the input")
    num_classes: int = Field(1000, ge=0, description="labels; 0 is an unconditional model")
    patch: int = Field(2, ge=1, description="side of a patch; one patch is one token")

    @model_validator(mode="after")
    def _patches_cover_the_image(self) -> BackboneSpec:
        if self.image_size % self.patch:
            raise ValueError(f"patch {self.patch} must divide image_size {self.image_size}")
        return self

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tokens."""
        side = self.image_size // self.patch
        return side, side

    @property
    def num_tokens(self) -> int:
        """Number of image tokens, without prefix tokens."""
        rows, columns = self.grid
        return rows * columns

    @property
    def patch_values(self) -> int:
        """Number of values in a patch."""
        return self.patch**2 * self.channels

    @property
    def out_channels(self) -> int:
        """Channels that the last layer computes: C, or 2C where a spec has `learn_sigma`, and it is set."""
        return self.channels * (1 + getattr(self, "learn_sigma", False))

    @property
    def context_shape(self) -> tuple[int, int] | None:
        """(M, E), the shape of one sample's text features in y; None if y holds labels or nothing."""
        return None


class TextSpec(BackboneSpec):
    """Sizes of a backbone that can be conditioned on captions: with `context_tokens`, y holds text features.

    Where the data have captions, a suite takes both sizes from them.
    """

    context_tokens: int = Field(0, ge=0, description="text tokens that y holds in place of a label; 0: none")
    context_dim: int = Field(768, ge=1, description="width of a text token, as its encoder gives it")

    @model_validator(mode="after")
    def _labels_or_text(self) -> TextSpec:
        if self.context_tokens and self.num_classes:
            both = f"num_classes {self.num_classes} and context_tokens {self.context_tokens}"
            raise ValueError(f"{both}: a model takes labels or text; set one of the two to 0")
        return self

    @property
    def context_shape(self) -> tuple[int, int] | None:
        return (self.context_tokens, self.context_dim) if self.context_tokens else None


@dataclass(frozen=True, slots=True)
class Macs:
    """Multiply-adds of one image by kind; one multiply-add is one MAC.

    `linear`: linear layers and convolutions (what the DiT paper's "Gflops" column counts, together with attention);
    `attention`: the two products QK^T and AV; `scan`: the multiply-adds of a recurrence, by the family's formula.
    """

    linear: int = 0
    attention: int = 0
    scan: int = 0

    @property
    def total(self) -> int:
        return self.linear + self.attention + self.scan

    def __add__(self, other: Macs) -> Macs:
        return Macs(self.linear + other.linear, self.attention + other.attention, self.scan + other.scan)

    def __sub__(self, other: Macs) -> Macs:
        return Macs(self.linear - other.linear, self.attention - other.attention, self.scan - other.scan)


@dataclass(frozen=True, slots=True)
class Cost:
    """Parameters of a backbone and MACs of one forward pass of one image.

    `blocks` holds one entry per block, `outside` everything before, between and after the blocks. `inputs` is the part
    in layers whose input is data, so that their backward pass computes no gradient of the input.
    """

    params: int
    trainable_params: int
    blocks: tuple[Macs, ...]
    outside: Macs
    inputs: int = 0

    @property
    def forward(self) -> Macs:
        return sum(self.blocks, self.outside)

    @property
    def train_step(self) -> int:
        """MACs of forward and backward for one image: each product has two gradients, or one if its input is data."""
        return 3 * self.forward.total - self.inputs


def mirrored_skips(num_blocks: int) -> tuple[tuple[int, int], ...]:
    """Return a long skip from each block of the first half to its mirror image in the second, as in a U-Net."""
    return tuple((block, num_blocks - 1 - block) for block in range(num_blocks // 2))


@dataclass(frozen=True, kw_only=True, eq=False)
class Family(Description):
    """Torch-free description of a family of backbones.

    Args:
        name, aliases: as the papers write them; looked up without regard to case.
        spec: the typed sizes.
        published: sizes by published name ("DiT-S/2").
        token_order: what the order of tokens means.
        num_blocks: number of blocks, which routes index; the spec's `depth`, if not stated.
        builder: "module:attribute" of a callable (spec, kernels) -> Backbone.
        num_prefix: number of leading tokens that carry conditioning and are never routed.
        time_scale: factor of the objective's time t before it is embedded.
        first_level: where the objective numbers its noise levels, the number that is embedded for the first of them, as
            released weights count them.
        selectors: names of the selectors that work with this family; None: all that serve its token order.
        long_skips: (block that saves, block that reads) for each skip outside run_block's streams.
        check_routes: raises ValueError, with the rule and a working alternative, if a route would be wrong.
    """

    spec: type[BackboneSpec]
    published: Mapping[str, Mapping[str, Any]]
    token_order: TokenOrder
    builder: str
    num_blocks: Callable[[Any], int] = lambda spec: int(spec.depth)
    aliases: tuple[str, ...] = ()
    num_prefix: Callable[[Any], int] = lambda spec: 0
    time_scale: float = 1.0
    first_level: int = 0
    selectors: tuple[str, ...] | None = None
    long_skips: Callable[[Any], Sequence[tuple[int, int]]] = lambda spec: ()
    check_routes: Callable[[Any, Sequence[Route], str], None] = lambda spec, routes, selector: None

    def __post_init__(self) -> None:
        """Raise ValueError where the spec is not one."""
        if not (isinstance(self.spec, type) and issubclass(self.spec, BackboneSpec)):
            raise ValueError("its spec must be a subclass of tread_bench.BackboneSpec")

    def resolve(self, spec: BackboneSpec, routes: RoutesLike, selector: str) -> tuple[ResolvedRoute, ...]:
        """Convert routes to block numbers, checked against this family's rules. Raises ValueError."""
        resolved = resolve_routes(routes, self.num_blocks(spec))
        if resolved:
            self.check_selector(selector)
            self.check_routes(spec, resolved, selector)
        return resolved

    def check_selector(self, selector: str) -> None:
        """Raise ValueError if the selector is unknown or does not work with this family."""
        selectors.find(selector)
        served = self.selectors or [one.name for one in selectors().values() if self.token_order in one.token_orders]
        if selector not in served:
            raise ValueError(f"selector {selector!r} would be wrong for {self.name}: choose one of {', '.join(served)}")


families = Kind(
    word="backbone",
    group="tread_bench.backbones",
    of=Family,
    names=lambda family: (family.name, *family.aliases, *family.published),
)


def find_family(name: str) -> tuple[Family, dict[str, Any]]:
    """Return the family and the published sizes for a family name, an alias or a published name. Raises ValueError."""
    wanted = str(name).casefold()
    for family in families().values():
        if wanted in (n.casefold() for n in (family.name, *family.aliases)):
            return family, {}
        for published, sizes in family.published.items():
            if wanted == published.casefold():
                return family, dict(sizes)
    for family in families().values():
        if any(wanted.startswith(f"{n}-".casefold()) for n in (family.name, *family.aliases)):
            own = ", ".join(["patch", *sorted(family.spec.model_fields.keys() - BackboneSpec.model_fields.keys())])
            rule = f"for another size, name one of them or {family.name}, and set what differs ({own})"
            raise ValueError(f"{family.name} has no {name!r}; published: {', '.join(family.published)}; {rule}")
    known = [n for family in families().values() for n in (family.name, *family.aliases, *family.published)]
    raise ValueError(unknown("backbone", name, known))


def make_spec(name: str, **sizes: Any) -> tuple[Family, BackboneSpec]:
    """Return a family and its validated sizes. Raises ValueError (pydantic's `ValidationError` for wrong sizes)."""
    family, published = find_family(name)
    return family, family.spec(**{**published, **sizes})
