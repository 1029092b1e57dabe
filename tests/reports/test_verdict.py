"""The verdict claims what the figures carry and nothing else."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy import stats
from synthetic_records import FAMILIES, architectures, evaluation, failed, of_family, record, selectors, study

from tests.many_families import holm_of_each
from tread_bench.core.numbers.statistics import LEVEL, MeanInterval
from tread_bench.reports.claims.families import scope, statements, summary
from tread_bench.reports.claims.verdict import answers, detectable, smallest_difference
from tread_bench.reports.rows.architectures import side_by_side
from tread_bench.reports.rows.comparison import comparison, fids_against_best
from tread_bench.reports.tables.view import comparison_view
from tread_bench.reports.text.numbers import interval


def said(records):
    (found,) = answers(comparison(records))
    assert not (found.at_cost or found.disagreement or found.to_target or found.controls)
    quality, cost = found.at_iterations, found.cost
    assert (quality + cost).count(". ") == 0  # two sentences, one each
    assert quality.endswith(".") and cost.endswith(".")
    return quality, cost


def rows_of(**fids):
    """Five seeds of every row whose final FID is given; `dense` is the reference."""
    routes = {"dense": "", "a": "2:8@0.5", "b": "1:8@0.5", "c": "3:8@0.5"}
    return [
        record(name, routes[name], seed, 0.0, evaluations=[evaluation(1200, fid + shift)])
        for name, values in fids.items()
        for seed, (fid, shift) in enumerate(zip(values, (0, 1, 2, 3, 4), strict=False))
    ]


def test_the_study():
    quality, cost = said(study())
    assert "Of 6 routes, 4:8 has the lowest FID" in quality and "5 seeds" in quality
    assert "not significantly different from dense" in quality and "better" not in quality
    assert "saves 20 % of the forward MACs" in cost and "1.12 times as fast" in cost and "1.25 by MACs" in cost


# a - dense of the third: -2, -1, -2.5, 0, -2: mean -1.5, s = 1, t = -3.35, p = 0.028, doubled by Holm
CLAIMS = {
    "better than dense, by 5.00 FID": {"a": [15, 15.1, 15, 14.9, 15], "b": [19] * 5},
    "its quality is worse than dense, by 5.04 FID": {"a": [25, 25.2, 24.9, 25, 25.1]},
    "not significant among so many rows (Holm-adjusted)": {"a": [18, 19, 17.5, 20, 18], "b": [22, 18, 22.5, 17, 21.2]},
    "not significantly different from dense": {"a": [15, 26, 14, 25, 18], "b": [30] * 5},
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_better_and_worse_are_claimed_where_interval_and_holm_allow_it(claim):
    quality, _ = said(rows_of(dense=[20] * 5, **CLAIMS[claim]))
    assert claim in quality
    assert [word for word in ("better", "worse") if word in quality] == re.findall("better|worse", claim)


def test_runners_up_are_named():
    a, b, c = [15, 16, 15, 16, 15], [16, 15, 16, 15, 16], [16, 15, 16, 16, 15]
    assert ", not distinguishable from b;" in said(rows_of(dense=[20] * 5, a=a, b=b))[0]
    assert ", not distinguishable from any other route;" in said(rows_of(dense=[20] * 5, a=a, b=b, c=c))[0]
    far = [25, 25.1, 24.9, 25, 25.2]
    assert ", significantly lower than that of every other route;" in said(rows_of(dense=[20] * 5, a=a, b=far))[0]


def test_the_sentence_and_the_marks_of_the_table_name_the_same_rows():
    rows = comparison(rows_of(dense=[20, 20.4, 19.8, 20.1, 20], a=[15] * 5, b=[16, 15.5, 15, 16.5, 17], c=[19] * 5))
    marked = {row.name for row in rows if row.is_among_lowest_fid}
    (found,) = answers(rows)
    alike = found.at_iterations.partition("not distinguishable")[2].partition(";")[0]
    named = {name for name in "bc" if f"{name} (" in alike}
    assert [row.name for row in rows if row.is_lowest_fid] == ["a"] and marked - {"a"} == named


def test_a_route_of_two_seeds_is_not_called_the_lowest_where_dense_is_lower():
    """The third seed is hard; what the route has is not enough to tell it from the others."""
    records = rows_of(dense=[20, 24, 61], a=[20.1, 25], b=[22, 23.5, 64])
    rows = comparison(records)
    assert min(rows, key=lambda row: row.fid.mean).name == "a" and all(row.is_among_lowest_fid for row in rows)
    assert [row.name for row in rows if row.is_lowest_fid] == ["dense"]
    quality, _ = said(records)
    assert quality.startswith("Of 2 routes, a has the lowest FID, though above that of dense: 23.05")
    below, _ = said(rows_of(dense=[20, 24, 61], a=[19.9, 23], b=[22, 23.5, 64]))
    assert below.startswith("Of 2 routes, a has the lowest FID: ")


def test_rows_that_start_from_weights_of_another_row_are_not_ranked_with_those_of_drawn_weights():
    """The row that they start from has the lowest FID of all, after as many iterations on the same data."""

    def started(one):
        training = one.config["training"] | {"start": {"row": "dense", "iteration": 1200, "run": None}}
        changes = {"row": f"tuned-{one.row}", "cell": f"tuned-{one.cell}", "reference": f"tuned-{one.reference}"}
        return one.model_copy(update=changes | {"config": one.config | {"training": training}})

    drawn = rows_of(dense=[15, 15.1, 15, 14.9, 15], a=[17] * 5)
    tuned = map(started, rows_of(dense=[20] * 5, a=[18] * 5))
    lost = started(failed("b", "1:8@0.5", 0, "diverged"))
    rows = comparison([*drawn, *tuned, lost])
    sets = [{row.name for row in members} for members in side_by_side(rows)]
    assert sets == [{"dense", "a"}, {"tuned-dense", "tuned-a", "tuned-b"}]
    assert {row.name for row in rows if row.is_lowest_fid} == {"dense", "tuned-a"}
    assert {row.name for row in rows if row.is_among_lowest_fid} == {"dense", "tuned-a"}
    of_drawn, of_tuned = answers(rows)
    assert of_tuned.at_iterations.startswith("tuned-a has an FID of ") and "better than tuned-dense" in str(of_tuned)
    assert of_drawn.at_iterations.startswith("a has an FID of ") and "worse than dense" in of_drawn.at_iterations


def test_the_smallest_difference_that_the_seeds_could_show_is_what_separates_rows():
    noise = [0.01, -0.02, 0.03, -0.01, -0.01]

    def rows(above):
        fids = {"a": [20.0] * 5, "b": [20 * (1 + above) * math.exp(e) for e in noise]}
        return comparison([
            record(name, f"{k}:8@0.5", seed, 0.0, evaluations=[evaluation(1200, fid)])
            for k, (name, values) in enumerate(fids.items()) for seed, fid in enumerate(values)
        ])  # fmt: skip

    share = float(smallest_difference(rows(0.1)).removesuffix(" %")) / 100
    assert 0.01 < share < 0.1
    assert ", not distinguishable from b" in answers(rows(share - 0.002))[0].at_iterations
    assert ", significantly lower than that of every other route" in answers(rows(share + 0.002))[0].at_iterations
    assert smallest_difference(comparison(study(1))) == "none of any size"
    assert smallest_difference(comparison([record("dense", "", 0, 20.0)])) == detectable([]) == ""
    said = detectable([("", comparison(study()))])
    assert re.fullmatch(r"Smallest difference .* detected: \S+( \S+)* \(Hsu’s multiple .* at 5 %\)\.", said)


def test_what_two_seeds_cannot_say_is_not_said_in_impossible_figures():
    records = rows_of(dense=[20, 22], a=[2, 5], b=[18, 25])
    rows = comparison(records)
    quality, _ = said(records)
    assert "lowest FID: 4.00 (95 % interval up to 29.41, 2 seeds)" in quality
    shown = {row.name: cells for row, cells in comparison_view(rows).rows}
    assert shown["a"][1].below == "up to 29.41" and shown["a"][1].bounds[0] < 0
    smallest = smallest_difference(rows)
    assert re.fullmatch(r"more than that FID itself, at [\d.,]+ times the lowest", smallest)
    assert float(smallest.split()[-4].replace(",", "")) == pytest.approx(1 + fids_against_best(rows).smallest, abs=0.05)


def test_an_interval_of_what_may_be_negative_keeps_its_lower_end():
    wide, below = MeanInterval(4.0, -21.4, 29.4, 2), MeanInterval(-0.1, -0.3, 0.1, 2)
    assert interval(wide) == "up to 29.40" and interval(below) == "−0.30 to 0.10"
    assert interval(wide, signed=True) == "−21.40 to +29.40"
    assert interval(wide, can_be_negative=True) == "−21.40 to 29.40"


def test_one_seed_settles_nothing():
    quality, _ = said(study(seeds=1))
    assert "one seed, so no interval" in quality and "too few to decide" in quality


def test_without_dense_neither_gain_nor_loss_is_said():
    quality, _ = said([r for r in study() if r.row != "dense"])
    assert "it has no finished dense row" in quality and "better or worse than dense cannot be said" in quality


def test_all_failed():
    quality, cost = said([failed("2:8", "2:8@0.5", s, "diverged") for s in range(3)])
    assert "No cell" in quality and "Failed: 3 cells" in cost


def test_no_fid():
    cells = (("dense", ""), ("2:8", "2:8@0.5"))
    quality, cost = said([record(row, routes, 0, 1.0, evaluations=[evaluation(1200, None)]) for row, routes in cells])
    assert "FID was not measured" in quality and cost.startswith("2:8 saves")


def test_only_dense():
    quality, cost = said([record("dense", "", s, 17.0) for s in range(3)])
    assert "No row other than dense finished" in quality and "not known" in cost


@pytest.mark.parametrize(
    ("speedup", "words"), [(1.0, "not distinguishable from dense in speed"), (0.8, "0.80 times as fast")]
)
def test_speed_is_not_talked_up(speedup, words):
    _, cost = said([record("dense", "", 0, 17.0), record("2:8", "2:8@0.5", 0, 18.0, speedup)])
    assert words in cost


def test_speed_that_was_not_measured():
    _, cost = said([record("dense", "", 0, 17.0), record("2:8", "2:8@0.5", 0, 18.0, timing=None)])
    assert "its speed was not measured" in cost


def families(records):
    (rows,) = side_by_side(comparison(records))
    return summary(rows), scope(rows), {name: (params, said) for name, params, said in statements(rows)}


def test_each_family_is_judged_against_its_own_dense_row():
    quality, limits, said = families(architectures(8))
    assert "better than dense training in DRWKV, LightningDiT and U-ViT" in quality
    assert "not significantly different from dense in ZigMa; worse than dense in DiS and DiT." in quality
    assert "not ranked" in limits and "0.868M to 0.941M" in limits
    assert said["DiS"][0] == "0.902M parameters" and "worse than dense, by 3.02 FID" in said["DiS"][1]
    assert "1.19 times as fast" in said["DiT"][1] and "lowest" not in said["DiT"][1]


def with_differences(differences):
    """Every family's dense row at an FID of 20 and its routed one above it by a difference per seed."""
    return [
        _TEMPLATES[family, selector].model_copy(
            update={
                "seed": seed,
                "cell": f"{family}-{selector}-{seed}",
                "reference": f"{family}--{seed}",
                "evaluations": [evaluation(1200, 20.0 + (difference if selector else 0.0))],
            }
        )
        for family, seeds in zip(FAMILIES, differences, strict=False)
        for seed, difference in enumerate(seeds)
        for selector in ("", "random")
    ]


_BARE = {"timing": None, "similarity": None, "gradient_norms": None}
_TEMPLATES = {(f, s): of_family(f, 0, s).model_copy(update=_BARE) for f in FAMILIES for s in ("", "random")}


@pytest.mark.parametrize("sign", [1, -1])
def test_what_one_of_six_architectures_shows_by_chance_is_no_gain_and_no_loss(sign):
    """p = 0.028, unadjusted: significant alone, and not among six."""
    shown, still = [sign * d for d in (2, 1, 2.5, 0, 2)], [1, -1, 0.5, -0.5, 0]
    alone, _, _ = families(with_differences([shown, still]))
    six, limits, said = families(with_differences([shown, *[still] * 5]))
    assert "not significantly different from dense in DiT and U-ViT." in alone
    assert six.startswith("In FID, routing is not significantly different from dense in DRWKV") and "Holm" in limits
    assert "not significant among so many rows (Holm-adjusted)" in said["DiT"][1]
    clear, _, _ = families(with_differences([[sign * d for d in (5, 5.1, 4.9, 5, 5)], *[still] * 5]))
    assert ("better" if sign < 0 else "worse") + " than dense" in clear


def gives_a_verdict(differences):
    """Whether one of the architectures is better or worse than dense, (runs,), of (runs, architectures, seeds)."""
    return (holm_of_each(stats.ttest_1samp(differences, 0, axis=-1).pvalue) <= LEVEL).any(axis=1)


def test_a_verdict_is_given_where_the_tests_of_all_architectures_allow_one():
    differences = np.random.default_rng(11).normal(size=(24, 6, 5))
    differences[12:, 0] += 2.5
    leads = [summary(*side_by_side(comparison(with_differences(one)))) for one in differences]
    expected = gives_a_verdict(differences)
    assert [("better" in said or "worse" in said) for said in leads] == expected.tolist() and 3 < expected.sum() < 12


def test_six_architectures_without_an_effect_give_a_verdict_in_at_most_5_percent_under_normal_noise():
    trials = 2000
    share = gives_a_verdict(np.random.default_rng(11).normal(size=(trials, 6, 5))).mean()
    assert share <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


@pytest.mark.parametrize(("seeds", "expected"), [(3, 0.09), (5, 0.14), (10, 0.15)])
def test_skewed_noise_beside_a_dense_row_that_varies_less_gives_more(seeds, expected):
    """docs/methods/statistics.md says so of exponential noise, of which dense has a third."""
    noise = np.random.default_rng(11).exponential(size=(8000, 7, seeds)) - 1
    assert gives_a_verdict(noise[:, 1:] - noise[:, :1] / 3).mean() == pytest.approx(expected, abs=0.012)


def test_the_best_of_several_routed_rows_is_named_as_such():
    quality, _, said = families(selectors())
    assert quality.startswith("In FID, the best routed row is")
    assert said["ZigMa"][1].startswith("tread-strided, lowest FID of 5 routed rows")


def test_a_family_that_failed_keeps_its_line():
    lost = failed("tread backbone=U-ViT", "2:9@0.5", 0, "diverged")
    lost = lost.model_copy(update={"backbone": "U-ViT (depth 12)", "family": "U-ViT"})
    quality, _, said = families([r for r in architectures() if r.family != "U-ViT"] + [lost])
    assert quality.endswith("without a verdict in U-ViT.")
    assert said["U-ViT"][1] == "No routed row has an FID (1 cell not finished)."


def test_one_seed_of_every_family_settles_nothing():
    quality, _, said = families(architectures(seeds=1))
    assert quality.startswith("In FID, routing is without a verdict in DRWKV")
    assert all("too few to decide" in statement for _, statement in said.values())


def test_speed_of_a_family_is_not_talked_up():
    cells = [of_family("DiT", 0), of_family("ZigMa", 0), of_family("ZigMa", 0, "rows", timing=None)]
    *_, said = families([*cells, of_family("DiT", 0, "random", timing=of_family("DiT", 0).timing)])
    assert "not distinguishable from dense in speed" in said["DiT"][1]
    assert "its speed was not measured" in said["ZigMa"][1]
