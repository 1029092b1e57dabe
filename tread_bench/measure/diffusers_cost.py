"""What a transformer of diffusers costs, from its configuration alone: built on the meta device, without weights.

MACs of a block are quadratic in its image tokens, so that counts of three image sizes give those on any route.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from inspect import signature
from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tread_bench.core.describe.families import Cost, Macs
from tread_bench.core.describe.routes import ResolvedRoute, Route, resolve_routes, tokens_per_block
from tread_bench.core.errors import UserError, error_text
from tread_bench.core.names import unknown
from tread_bench.data.pretrained import import_library, quiet
from tread_bench.measure.counter import MacsCounter
from tread_bench.measure.macs import count_passes

_TWO_STREAMS_THEN_ONE = ("transformer_blocks", "single_transformer_blocks")


@dataclass(frozen=True, slots=True)
class Kind:
    """What the configuration of a class does not say; defaults are those of its pipeline in diffusers 0.42, of
    a video a square of about as many tokens.

    Args:
        blocks: attributes with its blocks, in the order in which routes number them.
        text: key of the configuration that gives the width of a text token; empty: it takes no text.
        text_tokens: default number of text tokens.
        side: default side of the latents; 0: `sample_size` of the configuration.
        packed: side of the patches that the pipeline makes tokens of; 0: the network patches, by its `patch_size`.
        frames: of latents, of a video; 0: it is an image.
    """

    blocks: tuple[str, ...] = ("transformer_blocks",)
    text: str = ""
    text_tokens: int = 0
    side: int = 0
    packed: int = 0
    frames: int = 0


KINDS = {
    "DiTTransformer2DModel": Kind(),
    "Flux2Transformer2DModel": Kind(_TWO_STREAMS_THEN_ONE, "joint_attention_dim", 512, side=128, packed=2),
    "FluxTransformer2DModel": Kind(_TWO_STREAMS_THEN_ONE, "joint_attention_dim", 512, side=128, packed=2),
    "PixArtTransformer2DModel": Kind(text="caption_channels", text_tokens=300),
    "PRXTransformer2DModel": Kind(("blocks",), "context_in_dim", 256, side=64),
    "QwenImageTransformer2DModel": Kind(text="joint_attention_dim", text_tokens=512, side=128, packed=2),
    "SD3Transformer2DModel": Kind(text="joint_attention_dim", text_tokens=77 + 256),
    # A frame of its pipeline has 60 x 104 latents, 1,560 tokens; a square of side 80 has 1,600.
    "WanTransformer3DModel": Kind(("blocks",), "text_dim", 512, side=80, frames=21),
}


@dataclass(frozen=True, slots=True)
class ConfigCost:
    """The cost of a configuration.

    Args:
        name: class of the network.
        tokens_per_block: of the image, or of all frames of the video.
        image_size, channels: of the latents.
    """

    name: str
    routed: Cost
    dense: Cost
    routes: tuple[ResolvedRoute, ...]
    tokens_per_block: list[int]
    image_tokens: int
    text_tokens: int
    image_size: int
    channels: int


def count_config(
    config: Mapping[str, Any], routes: Sequence[Route], image_size: int | None = None, text_tokens: int | None = None
) -> ConfigCost:
    """Count the forward and backward pass of one image or video, dense and with the routes.

    Args:
        config: a `config.json` of diffusers.
        image_size: side of the latents; None: the default of `Kind`.
        text_tokens: None: the default of `Kind`.

    Raises:
        UserError: the class is none of `KINDS`; diffusers does not build or run it; a route does not fit.
    """
    # The network, without weights.
    name = config.get("_class_name")
    if name not in KINDS:
        raise UserError(f"_class_name: {unknown('transformer', name, KINDS)}")
    diffusers = import_library("diffusers", "vae", name)
    if not hasattr(diffusers, name):
        raise UserError(f"diffusers {diffusers.__version__} has no {name}: pip install --upgrade diffusers")
    with _told(name), torch.device("meta"):
        network: Any = getattr(diffusers, name).from_config(dict(config)).to("meta").eval()

    # Its blocks and its input.
    kind = KINDS[name]
    blocks = [block for attribute in kind.blocks for block in getattr(network, attribute, ())]
    if not blocks:
        raise UserError(f"{name} has no blocks in {' and '.join(kind.blocks)}: give the configuration layers")
    side, patch = image_size or kind.side or network.config.sample_size, kind.packed or network.config.patch_size
    if not isinstance(patch, int):  # a video's, of frames, rows and columns
        if network.config.image_dim or list(patch) != [1, patch[-1], patch[-1]]:
            raise UserError(f"{name} is counted with text alone beside it, and with square patches of single frames")
        patch = patch[-1]
    if side % patch:
        raise UserError(f"--set image_size={side}: {name} takes latents whose side is a multiple of {patch}")
    text = kind.text_tokens if text_tokens is None else text_tokens
    if text and not kind.text:
        raise UserError(f"{name} takes no text: leave --text-tokens out")
    grid, frames = side // patch, kind.frames or 1

    # Its routes.
    try:
        resolved = resolve_routes(routes, len(blocks))
    except ValueError as error:
        raise UserError(str(error)) from None
    tokens = tokens_per_block(resolved, len(blocks), frames * grid**2)
    if resolved and grid < 3:
        raise UserError(f"--set image_size={side}: a route is counted from {3 * patch} on")

    # Its cost.
    grids = [grid, grid - 1, grid - 2] if resolved else [grid]
    with _told(name), sdpa_kernel(SDPBackend.MATH):
        counts = {frames * n**2: _count(network, blocks, _inputs(network, kind, n, text), n == grid) for n in grids}
    dense = routed = counts[frames * grid**2]
    if resolved:
        routed = replace(dense, blocks=tuple(_block_at(counts, block, n) for block, n in enumerate(tokens)))
    return ConfigCost(
        name=name,
        routed=routed,
        dense=dense,
        routes=resolved,
        tokens_per_block=tokens,
        image_tokens=frames * grid**2,
        text_tokens=text,
        image_size=side,
        channels=network.config.in_channels // max(1, kind.packed**2),
    )


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Raise as UserError what diffusers says of a configuration that it does not build or run; without its warnings."""
    try:
        with quiet("diffusers"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (UserError, MemoryError):
        raise
    except Exception as error:  # of any kind, as the configuration is anybody's
        raise UserError(f"diffusers does not build or run this {name} ({error_text(error)})") from None


def _inputs(network: nn.Module, kind: Kind, grid: int, text_tokens: int) -> dict[str, Any]:
    """One image, or a video's frames, of grid x grid tokens, time and text or label, by the names in `forward`."""
    config: Any = network.config
    with torch.device("meta"):
        # The latents, and all other inputs that some network has.
        if kind.packed:
            latents = torch.zeros(1, grid**2, config.in_channels)
        elif kind.frames:
            side = grid * config.patch_size[-1]
            latents = torch.zeros(1, config.in_channels, kind.frames, side, side)
        else:
            latents = torch.zeros(1, config.in_channels, grid * config.patch_size, grid * config.patch_size)
        offered: dict[str, Any] = {
            "hidden_states": latents,
            "encoder_hidden_states": torch.zeros(1, text_tokens, config[kind.text] if kind.text else 0),
            "timestep": torch.zeros(1),
            "class_labels": torch.zeros(1, dtype=torch.long),
            "added_cond_kwargs": {"resolution": torch.zeros(1, 2), "aspect_ratio": torch.zeros(1, 1)},
            "img_shapes": [[(1, grid, grid)]],
        }
        if "pooled_projection_dim" in config:
            offered["pooled_projections"] = torch.zeros(1, config.pooled_projection_dim)
        if "axes_dims_rope" in config:
            axes = len(config.axes_dims_rope)
            offered["img_ids"] = torch.zeros(grid**2, axes)
            offered["txt_ids"] = torch.zeros(text_tokens, axes)
        if config.get("guidance_embeds"):
            offered["guidance"] = torch.zeros(1)
    taken = signature(network.forward).parameters
    return {key: value for key, value in offered.items() if key in taken}


def _count(network: nn.Module, blocks: Sequence[nn.Module], inputs: Mapping[str, Any], backward: bool) -> Cost:
    """The cost of a forward pass and, if requested, of a backward pass."""
    counter = MacsCounter()
    before: list[Macs] = []
    passed: list[Macs] = []
    with ExitStack() as hooks:
        for block in blocks:
            hooks.enter_context(block.register_forward_pre_hook(lambda *_: before.append(counter.macs)))
            hooks.enter_context(block.register_forward_hook(lambda *_: passed.append(counter.macs - before[-1])))
        return count_passes(network, counter, lambda: network(**inputs, return_dict=False)[0], passed, backward)


def _block_at(counts: Mapping[int, Cost], block: int, tokens: int) -> Macs:
    """A block's MACs at a number of image tokens, by the quadratics through three counts (Lagrange)."""
    macs = [Fraction()] * 3
    for n, cost in counts.items():
        weight = prod(Fraction(tokens - other, n - other) for other in counts if other != n)
        for kind, value in enumerate(astuple(cost.blocks[block])):
            macs[kind] += weight * value
    return Macs(*map(int, macs))
