"""Sizes of small networks of every family, as a suite writes them."""

BACKBONES = {
    "DiT": {"name": "DiT", "depth": 5, "hidden": 16, "heads": 2, "patch": 2},
    "LightningDiT": {"name": "LightningDiT", "depth": 5, "hidden": 16, "heads": 2, "patch": 2},
    "JiT": {
        "name": "JiT",
        "depth": 5,
        "hidden": 16,
        "heads": 2,
        "patch": 2,
        "bottleneck": 3,
        "in_context_tokens": 3,
        "in_context_start": 2,
    },
    "U-ViT": {"name": "U-ViT", "depth": 4, "hidden": 16, "heads": 2, "patch": 2},
    "DiS": {"name": "DiS", "depth": 4, "hidden": 16, "patch": 2, "drop_path": 0.0},
    "ZigMa": {"name": "ZigMa", "depth": 5, "hidden": 16, "patch": 2, "drop_path": 0.0},
    "DRWKV": {"name": "DRWKV", "depth": 5, "hidden": 16, "patch": 2, "drop_path": 0.0},
    "DiG": {
        "name": "DiG",
        "depth": 5,
        "hidden": 16,
        "heads": 2,
        "patch": 2,
        "mixer": "rwkv7",
    },  # whose blocks share values
}  # five blocks each
