"""The command `profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import DeviceOption, GuidanceOption, JsonOption, number
from tread_bench.core.describe.dialects import DIALECTS


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
    from tread_bench.cli.show.profile import show_profile
    from tread_bench.services.profile import ProfileRequest

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
    show_profile(request, as_json)
