"""`profile`: parameters and cost of one backbone, dense and routed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer
import yaml
from pydantic import ValidationError
from rich.table import Table

from tread_bench.cli.show.console import stdout_console
from tread_bench.core.config.backbones import BackboneChoice
from tread_bench.core.config.methods import PLAINLY_DENSE, PLAINLY_ROUTED
from tread_bench.core.config.routed import Setting, with_blocks
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Training
from tread_bench.core.describe.families import BackboneSpec, Family, Macs, make_spec
from tread_bench.core.describe.routes import ResolvedRoute, format_routes, parse_routes
from tread_bench.core.errors import UserError
from tread_bench.core.stored.records import CostFigures
from tread_bench.services.guidance import changed_sampling


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """The backbone and routes to profile; routes and overrides as typed."""

    backbone: str
    routes: tuple[str, ...]
    selector: str
    shape: dict[str, int]
    overrides: tuple[str, ...]
    guidance: str | None = None


def show_profile(request: ProfileRequest, timed: tuple[int, str] | None, as_json: bool) -> None:
    """Print the figures; `timed` = (batch, device) also times training steps here. Raises UserError."""
    # Counts, for any machine.
    family, spec, routes = _resolve(request)
    if timed is not None and spec.context_shape is not None:
        raise UserError(f"{request.backbone} takes text, and steps are timed on labels: leave --train out")
    from tread_bench.core.numbers.costs import cost_figures

    cost = cost_figures(family, spec, routes, request.selector)
    found: dict[str, Any] = {
        "backbone": request.backbone,
        "params": cost.params,
        "trainable_params": cost.trainable_params,
        "forward_macs": cost.forward_macs,
        "attention_macs": cost.attention_macs,
        "scan_macs": cost.scan_macs,
        "dense_forward_macs": cost.dense_forward_macs,
        "train_step_macs": cost.train_step_macs,
        "tokens_per_block": cost.tokens_per_block,
        "macs_ratio": cost.forward_macs / cost.dense_forward_macs,
        "routes": format_routes(routes),
        "selector": request.selector if routes else "",
        "image_size": spec.image_size,
        "channels": spec.channels,
        "num_classes": spec.num_classes,
    }
    if request.guidance is not None:
        found |= _guided(request, family, spec, routes)

    # Step times, of this machine.
    if timed is not None:
        from tread_bench.cell.speed import time_backbone

        try:
            found |= time_backbone(family, spec, routes, request.selector, *timed)
        except ValueError as error:
            raise UserError(str(error)) from None
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        stdout_console().print(_table(found, cost))


def _resolve(request: ProfileRequest) -> tuple[Family, BackboneSpec, tuple[ResolvedRoute, ...]]:
    try:
        sizes = dict(_size(text) for text in request.overrides)
        family, spec = make_spec(request.backbone, **{**request.shape, **sizes})
        routes = [route for text in request.routes for route in parse_routes(text)]
        return family, spec, family.resolve(spec, routes, request.selector)
    except ValidationError as error:
        problems = (
            f"{request.backbone}: {'.'.join(map(str, e['loc'])) or 'sizes'}: {e['msg']}" for e in error.errors()
        )
        raise UserError("\n".join(problems)) from None
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise UserError(str(error)) from None


def _guided(
    request: ProfileRequest, family: Family, spec: BackboneSpec, routes: tuple[ResolvedRoute, ...]
) -> dict[str, Any]:
    """One guided evaluation of one image at the first step of sampling: its two branches and their sum."""
    # A cell with this guidance on this backbone.
    some_scale = Sampling(guidance={"name": "cfg"}, guidance_scale=2)  # no branch's cost depends on it
    sampling = changed_sampling(some_scale, request.guidance)
    if sampling.guidance.weak_row is not None:
        raise UserError("profile has only one backbone, and row names another: leave row out")
    cell = Cell(
        backbone=BackboneChoice(name=request.backbone),
        method=PLAINLY_ROUTED if routes else PLAINLY_DENSE,
        routes=routes,
        selector=request.selector,
        training=Training(iterations=1),
        sampling=sampling,
    )
    complete = with_blocks(Setting(cell, family, spec))
    if isinstance(complete, list):
        raise UserError("\n".join(problem.message for problem in complete))

    # The cost of each branch.
    from tread_bench.core.numbers.costs import branch_cost

    branches = {branch.name: branch for branch in complete.sampling.guidance.branches if branch is not None}
    macs = {name: branch_cost(Setting(complete, family, spec), branch) for name, branch in branches.items()}
    both = sum(macs.values(), Macs())
    return {
        "guidance": complete.sampling.guidance.model_dump(mode="json"),
        **{f"{name}_macs": cost.total for name, cost in macs.items()},
        "guided_macs": both.total,
        "guided_attention_macs": both.attention,
    }


def _size(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: write KEY=VALUE, such as depth=12")
    return key, yaml.safe_load(value)


def _table(found: dict[str, Any], cost: CostFigures) -> Table:
    table = Table(
        title=found["backbone"] + (f"  routes {found['routes']}" if found["routes"] else ""), show_header=False
    )
    # Counts.
    rows = [
        ("parameters", f"{cost.params:,} ({cost.trainable_params:,} trainable)"),
        ("forward", f"{cost.forward_macs / 1e9:.3f} GMACs ({2 * cost.forward_macs / 1e9:.3f} GFLOPs) per image"),
        ("  of which attention", f"{cost.attention_macs / 1e9:.3f} GMACs"),
        ("  of which scans", f"{cost.scan_macs / 1e9:.3f} GMACs"),
        ("forward, dense", f"{cost.dense_forward_macs / 1e9:.3f} GMACs; routed / dense = {found['macs_ratio']:.3f}"),
        ("training step", f"{cost.train_step_macs / 1e9:.3f} GMACs per image"),
        ("ideal speed-up", f"{cost.ideal_speedup:.3f}"),
        ("tokens per block", run_lengths(cost.tokens_per_block)),
    ]
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
