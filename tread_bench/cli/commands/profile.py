"""The command `profile`: parameters and cost of one backbone, dense and routed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tread_bench.cli.commands.plan import run_lengths
from tread_bench.cli.options import JsonOption, number, option
from tread_bench.core.describe.dialects import DIALECTS
from tread_bench.core.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from tread_bench.core.describe.routes import ResolvedRoute, Route
    from tread_bench.core.stored.records import CostFigures

    Counted = tuple[CostFigures, Sequence[ResolvedRoute], dict[str, Any]]

_MOST_BYTES = 2**24  # of a configuration


def profile(
    backbone: Annotated[
        str | None, typer.Argument(metavar="BACKBONE", help="published name (DiT-S/2) or family with --set sizes")
    ] = None,
    route: Annotated[
        list[str], option("--route", "START:END@RATE, or as a trainer writes it; repeat for several")
    ] = [],  # noqa: B006
    selector: Annotated[str, option("--selector", "which tokens bypass")] = "random",
    overrides: Annotated[
        list[str],
        option(
            "--set",
            "a size, such as depth=12, image_size=32, channels=4 or num_classes=0; with --config: image_size",
            metavar="KEY=VALUE",
        ),
    ] = [],  # noqa: B006
    dialect: Annotated[
        str | None, option("--as", f"print the route alone, as written for: {', '.join(DIALECTS)}", metavar="TRAINER")
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
        Path | None, option("--config", "in place of BACKBONE: config.json of a diffusers transformer", metavar="FILE")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Parameters and MACs of one backbone, dense and routed (MACs per image)."""
    from pydantic import ValidationError

    from tread_bench.cli.console import stdout_console
    from tread_bench.core.describe.dialects import moved, read_routes, write_routes
    from tread_bench.core.describe.families import make_spec
    from tread_bench.core.describe.routes import format_routes, resolve_routes
    from tread_bench.core.describe.selectors import DEFAULT_SELECTOR
    from tread_bench.core.numbers.costs import cost_figures

    # It takes one backbone, config or route alone, and no option that has no effect there.
    is_route_alone = backbone is None and config is None
    if (backbone is not None and config is not None) or (is_route_alone and (dialect is None or depth is None)):
        rule = "give one of them, or --as TRAINER and --depth for a route alone"
        raise UserError(f"profile takes a BACKBONE (`tread-bench list backbones`) or --config FILE: {rule}")
    of_backbones = {
        "--set": config is None and overrides,
        "--selector": selector != DEFAULT_SELECTOR,
        "--text-tokens": config is None and text_tokens,
    }
    wrong = [option for option, value in of_backbones.items() if value]
    if backbone is None and wrong:
        raise UserError(f"leave {', '.join(wrong)} out: only a BACKBONE takes that")
    if dialect is None and (depth is not None or (text_tokens is not None and config is None)):
        raise UserError("--depth and --text-tokens change how a route is written: name a trainer with --as")

    # Its counts, for any machine.
    cost, found = None, dict[str, Any]()
    try:
        sizes = dict(map(_size, overrides))
        routes = [one for text in route for one in read_routes(text)]
        if config is not None:
            cost, resolved, found = _count_file(config, routes, sizes, text_tokens if dialect is None else None)
        elif backbone is None:
            assert depth is not None
            resolved = resolve_routes(routes, depth)
        else:
            found = {"backbone": backbone}
            family, spec = make_spec(backbone, **sizes)
            resolved = family.resolve(spec, routes, selector)
    except ValidationError as error:
        problems = (f"{backbone}: {'.'.join(map(str, e['loc'])) or 'sizes'}: {e['msg']}" for e in error.errors())
        raise UserError("\n".join(problems)) from None
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None
    about = {"routes": format_routes(resolved)}
    if backbone is not None:
        cost = cost_figures(family, spec, resolved, selector)
        about["selector"] = selector if resolved else ""
        about |= {key: getattr(spec, key) for key in ("image_size", "channels", "num_classes")}
    if cost is not None:
        counted = ("params", "trainable_params", "forward_macs", "attention_macs", "scan_macs", "dense_forward_macs")
        found |= {key: getattr(cost, key) for key in (*counted, "train_step_macs", "tokens_per_block")}
        found["macs_ratio"] = cost.forward_macs / cost.dense_forward_macs
    found |= about

    # The routes as a trainer writes them.
    try:
        if dialect is not None:
            blocks = len(cost.tokens_per_block) if cost else depth or 0
            image_tokens = cost.image_tokens if cost else 1
            placed = moved(resolved, blocks, depth or blocks)
            found["written"] = write_routes(dialect, placed, image_tokens / (image_tokens + (text_tokens or 0)))
    except ValueError as error:
        raise UserError(str(error)) from None

    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif "written" in found:
        typer.echo(found["written"])
        if backbone is not None:
            typer.echo(f"nothing shows that a place found on {backbone} holds for another network", err=True)
    elif cost is not None:
        stdout_console().print(_table(found, cost))


def _size(text: str) -> tuple[str, Any]:
    from tread_bench.suite.yaml import read_value

    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: write KEY=VALUE, such as depth=12")
    return key, read_value(value, f"--set {text}")


def _count_file(path: Path, routes: Sequence[Route], sizes: dict[str, Any], text_tokens: int | None) -> Counted:
    """The cost of the network that a `config.json` of diffusers describes, its routes, and what was counted.

    Raises:
        UserError: it is none, or not of a network that can be counted.
    """
    from tread_bench.core.numbers.costs import figures_of
    from tread_bench.core.stored.foreign import read_file

    # The file.
    way_out = "name the config.json of a transformer (of a pipeline, the one in its folder transformer)"
    try:
        content = json.loads(read_file(path, _MOST_BYTES))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {way_out}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not JSON; {way_out}") from None
    if not isinstance(content, dict) or not isinstance(content.get("_class_name"), str):
        raise UserError(f"{path} has no _class_name; {way_out}")
    side = sizes.pop("image_size", None)
    if sizes or not (side is None or (isinstance(side, int) and side > 0)):
        raise UserError(f"{path}: --set with --config: image_size=N, the side of the latents, and no other key")

    # Its network, dense and routed.
    from tread_bench.measure.diffusers_cost import count_config

    try:
        network = count_config(content, routes, side, text_tokens)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    cost = figures_of(network.routed, network.dense, network.tokens_per_block, network.image_tokens)
    about = {
        "backbone": network.name,
        "dense_train_step_macs": network.dense.train_step,
        "image_size": network.image_size,
        "channels": network.channels,
        "image_tokens": network.image_tokens,
        "text_tokens": network.text_tokens,
    }
    return cost, network.routes, about


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
    for row in rows:
        table.add_row(*row)
    return table
