"""Small networks of every family, and inputs and routes to try them on."""

from __future__ import annotations

import torch

from tests.small_backbones import IN_CONTEXT
from tread_bench import Route, create_backbone

PIXELS = {"patch": 2, "image_size": 8, "channels": 1, "num_classes": 10}  # 16 tokens
ATTENTION = {"depth": 4, "hidden": 32, "heads": 2, **PIXELS}
SMALL = {
    "DiT": ATTENTION,
    "LightningDiT": ATTENTION,
    "JiT": {**ATTENTION, **IN_CONTEXT},
    "U-ViT": ATTENTION,
    "DiS": {"depth": 4, "hidden": 16, "drop_path": 0.0, **PIXELS},
    "ZigMa": {"depth": 10, "hidden": 16, "drop_path": 0.0, **PIXELS},
    "DRWKV": {"depth": 5, "hidden": 32, "drop_path": 0.0, **PIXELS},
    "DiG": {**ATTENTION, "depth": 5},
}
FEATURES = {"num_classes": 0, "context_tokens": 5, "context_dim": 6}
TEXT_ALONE = {"MMDiT": {**ATTENTION, **FEATURES}}  # families that take no labels
SIZES = {**SMALL, **TEXT_ALONE}
NUMBA = {"attention": "math", "adaln": "numba", "scan": "numba", "wkv": "numba", "recurrence": "numba"}
# How far weights are moved: far enough that zero-initialised layers act and no attention is an average.
NOISE = {"DiT": 0.05, "DiS": 0.1, "ZigMa": 0.1, "DiG": 0.1}  # 0.2 of the others
TEXT = {
    **dict.fromkeys(("DiT", "LightningDiT", "U-ViT"), FEATURES),
    "MMDiT": {},
    "ZigMa": {**FEATURES, "learned_positions": True},
}
_OVER_SKIPS = [
    [Route(1, 2, 0.5)],  # a skip made inside ends outside
    [Route(2, 3, 0.5)],  # a skip made outside ends inside
    [Route(1, 3, 0.75)],  # made and ended inside
    [Route(0, 1, 0.25), Route(3, 4, 0.5)],  # made inside one route, ended inside the other
]
_OVER_FOUR = [[Route(1, 2, 0.5)], [Route(0, 1, 0.25), Route(2, 3, 0.75)]]
ROUTES = {
    **dict.fromkeys(("DiT", "LightningDiT", "JiT", "MMDiT"), _OVER_FOUR),
    **dict.fromkeys(("U-ViT", "DiS", "DRWKV"), _OVER_SKIPS),
    "ZigMa": [[Route(1, 8, 0.5)], [Route(0, 9, 0.75)], [Route(0, 3, 0.25), Route(4, 6, 0.5)]],
    "DiG": [[Route(1, 3, 0.5)], [Route(0, 1, 0.25), Route(2, 4, 0.75)]],
}


def small(family, **changes):
    """A network whose zero-initialised layers are not zero, without drop path unless it is asked for."""
    model = create_backbone(family, seed=0, **{**SIZES[family], **changes})
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(NOISE.get(family, 0.2) * torch.randn(parameter.shape, generator=generator))
    return model


def inputs(batch=3, dtype=torch.float32):
    """x (B, 1, 8, 8), t (B,) and labels (B,), no label among them."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(batch, 1, 8, 8, generator=generator, dtype=dtype)
    return x, torch.rand(batch, generator=generator), torch.randint(0, 11, (batch,), generator=generator)


def text_inputs(batch=3, dtype=torch.float32):
    """The same with text features (B, 5, 6) in place of labels."""
    x, t, _ = inputs(batch, dtype)
    return x, t, torch.randn(batch, 5, 6, generator=torch.Generator().manual_seed(4), dtype=dtype)


def present(routes, ids, block, sample, prefix=0):
    """Places of the tokens of a sample that a block sees: the prefix, and the patches that its route keeps."""
    inside = [kept for route, kept in zip(routes, ids, strict=True) if route.start <= block <= route.end]
    kept = inside[0][sample] if inside else torch.arange(16)
    return [*range(prefix), *(prefix + kept).tolist()]


def in_float64(model):
    """The network, with a rotary table in float64 where it has one: `build_rotary_pos_embed` makes it in float32."""
    model = model.double()
    if hasattr(model, "rope"):
        angle = (10000 ** (-torch.arange(4, dtype=torch.float64) / 4)).repeat_interleave(2)
        rows, columns = torch.cartesian_prod(torch.arange(4), torch.arange(4)).unbind(1)
        angles = torch.cat([rows[:, None] * angle, columns[:, None] * angle], dim=1)
        table = torch.cat([angles.sin(), angles.cos()], dim=1)
        torch.testing.assert_close(model.rope, table, rtol=0, atol=1e-6)
        model.rope = table
    return model


def drawn(routes, batch=3, seed=3):
    """Ascending ids (B, K) of each route over the 16 patches."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(batch, 16, generator=generator).argsort(1)[:, : r.kept(16)].sort(1).values for r in routes]
