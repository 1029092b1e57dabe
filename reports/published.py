"""The published FID of a row that is a published network: another protocol, so beside and never among."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

from tread_bench.core.describe.methods import methods
from tread_bench.core.describe.routes import format_routes, parse_routes, resolve_routes
from tread_bench.core.numbers.schedule import routed_steps
from tread_bench.reports import requested
from tread_bench.reports.row import Row

FID_TABLES = ("TREAD Table", "DiG in DiCo")
_GUIDED_METRICS = {"cfg": ("fid_cfg", "fid_interval")}  # of a rule, and of it in an interval, as the tables call them
_ENDED_DENSE = {"mask": "mask unmasked", "tread": "tread fine-tuned"}  # the tables' words for a dense end
# Families that the tables give by their size alone.
_BY_SIZE = {"DiS": "Mamba", "DRWKV": "RWKV", "LightningDiT": "LightningDiT"}


class PublishedFid(NamedTuple):
    """What the tables print for a row, and in which respect that was another experiment."""

    fid: float
    caveat: str  # "other objective", "other sampler", "other objective; reprinted" or ""


@cache
def _lines() -> pd.DataFrame:
    """Read off the tables and figures of Krause et al. (arXiv 2501.04765, 2601.01608), ELIT (arXiv 2603.12245),
    MaskAlign (arXiv 2606.08788) and DC-DiT (arXiv 2603.06351, second version), the READMEs of SPRINT and MDT, the
    reports on PRX, the abstracts of DAR (arXiv 2605.20708), DIR-7 (arXiv 2504.14260) and SR-DiT (arXiv 2512.12386),
    JiT (arXiv 2511.13720), DDT (arXiv 2504.05741), the project page of MPDiT (arXiv 2603.26357), which reprints its
    Table 1, DiCo (arXiv 2505.11196), which reprints DiG and DiM, two threads of users, and where nothing better was at
    hand, as the caveat says, summaries of SPRINT, DiG, MDT, MicroDiT, LiT, DiMSUM and FCDM (arXiv 2603.09408).
    """
    with files("tread_bench.reports").joinpath("published.csv").open(encoding="utf-8") as file:
        lines = pd.read_csv(file, dtype=str, keep_default_na=False)
    return lines[lines.table.str.startswith(FID_TABLES)]


def published_fid(row: Row) -> PublishedFid | None:
    """FID in the tables of a row on latents: the same model, method, routes, guidance with its scale, and images.

    What the tables call unmasked was measured after an unmasked phase, and its number of images is that of the masked
    one before.
    """
    first = row.first
    data = requested.data_family(first)
    if data is None or not data.has_published_fids or not row.blocks or row.is_smoke:
        return None

    # The model as the tables name it: some by their size alone.
    model = first.backbone
    if first.family in _BY_SIZE:
        model = _BY_SIZE[first.family]
        params = f"{round((row.cost('params') or 0) / 1e6)}M"
        if not ((_lines().model == model) & (_lines().params == params)).any():
            return None
    elif first.config["data"].get("image_size") == 64:
        model = f"{model} ImageNet-512"

    # Method, metric and scale of guidance.
    method, schedule = requested.method(first), requested.schedule(first)
    if schedule.until < 1:
        method = _ENDED_DENSE.get(method, method)
    metric, scale = "fid", ""
    if requested.is_guided(first):
        guidance = requested.guidance(first)
        of_rule, with_interval = _GUIDED_METRICS.get(guidance["name"], ("", ""))
        metric = with_interval if guidance.get("interval") else of_rule
        scale = f"{requested.guidance_scale(first):g}"

    # The line of the tables that has all of it, after as many images.
    iterations = row.group.iteration
    masked = routed_steps(iterations, schedule) if iterations == requested.iterations(first) else 0
    lines, asked = _lines(), {"model": model, "method": method, "metric": metric, "scale": scale}
    for line in lines[(lines[[*asked]] == pd.Series(asked)).all(axis=1)].itertuples():
        is_unmasked = line.method.endswith(" unmasked")
        if is_unmasked and first.config.get("method") != methods.find(first.method).options().model_dump():
            continue  # older records lack some options, and had others then
        if line.iterations.endswith("K"):
            images = int(line.iterations.removesuffix("K")) * 1000 * int(line.batch)
        else:
            images = int(line.iterations.removesuffix(" epochs")) * 5000 * 256
        seen = (masked if is_unmasked else iterations) * (requested.training(first, "batch") or 0)
        if seen == images and _listed_routes(line.method, line.routes, row.blocks) == first.routes:
            return PublishedFid(float(line.value), line.caveat)
    return None


def _listed_routes(method: str, routes: str, blocks: int) -> str:
    """In block numbers; the tables leave out TREAD's own rule and its rate."""
    if method.startswith("dense"):
        return ""
    routes = routes or "@0.5"
    if routes.startswith("@"):
        usual = "0:-1" if method.startswith("mask") else "2:-4"
        routes = usual + routes
    return format_routes(resolve_routes(parse_routes(routes), blocks))
