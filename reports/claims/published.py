"""Published figures that a run may be read beside: another protocol, so beside and never among."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from tread_bench.core.config.choices import DEFAULT_OBJECTIVE
from tread_bench.core.describe.methods import find_method
from tread_bench.core.describe.routes import format_routes, parse_routes, resolve_routes
from tread_bench.core.numbers.schedule import routed_steps
from tread_bench.core.stored.records import Record
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import number
from tread_bench.reports.text.sentences import say

FID_TABLES = ("TREAD Table", "DiG in DiCo")
PLACEMENT_BLOCKS = 12  # DiT-B/2, where TREAD's Figure 8 was measured
GAIN_MODELS = {"DiT": "DiT-B/2", "SiT": "SiT-B/2", "DiS": "Mamba", "DRWKV": "RWKV", "LightningDiT": "LightningDiT"}


def stands_beside_published(rows: Iterable[Row]) -> bool:
    """Return whether published figures may stand beside these rows: not in a smoke run, whose figures say nothing."""
    return not any(row.is_smoke for row in rows)


class PublishedFid(NamedTuple):
    """What the tables print for a row, and in which respect that was another experiment."""

    fid: float
    caveat: str  # "other objective", "other sampler", "other objective; reprinted" or ""


class PublishedGain(NamedTuple):
    """FID of a model trained dense and with TREAD, from Table 2."""

    model: str
    dense: float
    tread: float
    caveat: str  # of the dense figure

    @property
    def difference(self) -> float:
        return self.tread - self.dense


@cache
def _lines() -> list[dict[str, str]]:
    """Read off the tables and figures of Krause et al. (arXiv 2501.04765, 2601.01608), ELIT (arXiv 2603.12245),
    MaskAlign (arXiv 2606.08788) and DC-DiT (arXiv 2603.06351, second version), the READMEs of SPRINT and MDT, the
    reports on PRX, the abstracts of DAR (arXiv 2605.20708), DIR-7 (arXiv 2504.14260) and SR-DiT (arXiv 2512.12386),
    JiT (arXiv 2511.13720), DDT (arXiv 2504.05741), the project page of MPDiT (arXiv 2603.26357), which reprints its
    Table 1, DiCo (arXiv 2505.11196), which reprints DiG and DiM, two threads of users, and where nothing better was at
    hand, as the caveat says, summaries of SPRINT, DiG, MDT, MicroDiT, LiT, DiMSUM and FCDM (arXiv 2603.09408).
    """
    text = files("tread_bench.reports.claims").joinpath("published.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _value(table: str, model: str, method: str, **others: str) -> float | None:
    """The first value of these; `others` are further columns."""
    wanted = {"table": table, "model": model, "method": method, **others}
    for line in _lines():
        if all(line[key] == value for key, value in wanted.items()):
            return float(line["value"])
    return None


def placement_difference(row: Row) -> float | None:
    """TREAD Figure 8: FID of that route minus dense, DiT-B/2 on ImageNet-256; None where it has no such route."""
    first = row.first
    is_its_model = first.family == "DiT" and first.num_blocks == PLACEMENT_BLOCKS
    is_its_method = requested.is_routing_alone(first) and first.routes
    if not is_its_model or not is_its_method or row.is_smoke:
        return None
    return _value("TREAD Figure 8", "DiT-B/2", "tread", routes=row.first.routes)


def placement_note() -> str:
    """Return where the figures come from and why they do not compare."""
    return say("published", "placement", value=_value)


def several_routes_note() -> str:
    """Return what was published of several routes, and why it does not compare."""
    return say("published", "several_routes", value=_value)


def published_fid(row: Row) -> PublishedFid | None:
    """FID in the tables of a row on latents: the same model, method, routes, guidance with its scale, and images.

    What the tables call unmasked was measured after an unmasked phase, and its number of images is that of the masked
    one before.
    """
    first = row.first
    data = requested.data_family(first)
    if data is None or not data.has_published_fids or not row.blocks or row.is_smoke:
        return None
    batch = requested.training(first, "batch") or 0
    iterations = row.group.iteration
    is_over = iterations == requested.iterations(first)
    routed_iterations = routed_steps(iterations, requested.schedule(first)) if is_over else 0
    scale = f"{requested.guidance_scale(first):g}" if requested.is_guided(first) else ""

    # The line of the tables that has all of it.
    wanted = (_listed_model(row), _listed_method(first), _listed_metric(first), scale)
    for line in _lines():
        is_fid = line["table"].startswith(FID_TABLES)
        if not is_fid or (line["model"], line["method"], line["metric"], line["scale"]) != wanted:
            continue
        counted = routed_iterations if _is_unmasked(line) else iterations
        if _is_unmasked(line) and not _has_default_options(first):
            continue
        if _images_seen(line) == counted * batch and _listed_routes(line, row.blocks) == first.routes:
            return PublishedFid(float(line["value"]), line["caveat"])
    return None


def _listed_model(row: Row) -> str:
    """As the tables name it; of models that they give by their size alone, where it is that size."""
    family = row.first.family
    if family in ("DRWKV", "DiS", "LightningDiT"):
        model = GAIN_MODELS[family]
        params = f"{round((row.cost('params') or 0) / 1e6)}M"
        is_listed = any(line["model"] == model and line["params"] == params for line in _lines())
        return model if is_listed else ""
    side = row.first.config["data"].get("image_size")
    return f"{row.first.backbone} ImageNet-512" if side == 64 else row.first.backbone


def _listed_method(record: Record) -> str:
    method = requested.method(record)
    return _ENDED_DENSE.get(method, method) if requested.schedule(record).until < 1 else method


def _is_unmasked(line: Mapping[str, str]) -> bool:
    return line["method"].endswith(" unmasked")


def _has_default_options(record: Record) -> bool:
    """Those of the method, which are the published ones; older records lack some, and had others then."""
    return bool(record.config.get("method") == find_method(record.method).options().model_dump())


def _listed_metric(record: Record) -> str:
    guidance = requested.guidance(record)
    if not requested.is_guided(record):
        return "fid"
    of_rule, with_interval = _GUIDED_METRICS.get(guidance["name"], ("", ""))
    return with_interval if guidance.get("interval") else of_rule


def _images_seen(line: Mapping[str, str]) -> int:
    """Of "400K" iterations of `batch` images, or of epochs of 5,000 iterations of 256."""
    if line["iterations"].endswith("K"):
        return int(line["iterations"].removesuffix("K")) * 1000 * int(line["batch"])
    return int(line["iterations"].removesuffix(" epochs")) * 5000 * 256


def _listed_routes(line: Mapping[str, str], blocks: int) -> str:
    """In block numbers; the tables leave out TREAD's own rule and its rate."""
    if line["method"].startswith("dense"):
        return ""
    routes = line["routes"] or "@0.5"
    if routes.startswith("@"):
        usual = "0:-1" if line["method"].startswith("mask") else "2:-4"
        routes = usual + routes
    return format_routes(resolve_routes(parse_routes(routes), blocks))


def published_gain(row: Row) -> PublishedGain | None:
    """TREAD Table 2: that very model where it is listed, else the one of its family; None for other families.

    Where a run compares objectives, a DiT that learns a flow stands beside what the paper calls a SiT.
    """
    listed = {line["model"] for line in _lines() if line["table"] == "TREAD Table 2"}
    model = row.group.backbone if row.group.backbone in listed else GAIN_MODELS.get(row.first.family, "")
    if DEFAULT_OBJECTIVE.name in row.architecture.split():  # flow matching
        model = re.sub("^DiT", "SiT", model)
    dense, tread = (_value("TREAD Table 2", model, method) for method in ("dense", "tread"))
    if dense is None or tread is None or row.is_smoke:
        return None
    caveats = (line["caveat"] for line in _lines() if (line["model"], line["method"]) == (model, _DENSE))
    return PublishedGain(model, dense, tread, next(caveats))


def gain_note() -> str:
    """Return where the gains come from and why they do not compare."""
    return say("published", "gain")


def published_rates() -> dict[float, float]:
    """TREAD Tables 2 and 5: bypass rate -> FID of DiT-B/2 with route 2:8 at 400K iterations; 0 is dense."""
    found = {
        0.0: _value("TREAD Table 2", "DiT-B/2", "dense"),
        0.25: _value("TREAD Table 5", "DiT-B/2", "tread", routes="@0.25"),
        0.5: _value("TREAD Table 2", "DiT-B/2", "tread"),
        0.75: _value("TREAD Table 5", "DiT-B/2", "tread", routes="@0.75"),
    }
    return {rate: fid for rate, fid in found.items() if fid is not None}


def rates_note() -> str:
    """Return where the rates come from and why they do not compare."""
    return say("published", "rates")


def published_depths() -> dict[str, float]:
    """TREAD Tables 2 and 6: rule -> FID difference to dense of DiT-XL/2, 28 blocks."""
    dense, absolute = (_value("TREAD Table 2", "DiT-XL/2", method) for method in ("dense", "tread"))
    relative = _value("TREAD Table 6", "DiT-XL/2", "tread")
    if dense is None or absolute is None or relative is None:
        return {}
    return {"absolute": absolute - dense, "relative": relative - dense}


def depths_note() -> str:
    """Return where the two rules' figures come from and why they do not compare."""
    return say("published", "depths", value=_value)


_GUIDED_METRICS = {"cfg": ("fid_cfg", "fid_interval")}  # of a rule, and of it in an interval, as the tables call them
_DENSE = "dense"  # the tables' word
_ENDED_DENSE = {"mask": "mask unmasked", "tread": "tread fine-tuned"}  # the tables' words for a dense end
_METHODS = {  # of a suite -> table, model, what the table calls it, metric, length of training
    "dense": ("TREAD Table 1", "DiT-XL/2", "dense", "fid", "1400 epochs"),
    "dense + repa": ("TREAD Table 1", "DiT-XL/2", "dense + repa", "fid", "170 epochs"),
    "tread": ("TREAD Table 1", "DiT-XL/2", "tread", "fid", "160 epochs"),
    "sprint": ("SPRINT README", "SiT-XL/2", "sprint", "fid_path_drop", "400 epochs"),
    "sprint + repa": ("SPRINT README", "SiT-XL/2", "sprint + repa", "fid_path_drop", "400 epochs"),
    "elit": ("ELIT Table 1", "DiT-XL/2", "elit of several budgets", "fid", "500K"),
}


def published_method(row: Row) -> str:
    """FID of its method at XL size, with the length of its training and its guidance; "" where none was published."""
    return "" if row.is_smoke else _published_method(requested.method(row.first))


def _published_method(method: str) -> str:
    if method not in _METHODS:
        return ""
    table, model, listed, metric, length = _METHODS[method]
    guidance = ", path-drop guidance" if metric == "fid_path_drop" else ""
    fid = _value(table, model, listed, metric=metric, iterations=length)
    return f"{number(fid)} ({model}, {length.replace('K', 'K iterations')}{guidance})"


def methods_note() -> str:
    """Return where the methods' figures come from and why they do not compare."""
    of_elit = _value("ELIT Table 1", "DiT-XL/2", "dense")
    return say("published", "methods", of_dense=_published_method("dense"), of_elit=of_elit)


def published_guidance() -> list[tuple[str, float | None, float | None]]:
    """Sparse Guidance (Krause et al. 2026): rule, FID and GMACs per call of SiT-XL/2 with route 2:24."""
    rules = ("none", "sparse 0.5/0.9", "sparse cosine by weights of 50K", "cfg")
    fids = [_value("Sparse Guidance", "SiT-XL/2", rule, metric="fid") for rule in rules]
    fids[0] = _value("TREAD Table 2", "SiT-XL/2", "tread")  # the checkpoint that is guided
    gmacs = [_value("Sparse Guidance", "SiT-XL/2", rule, metric="gmacs") for rule in rules]
    return list(zip(rules, fids, gmacs, strict=True))


def guidance_note() -> str:
    """Return what was published of guidance, and why it does not compare."""
    return say("published", "guidance", rules=published_guidance())


def finetune_note() -> str:
    """Return what was published of dense fine-tuning at the end of a training, and why it does not compare."""
    return say("published", "finetune", value=_value)
