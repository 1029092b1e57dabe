"""`profile`: parameters and cost of one backbone, dense and routed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tread_bench.core.config.choices import PLAINLY_DENSE, PLAINLY_ROUTED, BackboneChoice
from tread_bench.core.config.compute import Timing
from tread_bench.core.config.routed import Setting, with_blocks
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Training
from tread_bench.core.describe.dialects import moved, read_routes, write_routes
from tread_bench.core.describe.families import BackboneSpec, Family, Macs, make_spec
from tread_bench.core.describe.routes import ResolvedRoute, format_routes, resolve_routes
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import branch_cost, cost_figures, figures_of
from tread_bench.core.stored.foreign import read_file
from tread_bench.core.stored.records import CostFigures
from tread_bench.services.guidance import changed_sampling

_MOST_BYTES = 2**24  # of a configuration


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """The backbone and routes to profile; routes and overrides as typed.

    Args:
        backbone: published name or family; None: `config` is profiled, or without one the routes alone are written.
        is_timed: also time training steps here, on `device`, `batch` images each.
        dialect: also write the routes as one of `DIALECTS` does.
        depth: blocks of the network that they are written for; None: those of the backbone or config.
        text_tokens: that the dialect's trainer counts in its ratio, and always keeps; without a dialect, those of the
            config's input.
        config: a `config.json` of diffusers, in place of a backbone.
    """

    backbone: str | None
    routes: tuple[str, ...]
    selector: str
    overrides: tuple[str, ...]
    guidance: str | None = None
    is_timed: bool = False
    batch: int = 8
    device: str = "auto"
    dialect: str | None = None
    depth: int | None = None
    text_tokens: int | None = None
    config: Path | None = None


def profile(request: ProfileRequest) -> tuple[dict[str, Any], CostFigures | None]:
    """Count, and time where requested; the figures as JSON values, and the counts. Raises UserError.

    Without a backbone and a config there are no counts: the routes are written for a network of `depth` blocks.
    """
    # What can be refused.
    _check_subject(request)
    _check_dialect(request)

    # Routes alone, and a network of diffusers.
    if request.backbone is None and request.config is None:
        assert request.depth is not None
        routes = _routes_of(request, request.depth)
        return {"routes": format_routes(routes), "written": _written(request, routes, request.depth, 1)}, None
    if request.config is not None:
        cost, about = _count_file(request, request.config)
        found = _counts(cost) | about
        if request.dialect is not None:
            blocks = len(cost.tokens_per_block)
            found["written"] = _written(request, _routes_of(request, blocks), blocks, cost.image_tokens)
        return found, cost

    # A backbone.
    if request.is_timed:
        from tread_bench.cell.numerics import usable_device

        request = replace(request, device=usable_device(request.device))
    family, spec, routes = _resolve(request)

    # Counts, for any machine.
    cost = cost_figures(family, spec, routes, request.selector)
    found = {
        "backbone": request.backbone,
        **_counts(cost),
        "routes": format_routes(routes),
        "selector": request.selector if routes else "",
        "image_size": spec.image_size,
        "channels": spec.channels,
        "num_classes": spec.num_classes,
    }
    if request.dialect is not None:
        found["written"] = _written(request, routes, len(cost.tokens_per_block), cost.image_tokens)
    if request.guidance is not None:
        found |= _guided(request, family, spec, routes)

    # Step times, of this machine.
    if request.is_timed:
        from tread_bench.cell.speed import time_backbone

        try:
            found |= time_backbone(family, spec, routes, request.selector, request.batch, request.device, Timing())
        except ValueError as error:
            raise UserError(str(error)) from None
    return found, cost


def _counts(cost: CostFigures) -> dict[str, Any]:
    return {
        "params": cost.params,
        "trainable_params": cost.trainable_params,
        "forward_macs": cost.forward_macs,
        "attention_macs": cost.attention_macs,
        "scan_macs": cost.scan_macs,
        "dense_forward_macs": cost.dense_forward_macs,
        "train_step_macs": cost.train_step_macs,
        "tokens_per_block": cost.tokens_per_block,
        "macs_ratio": cost.forward_macs / cost.dense_forward_macs,
    }


def _count_file(request: ProfileRequest, path: Path) -> tuple[CostFigures, dict[str, Any]]:
    """The cost of the network that a `config.json` of diffusers describes, and what was counted. Raises UserError."""
    # The file.
    way_out = "name the config.json of a transformer (of a pipeline, the one in its folder transformer)"
    try:
        config = json.loads(read_file(path, _MOST_BYTES))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {way_out}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not JSON; {way_out}") from None
    if not isinstance(config, dict) or not isinstance(config.get("_class_name"), str):
        raise UserError(f"{path} has no _class_name; {way_out}")

    # Its network, dense and routed.
    from tread_bench.measure.diffusers_cost import count_config

    text_tokens = request.text_tokens if request.dialect is None else None
    try:
        routes = [route for text in request.routes for route in read_routes(text)]
        found = count_config(config, routes, _side(request.overrides), text_tokens)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except ValueError as error:
        raise UserError(str(error)) from None
    cost = figures_of(found.routed, found.dense, found.tokens_per_block, found.image_tokens)
    return cost, {
        "backbone": found.name,
        "dense_train_step_macs": found.dense.train_step,
        "routes": format_routes(found.routes),
        "image_size": found.image_size,
        "channels": found.channels,
        "image_tokens": found.image_tokens,
        "text_tokens": found.text_tokens,
        "ignored_keys": list(found.ignored),
    }


def _check_subject(request: ProfileRequest) -> None:
    """Raise UserError where it is not one backbone, config or route alone, or an option has no effect on it."""
    is_route_alone = request.dialect is not None and request.depth is not None
    given = [subject for subject in (request.backbone, request.config) if subject is not None]
    if len(given) > 1 or not (given or is_route_alone):
        rule = "give one of them, or --as TRAINER and --depth for a route alone"
        raise UserError(f"profile takes a BACKBONE (`tread-bench list backbones`) or --config FILE: {rule}")
    if request.backbone is not None:
        return
    others = {
        "--train": request.is_timed,
        "--guidance": request.guidance,
        "--set": request.config is None and request.overrides,
        "--selector": request.selector != DEFAULT_SELECTOR,
        "--text-tokens": request.config is None and request.text_tokens,
    }
    if wrong := [option for option, value in others.items() if value]:
        raise UserError(f"leave {', '.join(wrong)} out: only a BACKBONE takes that")


def _check_dialect(request: ProfileRequest) -> None:
    """Raise UserError where an option would have no effect."""
    has_text = request.text_tokens is not None and request.config is None
    if request.dialect is None and (request.depth is not None or has_text):
        raise UserError("--depth and --text-tokens change how a route is written: name a trainer with --as")
    if request.dialect is not None and (request.is_timed or request.guidance):
        raise UserError("--as writes a route and nothing else: leave --train and --guidance out")


def _written(request: ProfileRequest, routes: Sequence[ResolvedRoute], num_blocks: int, image_tokens: int) -> str:
    """The routes of a network as a trainer writes them. Raises UserError."""
    assert request.dialect is not None
    image_share = image_tokens / (image_tokens + (request.text_tokens or 0))
    try:
        placed = moved(routes, num_blocks, request.depth or num_blocks)
        return write_routes(request.dialect, placed, image_share)
    except ValueError as error:
        raise UserError(str(error)) from None


def _routes_of(request: ProfileRequest, num_blocks: int) -> tuple[ResolvedRoute, ...]:
    """The routes of a network with so many blocks. Raises UserError."""
    try:
        return resolve_routes([route for text in request.routes for route in read_routes(text)], num_blocks)
    except ValueError as error:
        raise UserError(str(error)) from None


def _resolve(request: ProfileRequest) -> tuple[Family, BackboneSpec, tuple[ResolvedRoute, ...]]:
    assert request.backbone is not None
    try:
        family, spec = make_spec(request.backbone, **dict(_size(text) for text in request.overrides))
        routes = [route for text in request.routes for route in read_routes(text)]
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
    branches = {branch.name: branch for branch in complete.sampling.guidance.branches if branch is not None}
    macs = {name: branch_cost(Setting(complete, family, spec), branch) for name, branch in branches.items()}
    both = sum(macs.values(), Macs())
    return {
        "guidance": complete.sampling.guidance.model_dump(mode="json"),
        **{f"{name}_macs": cost.total for name, cost in macs.items()},
        "guided_macs": both.total,
        "guided_attention_macs": both.attention,
    }


def _side(overrides: Sequence[str]) -> int | None:
    """Side of a config's latents, the one size that can be set. Raises UserError."""
    try:
        sizes = dict(_size(text) for text in overrides)
    except (ValueError, yaml.YAMLError) as error:
        raise UserError(str(error)) from None
    side = sizes.pop("image_size", None)
    if sizes or not (side is None or (isinstance(side, int) and side > 0)):
        raise UserError("--set with --config: image_size=N, the side of the latents, and no other key")
    return side


def _size(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: write KEY=VALUE, such as depth=12")
    return key, yaml.safe_load(value)
