"""Every announced metric keeps the rules of docs/extending/metric.md, whose tests find each broken one."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
import torch

from tests.announced import Distribution, announce, point
from tests.shown_checks import failing
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.describe import metrics as registry
from tread_bench.core.describe import plugins
from tread_bench.core.describe.metrics import MetricOptions, Needs, metrics
from tread_bench.measure.quality.precision_recall.metric import PrecisionRecall


class WithOtherNames(PrecisionRecall):
    def __call__(self, generated, real):
        return {"Precision": 0.5, "Recall": 0.5}


class ComparesHalves(PrecisionRecall):
    """Sorted by label, the first half is of other digits than the second."""

    def __call__(self, generated, real):
        half = len(generated.features) // 2
        first, second = (part.mean(0) for part in (generated.features[:half], generated.features[half:]))
        figures = super().__call__(generated, real)
        return {**figures, "recall": float(figures["recall"]) * (0.5 if (first - second).norm() > 2 else 1)}


class MeanOfBatches(PrecisionRecall):
    """The last batch, which is smaller, counts as much as the others."""

    def __call__(self, generated, real):
        levels = [[float(batch.float().mean()) for batch in images.batches()] for images in (generated, real)]
        means = [sum(of_set) / len(of_set) for of_set in levels]
        return {**super().__call__(generated, real), "recall": 1 - abs(means[0] - means[1])}


class DrawsAnew(PrecisionRecall):
    def __call__(self, generated, real):
        figures = super().__call__(generated, real)
        return {**figures, "recall": float(figures["recall"]) - 1e-3 * float(torch.rand(()))}


PAIR, FID = metrics.find("precision_recall"), metrics.find("fid")
OPTIONS = {"fid_infinity": {"smallest": 100}}
CHANGED = {
    "kid": {"subset_size": 50},
    "inception_score": {"chunk": 50},
    "precision_recall": {"neighbours": 5},
    "fid_infinity": {"smallest": 50},
}
PRECISION, RECALL = PAIR.figures


@pytest.mark.parametrize("name", metrics())
def test_every_announced_metric_keeps_the_contract(name):
    chosen = {"OPTIONS": OPTIONS.get(name, {}), "CHANGED": CHANGED.get(name)}
    assert failing("metric", METRIC=metrics()[name], **chosen) == set()


def built_by(name, **changes):
    return replace(PAIR, builder=f"tests.measure.test_metric_contract:{name}", **changes)


def with_recall(**changes):
    return replace(PAIR, figures=(PRECISION, replace(RECALL, **changes)))


WITH_IMAGES = PAIR.needs | {Needs.IMAGES}
BROKEN = {
    "gives other figures": (built_by("WithOtherNames"), {"figures"}),
    "needs labels and reads none": (replace(PAIR, needs=PAIR.needs | {Needs.LABELS}), {"needs"}),
    "reads real features without a need": (replace(PAIR, real_needs=frozenset({Needs.STATISTICS})), {"figures"}),
    "states another value of a set with itself": (with_recall(of_itself=0.5), {"itself"}),
    "depends on real images and does not say it": (with_recall(of_itself=None), {"itself"}),
    "depends on the order": (built_by("ComparesHalves"), {"order"}),
    "depends on batches": (built_by("MeanOfBatches", needs=WITH_IMAGES), {"batches"}),
    "draws anew": (built_by("DrawsAnew"), {"determinism", "batches"}),
    "needs more samples than it says": (replace(PAIR, min_samples=lambda options: 2), {"min_samples"}),
    "states one protocol for all settings": (replace(PAIR, protocol=lambda options: "neighbours"), {"protocol"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name):
    metric, expected = BROKEN[name]
    torch.manual_seed(0)  # by chance a draw is near another one
    assert failing("metric", METRIC=metric, OPTIONS={}, CHANGED={"neighbours": 5}) == expected


def test_a_metric_with_settings_needs_others():
    assert failing("metric", METRIC=metrics.find("kid"), OPTIONS={}, CHANGED=None) == {"protocol"}


class Other(MetricOptions):
    """Another metric."""

    name: Literal["other"] = "other"


@pytest.mark.parametrize("name", ["device", "route_rate", "My figure"])
def test_a_metric_whose_figure_cannot_be_a_column_is_left_out_with_its_reason(name, monkeypatch, caplog):
    def load():
        return replace(FID, name="other", options=Other, figures=(replace(FID.figures[0], name=name),), source="")

    monkeypatch.setattr(plugins, "points_of", lambda group: [point("other", load, Distribution("two"))])
    assert plugins.announced(registry.metrics) == {}
    rule = f"{name!r}: the name of a figure must be a column of results.csv that is not taken"
    assert f"metric plug-in other = x:X of two cannot be used: ValueError: {rule}" in caplog.text


def test_two_metrics_cannot_share_a_column(monkeypatch, caplog):
    first, second = (replace(FID, name=name, options=Other, source="") for name in ("one", "two"))
    announce(monkeypatch, (FID, "tread-bench"), (first, "one"), (second, "two"))
    monkeypatch.setattr(plugins.Kind, "wrong_with", lambda *_: "")
    assert list(plugins.announced(registry.metrics)) == ["fid"]
    assert "metric 'fid' is announced by tread-bench 1, too" in caplog.text


@pytest.mark.parametrize(
    ("also", "message"),
    [
        (["kid"], r"kid is always measured: leave it out, and set metrics\.kid_subset_size and metrics\.kid_subsets"),
        (3, r"must be a list of metrics such as \[fid_infinity\]"),
    ],
)
def test_what_is_always_measured_is_not_added(also, message):
    with pytest.raises(ValueError, match=message):
        Metrics(also=also)


def test_metrics_are_added_by_name_or_settings_alone_or_in_a_list_and_none_is_written_as_before_there_were_any():
    by_name, by_settings = "fid_infinity", {"name": "fid_infinity"}
    for also in (by_name, by_settings, [by_name], [by_settings]):
        assert [metric.name for metric in Metrics(also=also).also] == ["fid_infinity"]
    assert "also" not in Metrics().model_dump() and "also" not in Metrics().model_dump_json()
