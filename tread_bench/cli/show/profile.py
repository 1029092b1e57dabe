"""`profile`: the figures of one backbone as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer
from rich.table import Table

from tread_bench.cli.show.console import stdout_console
from tread_bench.core.stored.records import CostFigures
from tread_bench.services.profile import ProfileRequest, profile


def show_profile(request: ProfileRequest, as_json: bool) -> None:
    """Print the figures. Raises UserError."""
    found, cost = profile(request)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif "written" in found:
        typer.echo(found["written"])
        if request.backbone is not None:
            typer.echo(f"nothing shows that a place found on {request.backbone} holds for another network", err=True)
    elif cost is not None:
        stdout_console().print(_table(found, cost))


def _table(found: dict[str, Any], cost: CostFigures) -> Table:
    table = Table(
        title=found["backbone"] + (f"  routes {found['routes']}" if found["routes"] else ""), show_header=False
    )
    # Counts.
    dense_step = f"; dense {found['dense_train_step_macs'] / 1e9:.3f}" if "dense_train_step_macs" in found else ""
    rows = [
        ("parameters", f"{cost.params:,} ({cost.trainable_params:,} trainable)"),
        ("forward", f"{cost.forward_macs / 1e9:.3f} GMACs ({2 * cost.forward_macs / 1e9:.3f} GFLOPs) per image"),
        ("  of which attention", f"{cost.attention_macs / 1e9:.3f} GMACs"),
        ("  of which scans", f"{cost.scan_macs / 1e9:.3f} GMACs"),
        ("forward, dense", f"{cost.dense_forward_macs / 1e9:.3f} GMACs; routed / dense = {found['macs_ratio']:.3f}"),
        ("training step", f"{cost.train_step_macs / 1e9:.3f} GMACs per image{dense_step}"),
        ("ideal speed-up", f"{cost.ideal_speedup:.3f}"),
        ("tokens per block", run_lengths(cost.tokens_per_block)),
    ]
    if "text_tokens" in found:
        shape = f"latents {found['channels']} x {found['image_size']} x {found['image_size']}"
        rows += [("text tokens", f"{found['text_tokens']}, never routed"), ("image", shape)]
    if found.get("ignored_keys"):
        rows.append(("keys without effect", ", ".join(found["ignored_keys"])))
    if "guidance" in found:
        parts = " + ".join(f"{found[key] / 1e9:.3f}" for key in ("strong_macs", "weak_macs") if key in found)
        rows += [
            ("guided evaluation", f"{found['guided_macs'] / 1e9:.3f} GMACs ({found['guidance']['name']}: {parts})"),
            ("  of which attention", f"{found['guided_attention_macs'] / 1e9:.3f} GMACs"),
        ]

    # What was timed.
    if "step_time_ms" in found:
        rows += [
            ("step time", f"{found['step_time_ms']:.1f} ms, batch {found['batch']}, {found['device_name']}"),
            ("images/s", f"{found['images_per_s']:.2f}"),
            ("speed-up", f"{found['speedup']:.3f} ({found['speedup_low']:.3f} to {found['speedup_high']:.3f})"),
        ]
    for row in rows:
        table.add_row(*row)
    return table


def run_lengths(counts: Sequence[int]) -> str:
    """`2 x 256, 23 x 128, 3 x 256`."""
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][1] == count:
            runs[-1][0] += 1
        else:
            runs.append([1, count])
    return ", ".join(f"{times} x {count}" for times, count in runs)
