"""The command `profile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tread_bench.cli.commands.plan import run_lengths
from tread_bench.cli.options import DeviceOption, GuidanceOption, JsonOption, number
from tread_bench.core.describe.dialects import DIALECTS

if TYPE_CHECKING:
    from rich.table import Table

    from tread_bench.core.stored.records import CostFigures


def profile(
    backbone: Annotated[
        str | None, typer.Argument(metavar="BACKBONE", help="published name (DiT-S/2) or family with --set sizes")
    ] = None,
    route: Annotated[
        list[str], typer.Option("--route", help="START:END@RATE, or as a trainer writes it; repeat for several")
    ] = [],  # noqa: B006
    selector: Annotated[str, typer.Option("--selector", help="which tokens bypass")] = "random",
    overrides: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="a size, such as depth=12, image_size=32, channels=4 or num_classes=0; with --config: image_size",
        ),
    ] = [],  # noqa: B006
    guidance: GuidanceOption = None,
    train: Annotated[bool, typer.Option("--train", help="time training steps here, beside dense ones")] = False,
    batch: Annotated[int, number("--batch", "images per timed step")] = 8,
    device: DeviceOption = "auto",
    dialect: Annotated[
        str | None,
        typer.Option("--as", metavar="TRAINER", help=f"print the route alone, as written for: {', '.join(DIALECTS)}"),
    ] = None,
    depth: Annotated[
        int | None,
        number("--depth", "with --as: blocks of that network; a BACKBONE's distances from both ends are kept"),
    ] = None,
    text_tokens: Annotated[
        int | None,
        number(
            "--text-tokens",
            "with --as: tokens of text that count in its ratio and are kept; with --config: those of its input",
            least=0,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="in place of BACKBONE: config.json of a diffusers transformer"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Parameters and MACs of one backbone, dense and routed (MACs per image)."""
    from tread_bench.cli.show.console import stdout_console
    from tread_bench.services.profile import ProfileRequest
    from tread_bench.services.profile import profile as count

    request = ProfileRequest(
        backbone=backbone,
        routes=tuple(route),
        selector=selector,
        overrides=tuple(overrides),
        guidance=guidance,
        is_timed=train,
        batch=batch,
        device=device,
        dialect=dialect,
        depth=depth,
        text_tokens=text_tokens,
        config=config,
    )
    found, cost = count(request)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif "written" in found:
        typer.echo(found["written"])
        if backbone is not None:
            typer.echo(f"nothing shows that a place found on {backbone} holds for another network", err=True)
    elif cost is not None:
        stdout_console().print(_table(found, cost))


def _table(found: dict[str, Any], cost: CostFigures) -> Table:
    from rich.table import Table

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
