"""The page of `evaluate`: what it says, and how it looks in a browser."""

from __future__ import annotations

import json

import pytest
import torch

from tests.browser_view import DESKTOP, PHONE, fits, set_width
from tread_bench.core.stored.evaluations import EvaluatedFigure, EvaluatedNetwork, EvaluatedSet, FitPoint, SetEvaluation
from tread_bench.measure.quality.png import grid_png
from tread_bench.reports.page.evaluation import write_evaluation_page

MISSING = "feature network dinov2: its weights are not in /weights <b>: put dinov2_vitl14_pretrain.pth there"
NETWORK = {
    "name": "inception", "sha256": "ab" * 32, "dims": 2048, "distance": "FID",
    "protocol": {"feature_network": "inception", "num_samples": 2000, "also": {"kid": "50 subsets"}},
}  # fmt: skip


def figure(name: str, title: str, value: float, **more: object) -> EvaluatedFigure:
    about = {"metric": name, "figure": name, "title": title, "network": "inception"}
    about |= {"network_sha256": "ab" * 32, "fingerprint": "0123456789ab"}
    return EvaluatedFigure.model_validate({**about, "lower_is_better": True, "value": value, **more})


def evaluation() -> SetEvaluation:
    fit = [FitPoint(images=count, value=7.5 + 21_000 / count) for count in (5000, 10_000, 20_000, 50_000)]
    few = ["FID from 2,000 samples: published figures are from 50,000"]
    return SetEvaluation(
        version="0.1.0",
        samples=EvaluatedSet(name="mine <i>", sha256="1" * 64, count=2000, shape=(3, 32, 32)),
        reference=EvaluatedSet(name="VIRTUAL", sha256="2" * 64, count=None, shape=None, statistics=["inception"]),
        protocol="adm",
        networks=[EvaluatedNetwork(**NETWORK)],
        rows=[
            figure("fid", "FID", 18.0, warnings=few),
            figure("kid", "KID", 0.00412, low=0.0031, high=0.0052, method="over 50 subsets"),
            figure("inception_score", "IS", 215.8371, lower_is_better=False),
            figure("fid_infinity", "FID∞", 7.5, low=7.1, high=7.9, points=fit),
        ],
        warnings=[f"Not measured: dinov2: {MISSING}"],
        device="Example GPU",
        batch=None,
        seconds=12.34,
        versions={"torch": "2.9"},
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("evaluation")
    grid = grid_png(torch.zeros(20, 3, 32, 32, dtype=torch.uint8))
    write_evaluation_page(evaluation(), grid, None, out)
    return out / "index.html"


def test_the_document_is_read_back_as_it_was():
    whole = evaluation()
    assert SetEvaluation.model_validate_json(json.dumps(whole.model_dump(mode="json")), strict=True) == whole


def test_the_page_says_the_figures_and_each_warning_once(page):
    whole = evaluation()
    assert whole.cautions == [*whole.warnings, *whole.rows[0].warnings]
    text = page.read_text()
    assert "mine &lt;i&gt;" in text and "<i>" not in text and "<b>:" not in text
    assert text.count(MISSING.replace("<b>", "&lt;b&gt;")) == 1 and text.count("published figures are from 50,000") == 1
    figures = ("18.00", "0.004120", "0.003100 to 0.005200", "215.8", "7.500")
    for value in (*figures, "0123456789ab", "2,000 images, 3×32×32", "stored statistics of inception"):
        assert value in text
    assert text.count("data:image/png") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_axe_finds_nothing(browser, page, axe_violations, scheme):
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    assert fits(browser, DESKTOP) and fits(browser, PHONE)
    set_width(browser, DESKTOP)
    assert axe_violations(browser, scheme) == []
