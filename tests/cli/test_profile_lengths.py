"""`profile --tokens`: which networks, how large a batch, what does not fit, and what is said and drawn of the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from pydantic import model_validator

from tests.command_line import tread_bench
from tread_bench.backbones.dit.family import DIT, DiTSpec
from tread_bench.core.describe.families import families
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import cost_figures
from tread_bench.core.stored.records import TimingFigures
from tread_bench.services import lengths
from tread_bench.services.lengths import LengthsRequest, profile_lengths

GIB = 2**30


def request(tokens="64:1024", family="DiT", **changes):
    given = {"routes": (), "selector": "random", "is_timed": False, "batch": None, "device": "cpu", **changes}
    return LengthsRequest(family, tokens, **given)


@pytest.fixture
def free(monkeypatch):
    """Says how much memory is free."""

    def say(free_bytes):
        monkeypatch.setattr(lengths.psutil, "virtual_memory", lambda: SimpleNamespace(available=free_bytes))

    say(1000 * GIB)
    return say


@pytest.fixture
def timed(monkeypatch):
    """Steps of 2 µs per token, and of a third of a µs more for every 64 tokens of softmax attention; routed, half."""
    calls = []

    def time_backbone(family, spec, routes, selector, batch, device, timing):
        calls.append((spec.num_tokens, batch, bool(routes)))
        us = 2 + (spec.num_tokens / 192 if spec.attention == "softmax" else 0.5)
        dense_ms = [batch * spec.num_tokens * us / 1e3 * (1 + noise) for noise in (-0.01, 0.01)]
        speedup = 2.0 if routes else 1.0
        timing = TimingFigures(
            step_time_ms=sum(dense_ms) / 2 / speedup, step_time_low_ms=1, step_time_high_ms=1, images_per_s=1,
            speedup=speedup, speedup_low=speedup * 0.99, speedup_high=speedup * 1.01,
            step_times_ms=[ms / speedup for ms in dense_ms], reference_step_times_ms=dense_ms, batch=batch, warmup=1,
        )  # fmt: skip
        return {**timing.model_dump(), "device_name": "a machine"}

    monkeypatch.setattr("tread_bench.cell.speed.time_backbone", time_backbone)
    return calls


@pytest.mark.parametrize(
    ("batch", "images"),
    [(None, [32, 32, 16, 4, 1, 1]), (8, [8, 2, 1, 1, 1, 1]), (1024, [1024, 256, 64, 16, 4, 1])],
)
def test_a_batch_has_as_many_tokens_at_any_length_and_at_least_one_image(batch, images):
    asked = request(batch=batch)
    assert [asked.images(tokens, fewest=16) for tokens in (16, 64, 256, 1024, 4096, 16384)] == images


def test_each_family_is_counted_at_its_smallest_published_size_whatever_its_patch():
    lines = profile_lengths(request("64", "all")).lines
    sizes = {line["backbone"].split()[0] for line in lines}
    assert {"JiT-B/16", "DiT-S/2", "DiS-S/2", "U-ViT-S/2", "MMDiT-B/2-T2I", "ZigMa-S/1"} <= sizes
    assert {line["tokens"] for line in lines} == {64} and not any(line["problem"] for line in lines)
    assert next(line for line in lines if line["backbone"] == "JiT-B/16")["params"] > 130e6


def test_the_smallest_is_by_parameters_not_the_first(monkeypatch):
    published = {"large": {"hidden": 768, "heads": 12, "patch": 2}, "small": {"hidden": 192, "heads": 3, "patch": 4}}
    monkeypatch.setattr(lengths, "families", lambda: {"DiT": replace(DIT, published=published)})
    assert {line["backbone"] for line in profile_lengths(request("64", "all")).lines} == {
        "small softmax",
        "small linear",
    }


class SmallSpec(DiTSpec):
    """Of a network for images of at most 16 pixels."""

    @model_validator(mode="after")
    def _is_small(self):
        if self.image_size > 16:
            raise ValueError(f"image_size {self.image_size} must be at most 16")
        return self


def test_a_number_of_tokens_that_a_family_cannot_have_is_a_line_that_says_so(monkeypatch, tmp_path):
    small = replace(DIT, spec=SmallSpec, published={"DiT-S/2": {"patch": 2, "image_size": 16}})
    monkeypatch.setattr(lengths, "families", lambda: {"DiT": small})
    found = profile_lengths(request("64:256", "all", is_timed=False, tables=tmp_path / "drawn"))
    macs = [(line["tokens"], line["forward_macs_per_token"] is not None, line["problem"]) for line in found.lines]
    reason = "it cannot have so many tokens: image_size 32 must be at most 16"
    assert macs == [(64, True, None), (256, False, reason)] * 2
    assert (tmp_path / "drawn" / "macs_per_token.svg").is_file()


def test_routed_networks_are_counted_beside_dense_ones():
    found = profile_lengths(request(routes=("2:-2@0.5",)))
    for line in found.lines:
        ratio = line["routed_forward_macs_per_token"] / line["forward_macs_per_token"]
        assert ratio == pytest.approx(line["macs_ratio"]) and line["macs_ratio"] < 0.63
    # Linear attention costs as much as 65 tokens' of softmax attention: less from 256 of these on.
    assert [said.partition(",")[0] for said in found.sentences] == ["Dense", "Routed"]
    assert all("from 256 tokens on in DiT-S/2 (attention linear)" in said for said in found.sentences)


def test_what_costs_less_at_no_number_of_tokens_is_said_and_one_number_says_nothing():
    (said,) = profile_lengths(request("4:16")).sentences
    assert "at no number of tokens in DiT-S/2 (attention linear) [0.98 at 16]" in said
    assert profile_lengths(request("256")).sentences == []


def test_times_are_per_token_and_said_from_where_on_linear_time_pays(timed, monkeypatch, tmp_path):
    monkeypatch.setattr(lengths, "_too_large", lambda *_: "")
    tables = tmp_path / "drawn"
    found = profile_lengths(request("64:1024", is_timed=True, routes=("2:-2@0.5",), tables=tables))
    assert timed == [(n, batch, way) for n, batch in ((64, 32), (256, 16), (1024, 4)) for way in (False, True)] * 2
    for line in found.lines:
        us = 2 + (line["tokens"] / 192 if line["backbone"] == "DiT-S/2 softmax" else 0.5)
        assert line["dense_step_ms_per_token"] == pytest.approx(us / 1e3)
        assert line["step_ms_per_token"] == pytest.approx(us / 2e3)
        assert (line["speedup"], line["device_name"], line["problem"]) == (2.0, "a machine", None)
    *_, said = found.sentences
    assert "linear time pays from 256 tokens on in DiT-S/2 (attention linear)" in said
    names = {file.name for file in tables.iterdir()}
    kinds = ("svg", "png", "pdf", "csv", "md", "tex")
    assert {f"{name}.{kind}" for name in ("macs_per_token", "time_per_token") for kind in kinds} <= names


def test_steps_that_do_not_fit_are_not_begun_and_their_line_says_so(free, timed, capsys):
    """At 1,024 tokens DiT-S/2 keeps 4 images x 12 blocks x 6 heads x 1,024² weights of attention: 1.1 GiB, and more."""
    free(4 * GIB)
    found = profile_lengths(request("1024", is_timed=True, batch=4))
    problems = {(line["backbone"], line["tokens"]): line["problem"] for line in found.lines if line["problem"]}
    assert problems.keys() == {("DiT-S/2 softmax", 1024)}
    (problem,) = problems.values()
    assert problem.startswith("not timed: steps of 4 x 1,024 tokens need about ") and "4.0 GiB are free" in problem
    assert timed == [(1024, 4, False)]  # of linear attention
    assert problem in capsys.readouterr().err
    assert all(line["forward_macs_per_token"] for line in found.lines)


def test_memory_that_runs_out_all_the_same_ends_that_line_alone(monkeypatch):
    monkeypatch.setattr(lengths, "_too_large", lambda *_: "")

    def time_backbone(family, spec, *others):
        raise torch.OutOfMemoryError("CUDA out of memory") if spec.num_tokens == 256 else RuntimeError("a bug")

    monkeypatch.setattr("tread_bench.cell.speed.time_backbone", time_backbone)
    lines = profile_lengths(request("256", is_timed=True)).lines
    assert all("out of memory" in line["problem"] and line["step_ms_per_token"] is None for line in lines)
    with pytest.raises(RuntimeError, match="a bug"):
        profile_lengths(request("64", is_timed=True))


def test_a_caption_counts_in_what_is_predicted(free):
    """An MMDiT has 505 million parameters: 20 bytes each, in two networks."""
    free(int(18.8 * GIB))
    (line,) = profile_lengths(request("64", "MMDiT", is_timed=True, batch=1)).lines
    assert "need about" in line["problem"]


@pytest.mark.parametrize("tokens", ["-4:16", "0", "5:20", "16:4", "x", "1e2"])
def test_tokens_that_are_no_squares_are_refused(tokens):
    with pytest.raises(UserError, match=f"--tokens {tokens}: tokens lie on a square grid"):
        profile_lengths(request(tokens))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--family", "DiT", "--tokens", "16", "--num-classes", "0"], "leave --num-classes out"),
        (["--family", "DiT", "--tokens", "16", "--text-tokens", "0"], "leave --text-tokens out"),
        (["DiT-S/2", "--text-tokens", "0"], "name a trainer with --as"),
    ],
)
def test_an_option_without_effect_is_refused_also_where_it_is_0(given, told):
    done = tread_bench("profile", *given)
    assert done.returncode == 2 and told in " ".join(done.stderr.split())


def test_a_token_is_one_of_the_image_where_a_network_has_others_beside():
    """A U-ViT adds its time and its label: 18 tokens of a grid of 16."""
    (line,) = profile_lengths(request("16", "U-ViT")).lines
    spec = families()["U-ViT"].spec(**families()["U-ViT"].published[line["backbone"]] | {"image_size": 8})
    figures = cost_figures(families()["U-ViT"], spec)
    assert (spec.num_tokens, figures.dense_tokens, figures.image_tokens) == (16, 18, 16)
    assert line["forward_macs_per_token"] == figures.forward_macs / 16


def test_a_folder_of_others_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="contains mine"):
        profile_lengths(request("64", tables=tmp_path))
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.slow
def test_steps_are_timed_here(tmp_path):
    done = tread_bench("profile", "--family", "DiT", "--tokens", "16", "--batch", "1", "--train", "--json")
    lines = json.loads(done.stdout)
    assert [line["batch"] for line in lines] == [1, 1] and all(line["step_ms_per_token"] > 0 for line in lines)
    assert "[2/2] DiT-S/2 linear, 16 tokens" in done.stderr and "left" in done.stderr


def test_tables_need_numbers_of_tokens(tmp_path):
    done = tread_bench("profile", "DiT-S/2", "--tables", tmp_path / "new")
    assert done.returncode == 2 and "add --family and --tokens" in " ".join(done.stderr.split())
