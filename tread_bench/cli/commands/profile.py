"""The command `profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import DeviceOption, GuidanceOption, JsonOption, SetOption, TablesOption, number
from tread_bench.core.describe.dialects import DIALECTS


def profile(
    backbone: Annotated[
        str | None, typer.Argument(metavar="BACKBONE", help="published name (DiT-S/2) or family with --set sizes")
    ] = None,
    route: Annotated[
        list[str], typer.Option("--route", help="START:END@RATE, or as a trainer writes it; repeat for several")
    ] = [],  # noqa: B006
    selector: Annotated[str, typer.Option("--selector", help="which tokens bypass")] = "random",
    image_size: Annotated[
        int | None,
        number("--image-size", "side of the backbone's input; default: as published, or 32"),
    ] = None,
    channels: Annotated[
        int | None,
        number("--channels", "channels of the backbone's input; default: as published, or 4"),
    ] = None,
    num_classes: Annotated[
        int | None, number("--num-classes", "classes, 0 for no labels; default: as published, or 1000", least=0)
    ] = None,
    overrides: SetOption = [],  # noqa: B006
    guidance: GuidanceOption = None,
    train: Annotated[bool, typer.Option("--train", help="time training steps here, beside dense ones")] = False,
    batch: Annotated[
        int | None,
        number("--batch", "images per timed step; default: 8, with --tokens as many as make 4,096 tokens, 32 at most"),
    ] = None,
    device: DeviceOption = "auto",
    dialect: Annotated[
        str | None,
        typer.Option("--as", metavar="TRAINER", help=f"print the route alone, as written for: {', '.join(DIALECTS)}"),
    ] = None,
    depth: Annotated[
        int | None, number("--depth", "with --as: blocks of that network; the distances from both ends are kept")
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
    family: Annotated[
        str | None, typer.Option("--family", help="with --tokens, in place of BACKBONE: a family, or all of them")
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option("--tokens", metavar="FIRST:LAST", help="with --family: what a token costs, from 64:16384 say"),
    ] = None,
    tables: TablesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Parameters and MACs of one backbone, dense and routed (MACs per image); with --tokens, of families per token."""
    from tread_bench.core.errors import UserError

    if family is not None or tokens is not None:
        from tread_bench.cli.show.lengths import show_lengths
        from tread_bench.services.lengths import LengthsRequest

        if family is None or tokens is None or backbone is not None:
            raise UserError("--family and --tokens go together, in place of a BACKBONE: --family all --tokens 64:16384")
        if others := [
            name
            for name, given in (
                ("--image-size", image_size),
                ("--channels", channels),
                ("--num-classes", num_classes),
                ("--set", overrides),
                ("--guidance", guidance),
                ("--as", dialect),
                ("--depth", depth),
                ("--text-tokens", text_tokens),
                ("--config", config),
            )
            if given not in (None, [])
        ]:
            raise UserError(f"--tokens profiles published sizes: leave {', '.join(others)} out")
        show_lengths(LengthsRequest(family, tokens, tuple(route), selector, train, batch, device, tables), as_json)
        return
    from tread_bench.cli.show.profile import show_profile
    from tread_bench.services.profile import BATCH, ProfileRequest

    if tables is not None:
        raise UserError("--tables draws what a token costs over the number of tokens: add --family and --tokens")
    shape = {"image_size": image_size, "channels": channels, "num_classes": num_classes}
    request = ProfileRequest(
        backbone=backbone,
        routes=tuple(route),
        selector=selector,
        shape={key: value for key, value in shape.items() if value is not None},
        overrides=tuple(overrides),
        guidance=guidance,
        is_timed=train,
        batch=batch or BATCH,
        device=device,
        dialect=dialect,
        depth=depth,
        text_tokens=text_tokens,
        config=config,
    )
    show_profile(request, as_json)
