"""Small networks of diffusers with random weights, inputs for them, and the wrappings that the documents show."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "routed-network.md"
BATCH, SIDE, TEXT = 3, 4, 5  # samples, patches on a side, tokens of text
LENGTHS = torch.tensor([5, 2, 3])  # of the captions, without padding
WIDTH = 24


def shown(*parts: str) -> list[str]:
    """The page's blocks of Python that have any of these parts."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return [block for block in blocks if any(part in block for part in parts)]


def wrappings() -> dict[str, Any]:
    """What the page's examples define."""
    names: dict[str, Any] = {}
    for block in shown("def route_"):
        exec(block, names)
    return names


def text_mask() -> Tensor:
    return torch.arange(TEXT) < LENGTHS[:, None]


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Kind:
    """A network of diffusers: its class and sizes, inputs for it, and how its own pipeline calls it."""

    name: str
    sizes: dict[str, Any]
    inputs: Callable[[], tuple[Tensor, Tensor, Any]]
    itself: Callable[[nn.Module, Tensor, Tensor, Any], Any]


HEADS = {"attention_head_dim": 12, "num_attention_heads": 2}
WITH_TEXT = {"num_layers": 4, "joint_attention_dim": 10, "caption_projection_dim": WIDTH, "pooled_projection_dim": 7}


def _flux_inputs():
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    y = {
        "encoder_hidden_states": normal(BATCH, TEXT, 10, seed=2),
        "pooled_projections": normal(BATCH, 7, seed=3),
        "txt_ids": torch.arange(TEXT).float()[:, None].expand(-1, 3) / 3,
        "img_ids": torch.stack([torch.zeros(SIDE * SIDE), rows.flatten(), columns.flatten()], dim=1),
        "text_mask": text_mask(),
    }
    return normal(BATCH, SIDE * SIDE, 6), torch.tensor([0.1, 0.5, 0.9]), y


def _flux_itself(net, x, t, y):
    mask = torch.cat([y["text_mask"], y["text_mask"].new_ones(x.shape[:2])], dim=1)[:, None, None]
    given = {name: value for name, value in y.items() if name != "text_mask"}
    return net(x, timestep=t, joint_attention_kwargs={"attention_mask": mask}, **given).sample


def _images(**y):
    return normal(BATCH, 4, 2 * SIDE, 2 * SIDE), torch.tensor([1.0, 500.0, 999.0]), y


def _sd3_inputs():
    return _images(encoder_hidden_states=normal(BATCH, TEXT, 10, seed=2), pooled_projections=normal(BATCH, 7, seed=3))


def _pixart_itself(net, x, t, y):
    mask = y["text_mask"].to(x.dtype)
    return net(x, y["encoder_hidden_states"], timestep=t, encoder_attention_mask=mask).sample


def _wan_inputs():
    return normal(BATCH, 3, 2, 6, 4), torch.tensor([1.0, 500.0, 999.0]), normal(BATCH, TEXT, 10, seed=2)


KINDS = {
    "flux": Kind(
        "FluxTransformer2DModel",
        {**HEADS, "in_channels": 6, "num_layers": 3, "num_single_layers": 3, "axes_dims_rope": (4, 4, 4)}
        | {"joint_attention_dim": 10, "pooled_projection_dim": 7},
        _flux_inputs,
        _flux_itself,
    ),
    "sd3": Kind(
        "SD3Transformer2DModel",
        {**HEADS, **WITH_TEXT, "sample_size": 8, "patch_size": 2, "in_channels": 4, "out_channels": 4}
        | {"pos_embed_max_size": 8, "dual_attention_layers": (1,), "qk_norm": "rms_norm"},
        _sd3_inputs,
        lambda net, x, t, y: net(x, timestep=t, **y).sample,
    ),
    "pixart": Kind(
        "PixArtTransformer2DModel",
        {**HEADS, "sample_size": 8, "in_channels": 4, "out_channels": 8, "num_layers": 4}
        | {"cross_attention_dim": WIDTH, "caption_channels": 10},
        lambda: _images(encoder_hidden_states=normal(BATCH, TEXT, 10, seed=2), text_mask=text_mask()),
        _pixart_itself,
    ),
    "wan": Kind(
        "WanTransformer3DModel",
        {**HEADS, "in_channels": 3, "out_channels": 3, "num_layers": 4, "ffn_dim": 32}
        | {"text_dim": 10, "freq_dim": 16, "rope_max_seq_len": 16},
        _wan_inputs,
        lambda net, x, t, y: net(x, t, y).sample,
    ),
    "ernie": Kind(
        "ErnieImageTransformer2DModel",
        {"hidden_size": WIDTH, "num_attention_heads": 2, "num_layers": 4, "ffn_hidden_size": 32, "text_in_dim": 10}
        | {"in_channels": 4, "out_channels": 4, "patch_size": 2, "rope_axes_dim": (4, 4, 4)},
        lambda: _images(text_bth=normal(BATCH, TEXT, 10, seed=2), text_lens=LENGTHS),
        lambda net, x, t, y: net(x, t, **y).sample,
    ),
}


def built(kind: str) -> SimpleNamespace:
    """A network with random weights that are nowhere zero, its wrapping as the page shows it, and inputs."""
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed; nothing here needs it")
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = getattr(diffusers, KINDS[kind].name)(**KINDS[kind].sizes)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    x, t, y = KINDS[kind].inputs()
    return SimpleNamespace(
        net=net,
        routed=wrappings()[f"route_{kind}"](net),
        inputs=(x, t, y),
        itself=lambda x, t, y: KINDS[kind].itself(net, x, t, y),
    )
