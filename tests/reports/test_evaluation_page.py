"""The page of `evaluate`: what it says, and how it looks in a browser."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tests.browser_view import DESKTOP, PHONE, fits
from tread_bench.core.stored.evaluations import (
    EvaluatedFigure,
    EvaluatedNetwork,
    EvaluatedSet,
    FitPoint,
    SetEvaluation,
    by_reason,
)
from tread_bench.measure.quality.png import grid_png
from tread_bench.reports.page.evaluation import Grid, cautions, pictures_of, sentences, write_evaluation_page

LIMIT, SLOPE = 7.5, 21_000.0  # of the fit: its value at infinitely many images, and how it depends on 1 / images
MISSING = "feature network dinov2: its weights are not in /weights <b>: put dinov2_vitl14_pretrain.pth there"


def figure(name: str, title: str, value: float | None, network: str = "inception", **more: object) -> EvaluatedFigure:
    about = {"metric": name, "figure": name, "title": title, "network": network}
    about["fingerprint"] = "" if value is None else "0123456789ab"
    return EvaluatedFigure.model_validate({**about, "lower_is_better": True, "value": value, **more})


def evaluation(classes: int = 10) -> SetEvaluation:
    counts = [5000, 10_000, 20_000, 50_000]
    fit = [FitPoint(images=count, value=LIMIT + SLOPE / count) for count in counts]
    few = ["FID from 2,000 samples: published figures are from 50,000"]
    return SetEvaluation(
        version="0.1.0",
        samples=EvaluatedSet(name="mine <i>", sha256="1" * 64, count=2000, shape=(3, 32, 32), has_labels=True),
        reference=EvaluatedSet(name="VIRTUAL", sha256="2" * 64, count=None, shape=None, statistics=["inception"]),
        protocol="adm",
        networks=[
            EvaluatedNetwork(
                name="inception",
                sha256="ab" * 32,
                dims=2048,
                distance="FID",
                protocol={"feature_network": "inception", "num_samples": 2000, "also": {"kid": "50 subsets"}},
                device_effect=3e-7,
            )
        ],
        rows=[
            figure("fid", "FID", 18.0, warnings=few),
            figure("kid", "KID", 0.00412, low=0.0031, high=0.0052, method="over 50 subsets"),
            figure("inception_score", "IS", 215.8371, lower_is_better=False),
            figure("fid_infinity", "FID∞", LIMIT, low=7.1, high=7.9, points=fit),
            figure("fid", "FD-DINOv2", None, "dinov2", refused=MISSING),
            figure("kid", "KID", None, "dinov2", refused=MISSING),
        ],
        warnings=["Samples are 3×32×32 and reference images 3×64×64: their sizes alone change the features."],
        device="Example GPU",
        batch=None,
        seconds=12.34,
        versions={"torch": "2.9"},
    )


def grid() -> Grid:
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (20, 3, 32, 32), np.uint8))
    return Grid(png=grid_png(pixels), images=20, side=16)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("evaluation")
    write_evaluation_page(evaluation(), grid(), None, out)
    return out / "index.html"


def test_the_document_is_read_back_as_it_was_and_every_figure_is_there_once():
    whole = evaluation()
    assert SetEvaluation.model_validate_json(json.dumps(whole.model_dump(mode="json")), strict=True) == whole
    with pytest.raises(ValueError, match="each figure of a network once"):
        SetEvaluation.model_validate(whole.model_dump() | {"rows": [*whole.rows, whole.rows[0]]})
    with pytest.raises(ValueError, match="a network that networks names"):
        SetEvaluation.model_validate(whole.model_dump() | {"networks": []})
    with pytest.raises(ValueError, match="either a value or the reason"):
        figure("fid", "FID", None)


def test_the_frame_has_a_row_per_figure_with_its_reason():
    frame = evaluation().frame()
    assert len(frame) == 6 and set(frame.fingerprint) == {"0123456789ab", ""}
    assert frame.value.isna().tolist() == (frame.refused != "").tolist()
    assert frame.set_index(["network", "figure"]).loc[("inception", "kid"), "high"] == 0.0052


def test_figures_that_are_refused_for_one_reason_share_a_line():
    assert [*map(str, by_reason(evaluation().refused))] == [f"FD-DINOv2, KID (dinov2): {MISSING}"]


def test_the_page_says_the_figures_the_warnings_and_what_is_missing(page):
    whole = evaluation()
    (sentence,) = sentences(whole)
    assert sentence == "inception: FID 18.00, KID 0.004120, IS 215.8 and FID∞ 7.500."
    assert cautions(whole) == [*whole.warnings, *whole.rows[0].warnings]
    text = page.read_text()
    assert "mine &lt;i&gt;" in text and "<i>" not in text and "<b>:" not in text
    assert text.count(MISSING.replace("<b>", "&lt;b&gt;")) == 1
    assert "0.003100 to 0.005200" in text and "0123456789ab" in text and "scaled to 16 pixels" in text
    assert "it has no images" in text


def test_the_line_of_a_fit_goes_through_its_points_and_ends_in_the_figure():
    (fit,) = pictures_of(evaluation())
    last = fit.numbers[-1]
    assert (last["images"], last["FID"], last["95 % interval"]) == ("∞, extrapolated", "7.50", "7.10 to 7.90")
    assert [line["FID"] for line in fit.numbers[:-1]] == ["11.70", "9.60", "8.55", "7.92"]


def test_pictures_of_an_earlier_page_go(tmp_path):
    write_evaluation_page(evaluation(), None, None, tmp_path)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["fit-fid_infinity-inception.svg"]
    without = evaluation()
    rows = [row for row in without.rows if not row.points]
    write_evaluation_page(without.model_copy(update={"rows": rows}), None, None, tmp_path)
    assert not list((tmp_path / "figures").iterdir())


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_it_fits(browser, page, width):
    browser.get(page.as_uri())
    assert fits(browser, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, page, axe_violations, scheme):
    browser.get(page.as_uri())
    assert axe_violations(browser, scheme) == []
    assert browser.get_log("browser") == []
