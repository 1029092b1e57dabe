"""What was asked of a record beyond backbone and routes, one reader per field: what it lacks was not asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

from tread_bench.core.records import Record

Setting = dict[str, Any]


class Schedule(NamedTuple):
    """Shares of the iterations: of the routes' warm-up, and after which training is dense, with its learning rate."""

    warmup: float = 0.0
    until: float = 1.0
    dense_learning_rate: float | None = None

    def share(self, step: int, iterations: int) -> float:
        """Of each route's rate that applies at `step` (from 0), as the training loop rounds it."""
        warmup = round(self.warmup * iterations)
        if self.until < 1 and step >= round(self.until * iterations):
            return 0.0
        return min(1.0, step / warmup) if warmup else 1.0

    @property
    def text(self) -> str:
        """Such as "warm-up 0.1, dense from 0.8"; "" for routes that apply as they are from start to end."""
        rate = f" with lr {self.dense_learning_rate:g}" if self.dense_learning_rate is not None else ""
        parts = (
            f"warm-up {self.warmup:g}" if self.warmup else "",
            f"dense from {self.until:g}{rate}" if self.until < 1 else "",
        )
        return ", ".join(filter(None, parts))


def schedule(record: Record) -> Schedule:
    asked = record.config.get("schedule") or {}
    return Schedule(**{name: asked[name] for name in Schedule._fields if asked.get(name) is not None})


def scheduled(record: Record) -> str:
    """The schedule in words; of training that is dense all the time only its learning rate changes."""
    found = schedule(record)
    if record.routes or found.dense_learning_rate is None:
        return found.text if record.routes else ""
    return f"lr {found.dense_learning_rate:g} from {found.until:g}"


def iterations(record: Record) -> int:
    """Of the whole training; 0 where the record does not say."""
    return int(record.config.get("training", {}).get("iterations") or 0)


def auxiliary(record: Record) -> str:
    """Names of the losses that are added to the method's own: "", "mae" or "mae + repa"."""
    return " + ".join(str(loss.get("name", "")) for loss in record.config.get("auxiliary") or ())


def method(record: Record) -> str:
    """With its auxiliary losses, which make another method of it: "tread + repa"."""
    return " + ".join(filter(None, (record.method, auxiliary(record))))


def is_judged_by_teacher(record: Record) -> bool:
    """Whether REPA aligned its tokens with features of the network that measures its FID."""
    judge = record.last.protocol_details.get("feature_network_sha256", "") if record.last else ""
    return bool(judge and judge in record.target_features_sha256)


def is_plainly_dense(record: Record) -> bool:
    """Nothing is asked for that others are compared by: no method, no auxiliary loss, no schedule."""
    return method(record) == "dense" and not scheduled(record)


def objective(record: Record) -> str:
    return str(record.config.get("objective", {}).get("name") or "")


def checkpoint(record: Record) -> str:
    """Whose weights are judged: the row itself, or the one that it names; with the iteration, unless it is the last."""
    asked = record.config.get("evaluate") or {}
    moment = asked.get("iteration")
    is_last = moment is None or moment == iterations(record)
    return f"{asked.get('row', record.row)}{'' if is_last else f' at {moment:g}'}"


def is_evaluated_only(record: Record) -> bool:
    """Another row trained what this one judges."""
    return bool(record.config.get("evaluate"))


def guidance(record: Record) -> Setting:
    """The rule with its settings; `name` is "none" without one."""
    asked = record.config.get("sampling", {}).get("guidance") or "none"
    return {"name": asked} if isinstance(asked, str) else dict(asked)


def guidance_scale(record: Record) -> float:
    """1 is the strong branch alone."""
    return float(record.config.get("sampling", {}).get("guidance_scale") or 1)


def is_guided(record: Record) -> bool:
    return guidance(record)["name"] != "none"


def rule(record: Record) -> str:
    """The guidance with what tells it from another of its name: "sparse 0.5/0.9 cosine"; "" without guidance."""
    asked = guidance(record)
    if asked["name"] == "none":
        return ""
    rates = "/".join(f"{asked[key]:g}" for key in ("strong", "weak") if asked.get(key) is not None)
    return " ".join(filter(None, (asked["name"], rates, *_conditions(asked))))


def rule_in_words(record: Record) -> str:
    """The same for a reader: "sparse (strong 0.5, weak 0.9, cosine decay)"."""
    asked = guidance(record)
    if asked["name"] == "none":
        return ""
    rates = [f"{key} {asked[key]:g}" for key in ("strong", "weak") if asked.get(key) is not None]
    settings = ", ".join(filter(None, (*rates, *_conditions(asked, "cosine decay", "weak branch "))))
    return f"{asked['name'].replace('_', ' ')}{f' ({settings})' if settings else ''}"


def _conditions(asked: Setting, cosine: str = "cosine", whose: str = "") -> list[str]:
    """Settings other than rates and blocks, where they are not the usual ones."""
    told = {True: "weak with label", False: "weak without label"}
    is_usual = asked.get("label_weak") in (None, asked["name"] == "sparse")
    interval, snapshot = asked.get("interval"), asked.get("snapshot")
    row = f"by row {asked['row']}" if asked.get("row") else ""
    weights = " ".join(filter(None, (row, _moment(snapshot) if snapshot is not None else "")))
    return [
        cosine if asked.get("decay") == "cosine" else "",
        "" if is_usual else told[bool(asked["label_weak"])],
        f"{whose}{weights}" if weights else "",
        f"interval {interval[0]:g}–{interval[1]:g}" if interval else "",
    ]


def _moment(moment: float) -> str:
    """Whose weights the weak branch has: an iteration, or a share of the training."""
    return f"from {moment:g} of training" if isinstance(moment, float) else f"from iteration {moment}"


def guided(record: Record) -> str:
    """The rule at its scale, in words: "cfg at scale 1.5"; "" without guidance."""
    return f"{rule_in_words(record)} at scale {guidance_scale(record):g}" if is_guided(record) else ""
