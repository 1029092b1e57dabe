"""Small networks of every family, and inputs and routes to try them on."""

from __future__ import annotations

import torch

from tread_bench import Route, create_backbone

PIXELS = {"patch": 2, "image_size": 8, "channels": 1, "num_classes": 10}  # 16 tokens
SMALL = {
    "DiT": {"depth": 4, "hidden": 32, "heads": 2, **PIXELS},
    "LightningDiT": {"depth": 4, "hidden": 32, "heads": 2, **PIXELS},
    "JiT": {
        "depth": 4,
        "hidden": 32,
        "heads": 2,
        **PIXELS,
        "bottleneck": 3,
        "in_context_tokens": 3,
        "in_context_start": 2,
    },
    "U-ViT": {"depth": 4, "hidden": 32, "heads": 2, **PIXELS},
    "DiS": {"depth": 4, "hidden": 16, "drop_path": 0.0, **PIXELS},
    "ZigMa": {"depth": 10, "hidden": 16, "drop_path": 0.0, **PIXELS},
    "DRWKV": {"depth": 5, "hidden": 32, "drop_path": 0.0, **PIXELS},
    "DiG": {"depth": 5, "hidden": 32, "heads": 2, **PIXELS},
}
TEXT_ALONE = {  # families that take no labels
    "MMDiT": {"depth": 4, "hidden": 32, "heads": 2, **PIXELS, "num_classes": 0, "context_tokens": 5, "context_dim": 6},
}
SIZES = {**SMALL, **TEXT_ALONE}
# How far weights are moved: far enough that zero-initialised layers act and no attention is an average.
NOISE = {
    "DiT": 0.05,
    "LightningDiT": 0.2,
    "JiT": 0.2,
    "U-ViT": 0.2,
    "DiS": 0.1,
    "ZigMa": 0.1,
    "DRWKV": 0.2,
    "MMDiT": 0.2,
    "DiG": 0.1,
}
TEXT = {
    "DiT": {"num_classes": 0, "context_tokens": 5, "context_dim": 6},
    "LightningDiT": {"num_classes": 0, "context_tokens": 5, "context_dim": 6},
    "U-ViT": {"num_classes": 0, "context_tokens": 5, "context_dim": 6},
    "MMDiT": {},
    "ZigMa": {"num_classes": 0, "context_tokens": 5, "context_dim": 6, "learned_positions": True},
}
_OVER_SKIPS = [
    [Route(1, 2, 0.5)],  # a skip made inside ends outside
    [Route(2, 3, 0.5)],  # a skip made outside ends inside
    [Route(1, 3, 0.75)],  # made and ended inside
    [Route(0, 1, 0.25), Route(3, 4, 0.5)],  # made inside one route, ended inside the other
]
ROUTES = {
    "DiT": [[Route(1, 2, 0.5)], [Route(0, 1, 0.25), Route(2, 3, 0.75)]],
    "LightningDiT": [[Route(1, 2, 0.5)], [Route(0, 1, 0.25), Route(2, 3, 0.75)]],
    "JiT": [[Route(1, 2, 0.5)], [Route(0, 1, 0.25), Route(2, 3, 0.75)]],
    "MMDiT": [[Route(1, 2, 0.5)], [Route(0, 1, 0.25), Route(2, 3, 0.75)]],
    "U-ViT": _OVER_SKIPS,
    "DiS": _OVER_SKIPS,
    "ZigMa": [[Route(1, 8, 0.5)], [Route(0, 9, 0.75)], [Route(0, 3, 0.25), Route(4, 6, 0.5)]],
    "DRWKV": _OVER_SKIPS,
    "DiG": [[Route(1, 3, 0.5)], [Route(0, 1, 0.25), Route(2, 4, 0.75)]],
}


def small(family, **changes):
    """A network whose zero-initialised layers are not zero, without drop path unless it is asked for."""
    model = create_backbone(family, seed=0, **{**SIZES[family], **changes})
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(NOISE[family] * torch.randn(parameter.shape, generator=generator))
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


def assert_is_by_hand(by_hand, model, condition, routes):
    """A network computes what a hand-written forward (model, x, t, y, routes, ids) does."""
    model, given, ids = model.double(), condition(dtype=torch.float64), drawn(routes)
    expected = by_hand(model, *given, routes, ids)
    torch.testing.assert_close(model(*given, routes=routes, ids=ids), expected, rtol=1e-11, atol=1e-11)


def rms_norm(x, weight):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def drawn(routes, batch=3, seed=3):
    """Ascending ids (B, K) of each route over the 16 patches."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(batch, 16, generator=generator).argsort(1)[:, : r.kept(16)].sort(1).values for r in routes]
