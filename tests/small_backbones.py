"""Sizes of small networks of every family, as a suite writes them, and a family with a rule for its routes."""

from dataclasses import replace

from tread_bench.core.describe.families import families

SIZES = {"depth": 5, "hidden": 16, "patch": 2}
HEADS = {**SIZES, "heads": 2}
IN_CONTEXT = {"bottleneck": 3, "in_context_tokens": 3, "in_context_start": 2}

BACKBONES = {
    "DiT": {"name": "DiT", **HEADS},
    "LightningDiT": {"name": "LightningDiT", **HEADS},
    "JiT": {"name": "JiT", **HEADS, **IN_CONTEXT},
    "U-ViT": {"name": "U-ViT", **HEADS, "depth": 4},
    "DiS": {"name": "DiS", **SIZES, "depth": 4, "drop_path": 0.0},
    "ZigMa": {"name": "ZigMa", **SIZES, "drop_path": 0.0},
    "DRWKV": {"name": "DRWKV", **SIZES, "drop_path": 0.0},
    "DiG": {"name": "DiG", **HEADS, "mixer": "rwkv7"},  # whose blocks share values
}  # five blocks each


def take_whole_rows_alone(monkeypatch, name):
    """Let a family refuse routes that keep a part of a row, as that of a plug-in may."""

    def check(spec, routes, selector):
        for route in routes:
            if route.kept(spec.num_tokens) % spec.grid[1]:
                raise ValueError(f"route {route} keeps a part of a row")

    monkeypatch.setitem(families(), name, replace(families()[name], check_routes=check))
