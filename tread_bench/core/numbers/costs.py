"""Parameters and MACs of a backbone, dense or routed, counted with torch and kept on disk: reading takes no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, TypeVar

from pydantic import TypeAdapter

from tread_bench.core.config.routed import Setting
from tread_bench.core.config.sampling import calls
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Lora
from tread_bench.core.describe.families import BackboneSpec, Cost, Family, Macs
from tread_bench.core.describe.guidance import Branch
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.describe.plugins import Description, code_sha256, named
from tread_bench.core.describe.routes import RoutesLike, as_routes, format_routes, resolve_routes, tokens_per_block
from tread_bench.core.describe.selectors import find_selector
from tread_bench.core.stored.cache import cache_folder, keep
from tread_bench.core.stored.records import CostFigures

# What a count follows from, beside plug-ins of third parties.
_COUNTING = tuple(f"tread_bench.{room}" for room in ("backbones", "core", "data", "diffusion", "measure", "model"))
_LIBRARIES = ("torch", "timm", "peft")
_adapter: Any = cache(TypeAdapter)
_known: dict[str, Any] = {}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Counts:
    """A backbone counted with 0, 1 and 2 tokens that bypass its blocks: MACs quadratic in them are then known for any.

    `blocks` holds, for each block and each of the three, MACs (linear, attention, scan, inputs), of which the last are
    the block's part of `Cost.inputs`. `inputs` is the part outside the blocks.
    """

    params: int
    trainable_params: int
    outside: Macs
    inputs: int
    blocks: tuple[tuple[tuple[int, int, int, int], ...], ...]

    def cost(self, bypassed: Sequence[int]) -> Cost:
        """Return the cost where each block has a number of tokens that bypass it."""
        counts = [self._at(block, n) for block, n in enumerate(bypassed)]
        blocks = tuple(Macs(linear, attention, scan) for linear, attention, scan, _ in counts)
        inputs = self.inputs + sum(of_block for *_, of_block in counts)
        return Cost(self.params, self.trainable_params, blocks, self.outside, inputs)

    def block(self, block: int, bypassed: int) -> Macs:
        """Return the forward MACs of one block."""
        return Macs(*self._at(block, bypassed)[:3])

    def _at(self, block: int, n: int) -> list[int]:
        """The polynomial through the counts at 0, 1 and 2, at n (Newton's forward differences)."""
        by_kind = zip(*self.blocks[block], strict=True)
        return [zero + n * (one - zero) + n * (n - 1) // 2 * (two - 2 * one + zero) for zero, one, two in by_kind]


def counted(kind: type[T], target: str, about: str, plugins: Sequence[Description], *arguments: Any) -> T:
    """Return what a function counts, from disk where the same code has counted the same before.

    Args:
        kind: type of the result.
        target: "module:attribute" of the function.
        about: all that the result depends on besides code: what distinguishes `arguments`.
        plugins: what is counted; of code that no distribution has announced, nothing is kept.
    """
    # Where it is kept.
    code = []
    for plugin in plugins:
        if not plugin.source:
            return named(target)(*arguments)
        builder = getattr(plugin, "builder", "") or getattr(plugin, "ranking", "")
        own = "" if plugin.is_own or not builder else _code_of(builder.partition(":")[0].partition(".")[0])
        code.append(f"{plugin.source} {builder} {own}")
    key = f"{target} {about} {sorted(code)} {_code()}"
    path = cache_folder("costs") / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    # Read it, or count.
    if key not in _known:
        try:
            _known[key] = _adapter(kind).validate_json(path.read_bytes())
        except (OSError, ValueError):
            _known[key] = named(target)(*arguments)
            keep(path, _adapter(kind).dump_json(_known[key]))
    return _known[key]


@cache
def _code_of(package: str) -> str:
    return code_sha256([package])


@cache
def _code() -> str:
    """The code of this package that counts, and the libraries that it counts with."""
    return f"{code_sha256(_COUNTING)} {[version(library) for library in _LIBRARIES if find_spec(library)]}"


def cost_of(
    family: Family, spec: BackboneSpec, routes: RoutesLike = (), selector: str = "random", lora: Lora | None = None
) -> Cost:
    """Return the cost of a backbone, from few counts where MACs are quadratic in tokens; else, its own count.

    Args:
        lora: its adapters, which alone are trained.
    """
    routes = as_routes(routes)
    counts = counts_of(family, spec, lora)
    if counts is None:
        target = "tread_bench.measure.macs:count_cost"
        about = f"{_written(family, spec, lora)} {format_routes(routes)} {selector}"
        plugins = (family, *mixers().values())
        return counted(Cost, target, about, plugins, family, spec, routes, selector, lora)
    blocks = family.num_blocks(spec)
    tokens = tokens_per_block(resolve_routes(routes, blocks), blocks, spec.num_tokens)
    return counts.cost([spec.num_tokens - kept for kept in tokens])


@cache
def counts_of(family: Family, spec: BackboneSpec, lora: Lora | None = None) -> Counts | None:
    """Return the counts from which the cost of any route follows; None: a block's MACs are not quadratic in tokens."""
    target, about = "tread_bench.measure.macs:count_backbone", _written(family, spec, lora)
    plugins = (family, *mixers().values())
    return counted(Counts | None, target, about, plugins, family, spec, lora)  # type: ignore[arg-type]


def num_parameters(family: Family, spec: BackboneSpec) -> int:
    """Return the number of parameters of a backbone, for which it is built and not run."""
    target, about = "tread_bench.measure.macs:count_parameters", _written(family, spec, None)
    return counted(int, target, about, (family, *mixers().values()), family, spec)


def _written(family: Family, spec: BackboneSpec, lora: Lora | None) -> str:
    adapters = "" if lora is None else lora.model_dump_json()
    return f"{family.builder} {spec.model_dump_json()} {adapters}"


def branch_cost(setting: Setting, branch: Branch, step: int = 0, steps: int = 1) -> Macs:
    """Return the MACs of one image's forward pass in a guidance branch, at one sampling step."""
    cell, family, spec = setting
    if not cell.method.family.is_plain_backbone:
        return evaluated_macs(cell, branch.drops_path)
    cost = cost_of(family, spec, branch.routes_at(step, steps), cell.selector, cell.training.lora)
    return sum((block for n, block in enumerate(cost.blocks) if n not in branch.dropped_blocks), cost.outside)


def evaluated_macs(cell: Cell, is_shallow: bool = False) -> Macs:
    """Return the MACs of one image's forward pass as the method is evaluated, or along its shallow path."""
    target, about = "tread_bench.measure.macs:count_evaluated", f"{network_of(cell)} {is_shallow}"
    return counted(Macs, target, about, parts_of(cell), cell, is_shallow)


def network_of(cell: Cell) -> str:
    """Return what the cost of a cell's network follows from, as JSON: its configuration and its sizes."""
    kept = {"backbone", "data", "method", "routes", "selector", "objective", "auxiliary"}
    requested = cell.model_dump_json(include={**dict.fromkeys(kept, True), "training": {"batch"}})
    return f"{requested} {cell.backbone.spec(cell.data).model_dump_json()}"


def parts_of(cell: Cell) -> list[Description]:
    """Return the plug-ins that a cell's network consists of."""
    losses = (loss.family for loss in cell.auxiliary)
    selector = find_selector(cell.selector)
    return [cell.backbone.family(), cell.method.family, selector, *losses, *mixers().values()]


def sampling_macs(evaluated: Setting, times: Sequence[float], weak: Setting | None = None) -> int:
    """Return the MACs of one generated image: all calls of the sampler, with the branches that each call needs.

    Args:
        times: the sampler's times, steps + 1.
        weak: the weak branch's cell, if it has weights of its own.
    """
    sampling = evaluated.cell.sampling
    strong_branch, weak_branch = sampling.guidance.branches

    @cache
    def macs(step: int, guided: bool) -> int:
        total = branch_cost(evaluated, strong_branch, step, sampling.steps).total
        if guided and weak_branch is not None:
            setting = weak if weak_branch.other_weights and weak else evaluated
            total += branch_cost(setting, weak_branch, step, sampling.steps).total
        return total

    return sum(macs(call.step, call.guided) for call in calls(sampling, times))


def cost_figures(
    family: Family, spec: BackboneSpec, routes: RoutesLike = (), selector: str = "random", lora: Lora | None = None
) -> CostFigures:
    """Return the costs that a record stores."""
    resolved = family.resolve(spec, routes, selector)
    cost, dense = cost_of(family, spec, resolved, selector, lora), cost_of(family, spec, lora=lora)
    prefix = family.num_prefix(spec)
    tokens = tokens_per_block(resolved, family.num_blocks(spec), spec.num_tokens, prefix)
    frozen = 0 if lora is None else cost.params - cost.trainable_params
    figures = figures_of(cost, dense, tokens, prefix + spec.num_tokens)
    return figures.model_copy(update={"prefix_tokens": prefix, "frozen_params": frozen})


def figures_of(cost: Cost, dense: Cost, tokens: list[int], dense_tokens: int) -> CostFigures:
    """Return the costs that a record stores, of a routed network and the dense one."""
    return CostFigures(
        params=cost.params,
        trainable_params=cost.trainable_params,
        tokens_per_block=tokens,
        dense_tokens=dense_tokens,
        forward_macs=cost.forward.total,
        dense_forward_macs=dense.forward.total,
        attention_macs=cost.forward.attention,
        scan_macs=cost.forward.scan,
        train_step_macs=cost.train_step,
        block_macs=[block.total for block in cost.blocks],
    )
