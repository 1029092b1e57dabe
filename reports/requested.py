"""What a suite requested of a record beyond backbone and routes, one reader per field; defaults for what it lacks."""

from __future__ import annotations

from typing import Any

from tread_bench.core.config.choices import PLAINLY_DENSE, UNGUIDED
from tread_bench.core.config.training import RoutingSchedule
from tread_bench.core.describe.data_sources import DataFamily, data_sources
from tread_bench.core.describe.guidance import guidance_rules
from tread_bench.core.describe.methods import Evaluated, Tokens, methods
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR
from tread_bench.core.stored.records import Record, seed_group


def schedule(record: Record) -> RoutingSchedule:
    return RoutingSchedule.model_validate(record.config.get("schedule") or {})


def scheduled(record: Record) -> str:
    """Return the schedule in words, such as "warm-up 0.1, dense from 0.8"; "" for routes that apply from start to end.

    Of training that is dense all the time only the learning rate changes.
    """
    found = schedule(record)
    rate = found.dense_learning_rate
    if not record.routes:
        return "" if rate is None else f"lr {rate:g} from {found.until:g}"
    parts = []
    if found.warmup:
        parts.append(f"warm-up {found.warmup:g}")
    if found.until < 1:
        parts.append(f"dense from {found.until:g}" + ("" if rate is None else f" with lr {rate:g}"))
    return ", ".join(parts)


def optimizer(record: Record) -> str:
    """Return the optimiser of its training, "adamw" where the record does not say."""
    return str(training(record, "optimizer") or "adamw")


def decay(record: Record) -> str:
    """Return how the learning rate falls to zero, such as "linear" or "wsd 0.2"; "" where it stays as it is."""
    found = training(record, "decay") or {}
    share = found.get("share")
    return " ".join(filter(None, (found.get("name", ""), f"{share:g}" if share else "")))


def source(record: Record) -> str:
    """Return the row of this run whose weights its training starts from; "" where its weights are drawn."""
    found = training(record, "start")
    return found["row"] if found and found.get("run") is None else ""


def start(record: Record) -> str:
    """Return whose weights its training starts from, such as "dense at 400" or "dense at 400 of RUN"; "" where its
    weights are drawn.
    """
    found = training(record, "start")
    if not found:
        return ""
    return f"{found['row']} at {found['iteration']}" + (f" of {found['run']}" if found["run"] else "")


def iterations(record: Record) -> int:
    """Of the whole training; 0 where the record does not say."""
    return int(training(record, "iterations") or 0)


def training(record: Record, name: str) -> Any:
    """Return one setting of the optimisation; None where the record does not say."""
    return record.config.get("training", {}).get(name)


def sampling(record: Record, name: str) -> Any:
    """Return one setting of the generation of images; None where the record does not say."""
    return record.config.get("sampling", {}).get(name)


def macs_of(record: Record) -> str:
    """Return the row to whose training MACs this one is trained; "" without a budget, and for one that trains
    nothing.
    """
    if is_evaluated_only(record):
        return ""
    budget = training(record, "budget") or {}
    return str(budget.get("macs_of") or "")


def data(record: Record) -> str:
    """Name of its data source."""
    return str(record.config.get("data", {}).get("name") or "")


def data_family(record: Record) -> DataFamily | None:
    """None where the data source is not installed here."""
    return data_sources().get(data(record))


def auxiliary(record: Record) -> str:
    """Return names of the losses that are added to the method's own: "", "mae" or "mae + repa"."""
    return " + ".join(str(loss.get("name", "")) for loss in record.config.get("auxiliary") or ())


def method(record: Record) -> str:
    """With its auxiliary losses, which make another method of it: "tread + repa"."""
    return " + ".join(filter(None, (record.method, auxiliary(record))))


def route(record: Record) -> str:
    """Return what it does with tokens: "dense", "2:8@0.5", "2:8@0.5 rows", or with its method "sprint 2:8@0.5"."""
    parts = [] if is_routing_alone(record) else [method(record)]
    if record.routes:
        parts.append(record.routes)
        parts += [record.selector] if record.selector != DEFAULT_SELECTOR else []
    return " ".join(parts)


def is_evaluated_by_teacher(record: Record) -> bool:
    """Return whether REPA aligned its tokens with features of the network that measures its FID."""
    judge = record.last.protocol_details.get("feature_network_sha256", "") if record.last else ""
    return bool(judge and judge in record.target_features_sha256)


def is_plainly_dense(record: Record) -> bool:
    """Nothing is requested that others are compared by: no method, auxiliary loss or schedule; nor is it a control."""
    return is_trained_densely(record) and not is_control(record)


def is_trained_densely(record: Record) -> bool:
    """Return whether no method, no auxiliary loss and no schedule is requested."""
    return method(record) == PLAINLY_DENSE.name and not scheduled(record)


def is_control(record: Record) -> bool:
    """Return whether it is dense training that stands beside the reference: to its cost, or with another group of
    seeds.
    """
    is_repeated = seed_group(record) > 0 and record.reference != record.cell  # not where all of a run has that group
    return is_trained_densely(record) and bool(macs_of(record) or is_repeated)


def stands_beside_routes(record: Record) -> bool:
    """Return whether it says what routes are better than: dense training that is a control, or skipped layers."""
    return is_control(record) or skips_layers(record)


def is_plain_routing(record: Record) -> bool:
    """Return whether its method is nothing but routes; not known of a method that is not installed here."""
    family = methods().get(record.method)
    return family is not None and family.is_plain_routing


def skips_layers(record: Record) -> bool:
    """Return whether all tokens of a sample skip blocks together: the control of what routing of single tokens adds."""
    family = methods().get(record.method)
    return family is not None and family.tokens is Tokens.SKIP_AS_A_WHOLE


def is_routing_alone(record: Record) -> bool:
    """Return whether it is trained with routes, and without any auxiliary loss."""
    return is_plain_routing(record) and not auxiliary(record)


def is_evaluated_routed(record: Record) -> bool:
    """Return whether its samples are made with routes; not known of a method that is not installed here."""
    family = methods().get(record.method)
    return family is not None and family.evaluated is Evaluated.ROUTED


def objective(record: Record) -> str:
    return str(record.config.get("objective", {}).get("name") or "")


def objective_in_full(record: Record) -> str:
    """Return the objective with its settings, such as "edm (p_mean -1.2, p_std 1.2, sigma_data 0.5)"."""
    config = record.config.get("objective", {})
    settings = ", ".join(f"{key} {config[key]}" for key in ("p_mean", "p_std", "sigma_data") if key in config)
    return f"{objective(record)} ({settings})" if settings else objective(record)


def checkpoint(record: Record) -> str:
    """Whose weights are evaluated: the row's own, or those it names; with the iteration, unless it is the last."""
    config = record.config.get("evaluate") or {}
    row = str(config.get("row", record.row))
    moment = config.get("iteration")
    if moment is None or moment == iterations(record):
        return row
    return f"{row} at {moment:g}"


def is_evaluated_only(record: Record) -> bool:
    """Another row trained what this one evaluates."""
    return bool(record.config.get("evaluate"))


def is_timed_only(record: Record) -> bool:
    """Return whether nothing was requested to be trained or evaluated, only timed."""
    return not is_evaluated_only(record) and training(record, "iterations") == 0


def guidance(record: Record) -> dict[str, Any]:
    """Return the rule with its settings; `name` is "none" without one."""
    config = sampling(record, "guidance") or UNGUIDED.name
    return {"name": config} if isinstance(config, str) else dict(config)


def guidance_scale(record: Record) -> float:
    """1 is the strong branch alone."""
    return float(sampling(record, "guidance_scale") or 1)


def is_guided(record: Record) -> bool:
    return guidance(record)["name"] != UNGUIDED.name


def rule(record: Record) -> str:
    """Return the guidance with what tells it from another of its name: "sparse 0.5/0.9 cosine"; "" without guidance."""
    config = guidance(record)
    if not is_guided(record):
        return ""
    rates = "/".join(f"{config[key]:g}" for key in ("strong", "weak") if config.get(key) is not None)
    return " ".join(filter(None, (config["name"], rates, *_conditions(config))))


def rule_in_words(record: Record) -> str:
    """Return the same for a reader: "sparse (strong 0.5, weak 0.9, cosine decay)"."""
    config = guidance(record)
    if not is_guided(record):
        return ""
    rates = [f"{key} {config[key]:g}" for key in ("strong", "weak") if config.get(key) is not None]
    settings = ", ".join([*rates, *_conditions(config, "cosine decay", "weak branch ")])
    name = str(config["name"]).replace("_", " ")
    return f"{name} ({settings})" if settings else name


def _conditions(config: dict[str, Any], cosine: str = "cosine", whose: str = "") -> list[str]:
    """Settings other than rates and blocks, where they are not the default ones."""
    found = []
    if config.get("decay") == "cosine":
        found.append(cosine)
    rule = guidance_rules().get(config["name"])
    label_weak = config.get("label_weak")
    fields = rule.options.model_fields if rule else {}
    default = "label_weak" in fields and fields["label_weak"].default  # no label, unless its rule says so
    if label_weak not in (None, default):
        found.append("weak with label" if label_weak else "weak without label")
    weights = []
    if config.get("row"):
        weights.append(f"by row {config['row']}")
    snapshot = config.get("snapshot")  # an iteration, or a share of the training
    if isinstance(snapshot, float):
        weights.append(f"from {snapshot:g} of training")
    elif snapshot is not None:
        weights.append(f"from iteration {snapshot}")
    if weights:
        found.append(f"{whose}{' '.join(weights)}")
    if config.get("interval"):
        low, high = config["interval"]
        found.append(f"interval {low:g}–{high:g}")
    return found


def guided(record: Record) -> str:
    """Return the rule at its scale, in words: "cfg at scale 1.5"; "" without guidance."""
    return f"{rule_in_words(record)} at scale {guidance_scale(record):g}" if is_guided(record) else ""
