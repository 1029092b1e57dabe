"""Our classifiers keep the rules of docs/extending/feature-network.md, whose tests find each broken network."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.shown_checks import failing
from tread_bench.core.config.choices import DEFAULT_DATA
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.describe.metrics import Needs, extractors, metrics
from tread_bench.core.errors import UserError
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.networks.classifier.network import DIGITS_WEIGHTS, open_digits_classifier


class Wrapped(nn.Module):
    """The network, with something done to its features and logits."""

    def __init__(self, network, change):
        super().__init__()
        self.network = network
        self.change = change

    def forward(self, pixels):
        return self.change(*self.network(pixels))


def with_change(change):
    def build(options, shape):
        found = open_digits_classifier(options, shape)
        return Extractor(found.name, Wrapped(found.network, change), found.sha256, found.dims)

    return build


of_one_size = open_digits_classifier
cropped = with_change(lambda features, logits: (features[:, 1:], logits))
constant = with_change(lambda features, logits: (torch.ones_like(features), logits))
standardises_batches = with_change(lambda features, logits: (features - features.mean(), logits))
draws = with_change(lambda features, logits: (features + 1e-6 * torch.rand_like(features), logits))


class WithSpatial(nn.Module):
    """The network, with something as spatial features."""

    def __init__(self, network, spatial):
        super().__init__()
        self.network = network
        self.spatial = spatial

    def forward(self, pixels, spatial=False):
        features, logits = self.network(pixels)
        return (features, logits, self.spatial(features)) if spatial else (features, logits)


def with_spatial(spatial, dims=64):
    def build(options, shape):
        found = open_digits_classifier(options, shape)
        return Extractor(found.name, WithSpatial(found.network, spatial), found.sha256, found.dims, dims)

    return build


right_spatial = with_spatial(lambda features: features.flip(1))


def named_in_words(options, shape):
    found = open_digits_classifier(options, shape)
    found.sha256 = "digits"
    return found


DIGITS = extractors.find("digits-classifier")
GREY = (1, 8)


@pytest.mark.parametrize("name", ["digits-classifier", "glyphs-classifier", "trained-classifier"])
def test_our_classifiers_keep_the_contract(name):
    options = {"weights": str(DIGITS_WEIGHTS)} if name == "trained-classifier" else {}
    assert failing("feature-network", EXTRACTOR=extractors.find(name), OPTIONS=options, SHAPE=GREY) == set()


BROKEN = {
    "cropped": {"features"},
    "constant": {"content"},
    "standardises_batches": {"batches"},
    "draws": {"determinism"},
    "named_in_words": {"identity"},
    "of_one_size": {"sizes"},
}
ALSO_SAID = {"of_one_size": {"resizes": True}}  # in the description


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name):
    broken = replace(DIGITS, builder=f"tests.measure.test_extractor_contract:{name}", **ALSO_SAID.get(name, {}))
    assert failing("feature-network", EXTRACTOR=broken, OPTIONS={}, SHAPE=GREY) == BROKEN[name]


@pytest.mark.parametrize(("has_spatial", "builder"), [(True, DIGITS.builder), (False, "right_spatial")])
def test_spatial_features_are_there_exactly_if_the_description_says_so(has_spatial, builder):
    builder = builder if ":" in builder else f"tests.measure.test_extractor_contract:{builder}"
    network = replace(DIGITS, builder=builder, has_spatial=has_spatial)
    assert "features" in failing("feature-network", EXTRACTOR=network, OPTIONS={}, SHAPE=GREY)


def test_a_network_is_written_as_its_name_or_with_its_settings():
    by_name = Metrics(extractor="digits-classifier")
    assert by_name.model_dump()["extractor"] == "digits-classifier"
    assert by_name == Metrics(extractor={"name": "digits-classifier"})
    with_weights = Metrics(extractor={"name": "inception", "weights": "w.pth"})
    assert with_weights.model_dump()["extractor"] == {"name": "inception", "weights": "w.pth"}
    assert Metrics(inception_weights="w.pth").network(DEFAULT_DATA) == with_weights.network(DEFAULT_DATA)
    assert Metrics.model_validate(with_weights.model_dump()) == with_weights


def test_without_logits_the_inception_score_stays_empty_and_a_metric_that_needs_them_is_refused(monkeypatch):
    monkeypatch.setattr(type(DIGITS.options()), "family", replace(DIGITS, has_logits=False))
    assert [one.name for one in Metrics().measured(DEFAULT_DATA)] == ["fid", "kid", "precision_recall"]
    added = metrics.find("fid_infinity")
    monkeypatch.setattr(added.options, "family", replace(added, needs=frozenset({Needs.LOGITS})))
    with pytest.raises(UserError, match="metric fid_infinity: needs logits, and feature network digits-classifier"):
        Metrics(also=["fid_infinity"]).measured(DEFAULT_DATA)
