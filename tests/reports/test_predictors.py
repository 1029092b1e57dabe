"""What the page says of cheap measurements that may tell good places of a route from bad ones."""

from __future__ import annotations

import html
import random

import numpy as np
import pytest
from synthetic_records import cost, gradient_norms, record, render, similarity

from tread_bench.core.numbers.ranks import FEWEST
from tread_bench.core.stored.records import GradientNorms, Similarity
from tread_bench.reports.claims.predictors import placements
from tread_bench.reports.figures.predictors import predictors
from tread_bench.reports.figures.style import theme
from tread_bench.reports.rows.comparison import comparison
from tread_bench.reports.text.sentences import say

PLACES = [(first, last) for first in range(4) for last in range(6, 10)]


def network(worth, *, depth=12, seeds=2, places=PLACES, noise=0.0, measured=None, schedule=None):
    """Dense, a short dense training and every place, whose final loss is that of dense and `worth`, beside noise.

    Args:
        worth: of (first, last) block.
        measured: of (first, last), 1 - the similarity of their outputs in the short dense training.
    """
    named = {"backbone": f"DiT (depth {depth}, hidden 64, heads 4, patch 2)", "num_blocks": depth}
    budget = {"budget": {"macs_of": f"dense depth={depth}"}}
    found = []
    for seed in range(seeds):
        drawn = random.Random(f"{depth} {seed}")

        def made(row, routes, loss, length, seed=seed):
            one = record(f"{row} depth={depth}", routes, seed, 20.0, **named)
            first, last = one.evaluations
            ends = [first, last.model_copy(update={"iteration": length, "validation_loss": loss, "fid": 50 * loss})]
            config = {
                **one.config,
                "training": {"iterations": length, "batch": 64, **(budget if routes else {})},
                "metrics": {"at": [400, length]},
            } | (schedule if routes and schedule else {})
            return one.model_copy(
                update={
                    "cell": f"{depth}-{row}-{seed}", "reference": f"{depth}-dense-{seed}", "config": config,
                    "cost": cost(routes, depth), "similarity": similarity(routes, depth),
                    "gradient_norms": gradient_norms(routes, seed, depth), "evaluations": ends,
                }
            )  # fmt: skip

        found.append(made("dense", "", 0.3, 1200))
        short = made("short", "", 0.9, 120)
        matrix = np.eye(depth)
        for first, last in places:
            matrix[first, last] = 1 - (measured or worth)((first, last))
        alike = Similarity(**{**short.similarity.model_dump(), "matrix": matrix.tolist()})
        last = short.evaluations[-1].model_copy(update={"iteration": 120, "training_macs": 1e6})
        found.append(short.model_copy(update={"similarity": alike, "evaluations": [last]}))
        for first, last in places:
            loss = 0.5 + worth((first, last)) + noise * drawn.gauss(0, 1)
            length = 1200 + 10 * (last - first)  # to equal training MACs
            found.append(made(f"at {first}:{last}", f"{first}:{last}@0.5", loss, length))
    return found


def arbitrary(place):
    return random.Random(str(place)).random()


def by_name(study):
    return {one.name: one for one in study.predictors}


def test_what_measures_the_outcome_ranks_the_places_and_what_does_not_does_not():
    (study,) = placements(comparison(network(arbitrary)))
    assert (study.places, study.seeds) == (16, 2)
    found = by_name(study)
    assert found["layer similarity"].correlations["validation_loss"].mean == pytest.approx(1)
    assert found["layer similarity"].correlations["fid"].mean == pytest.approx(1)
    assert [name for name, one in found.items() if one.ranks_places] == ["layer similarity"]
    assert study.ceiling.correlations["validation_loss"].mean == pytest.approx(1)


def test_a_measurement_that_is_wrong_about_the_sign_does_not_count():
    (study,) = placements(comparison(network(lambda place: -arbitrary(place), measured=arbitrary)))
    found = by_name(study)["layer similarity"]
    assert found.correlations["validation_loss"].mean == pytest.approx(-1)
    assert not found.ranks_places and found.ranks_in_reverse
    said = say("predictors", "answer", study=study)
    assert said.endswith("The order is the reverse of what was expected by layer similarity.")


def blocks(place):
    return place[1] - place[0]


def test_what_only_counts_blocks_predicts_and_is_not_shown_to_say_more(tmp_path):
    def counting(place):
        return blocks(place) + arbitrary((place, "of no use")) / 2

    records = network(lambda place: blocks(place) + arbitrary(place) / 2, measured=counting)
    (study,) = placements(comparison(records))
    found = by_name(study)["layer similarity"]
    assert found.ranks_places
    assert not found.is_more_than_a_number_of_blocks
    assert by_name(study)["blocks bypassed"].beyond_blocks is None
    text = html.unescape(render(records, {}, tmp_path))
    assert "any training, and layer similarity and gradient in the route are not shown to say more" in text


def test_too_few_places_of_equally_many_blocks_say_nothing_beyond_that_number(tmp_path):
    """Nine places of five numbers of blocks leave five, where eight are needed."""
    few = [(first, last) for first in range(3) for last in range(7, 10)]
    records = network(lambda place: blocks(place) + arbitrary(place) / 100, places=few, measured=blocks)
    (study,) = placements(comparison(records))
    assert by_name(study)["gradient in the route"].beyond_blocks is None
    text = html.unescape(render(records, {}, tmp_path))
    assert "It is predicted by blocks bypassed" in text and "shown to say more" not in text


def test_what_ranks_places_of_equally_many_blocks_says_more(tmp_path):
    records = network(lambda place: blocks(place) + 3 * arbitrary(place), noise=0.01)
    (study,) = placements(comparison(records))
    found = by_name(study)["layer similarity"]
    assert found.beyond_blocks.mean == pytest.approx(1, abs=0.02)
    assert found.is_more_than_a_number_of_blocks
    assert study.ceiling.beyond_blocks.mean == pytest.approx(1, abs=0.02)
    text = html.unescape(render(records, {}, tmp_path))
    assert "Among places that bypass equally many blocks, layer similarity still does." in text


def test_longer_routes_are_expected_to_be_worse():
    (study,) = placements(comparison(network(lambda place: place[1] - place[0], measured=arbitrary)))
    assert by_name(study)["blocks bypassed"].correlations["validation_loss"].mean == pytest.approx(1)


def test_a_share_of_the_gradient_counts_the_blocks_of_the_route_alone():
    records = network(arbitrary)
    norms = [1.0, 2.0, 4.0, 8.0, 16.0, *[0.0] * 7]
    share = {(first, last): sum(norms[first : last + 1]) / sum(norms) for first, last in PLACES}
    records = [
        one.model_copy(
            update={
                "gradient_norms": GradientNorms(training=norms, dense=norms, batches=1),
                "evaluations": [
                    *one.evaluations[:-1],
                    one.evaluations[-1].model_copy(update={"validation_loss": share.get(spans(one), 0.1)}),
                ],
            }
        )
        for one in records
    ]
    (study,) = placements(comparison(records))
    assert by_name(study)["gradient in the route"].correlations["validation_loss"].mean == pytest.approx(1)


def spans(one):
    return tuple(map(int, one.routes.partition("@")[0].split(":"))) if one.routes else None


def test_trainings_that_do_not_agree_leave_nothing_to_predict():
    (study,) = placements(comparison(network(lambda place: 0.0, noise=0.1, measured=arbitrary)))
    assert study.ceiling.correlations["validation_loss"].low < 0
    assert not any(one.ranks_places for one in study.predictors)


def test_costs_are_counted_in_dense_trainings():
    records = network(arbitrary)
    (study,) = placements(comparison(records))
    found = by_name(study)
    (dense,) = [one.last.training_macs for one in records if one.row == "dense depth=12" and one.seed == 0]
    early = [one.evaluations[0].training_macs for one in records if one.routes and one.seed == 0]
    whole = [one.last.training_macs for one in records if one.routes and one.seed == 0]
    assert found["blocks bypassed"].costs == 0
    assert found["layer similarity"].costs == found["gradient in the route"].costs == pytest.approx(1e6 / dense)
    assert found["first validation loss"].costs == pytest.approx(sum(early) / dense)
    assert study.ceiling.costs == pytest.approx(sum(whole) / dense)


def of_two_depths():
    """A network, and one of twice the depth in which the same shares of it are as good."""

    def twice(place):
        return 2 * place[0], 2 * place[1] + 1

    deep = network(
        lambda place: arbitrary((place[0] // 2, place[1] // 2)), depth=24, places=[*map(twice, PLACES)],
        measured=lambda place: 0.5 * arbitrary((place, "other")),
    )  # fmt: skip
    return network(arbitrary, places=PLACES), deep


def test_a_smaller_network_predicts_the_same_shares_of_the_depth():
    small, deep = of_two_depths()
    studies = placements(comparison([*small, *deep]))
    names = [[name for name in by_name(study) if "the same" in name] for study in studies]
    assert names == [[], ["the same in DiT (depth 12)"]]
    (proxy,) = [one for one in studies[1].predictors if "the same" in one.name]
    assert proxy.correlations["validation_loss"].mean == pytest.approx(1)
    assert proxy.ranks_places


def test_a_smaller_network_that_lacks_a_place_is_said_to_be_not_known():
    (*small, lost), deep = of_two_depths()
    lacking, whole = placements(comparison([*small, *deep]))
    (proxy,) = [one for one in whole.predictors if "the same" in one.name]
    assert proxy.correlations["validation_loss"] is None and not proxy.ranks_places
    said = say("predictors", "answer", study=whole)
    assert "No cheaper measurement is shown to predict it" in said and "the same in DiT (depth 12) not known" in said
    told = say("predictors", "answer", study=lacking)
    assert f"Over 15 places of a route in DiT (depth 12), without {lost.row}, not all of whose seeds have " in told


def test_a_seed_that_few_places_have_yet_leaves_the_others_in():
    records = network(arbitrary)
    (early,) = [one for one in records if one.row == records[-1].row and one.seed == records[-1].seed]
    more = early.model_copy(update={"seed": 7, "cell": "another", "config": early.config | {"seed": 7}})
    (study,) = placements(comparison([*records, more]))
    assert (study.places, study.seeds, study.left_out) == (16, 2, [])


def test_other_places_of_a_smaller_network_predict_nothing():
    small = network(arbitrary)
    deep = network(arbitrary, depth=24)  # the same blocks, which are other shares
    assert not any(
        "the same" in one.name for study in placements(comparison([*small, *deep])) for one in study.predictors
    )


@pytest.mark.parametrize("other", ["family", "data"])
def test_a_network_of_another_family_or_on_other_data_is_no_smaller_one(other):
    def twice(place):
        return 2 * place[0], 2 * place[1] + 1

    deep = network(lambda place: arbitrary((place[0] // 2, place[1] // 2)), depth=24, places=[*map(twice, PLACES)])
    small = [
        one.model_copy(
            update={"family": "SiT"} if other == "family" else {"config": one.config | {"data": {"name": "glyphs"}}}
        )
        for one in network(arbitrary)
    ]
    found = placements(comparison([*small, *deep]))
    assert len(found) == 2
    assert not any("the same" in one.name for study in found for one in study.predictors)


@pytest.mark.parametrize(
    "records",
    [
        network(arbitrary, seeds=1),
        network(arbitrary, places=PLACES[: FEWEST - 1]),
        [one for one in network(arbitrary) if one.routes],
        network(arbitrary, schedule={"schedule": {"until": 0.9}}),
    ],
    ids=["one seed", "too few places", "without dense", "with a schedule"],
)
def test_without_enough_that_differs_in_the_place_alone_nothing_is_said(records):
    assert placements(comparison(records)) == []


def test_rows_that_differ_in_more_than_their_place_are_not_taken_together():
    records = network(arbitrary)
    half = {f"{first}:{last}@0.5" for first, last in PLACES[:7]}
    others = [
        one.model_copy(update={"config": {**one.config, "objective": {"name": "edm"}}}) if one.routes in half else one
        for one in records
    ]
    (study,) = placements(comparison(others))
    assert study.places == 9


def test_a_place_that_failed_is_left_out():
    records = network(arbitrary)
    records[-1] = records[-1].model_copy(update={"status": "failed", "reason": "DivergedError: the loss is NaN"})
    (study,) = placements(comparison(records))
    assert study.places == 15


def test_a_dense_training_that_was_not_evaluated_at_its_end_is_no_reference():
    records = [
        one.model_copy(update={"evaluations": one.evaluations[:1]}) if one.row.startswith("dense") else one
        for one in network(arbitrary)
    ]
    assert placements(comparison(records)) == []


def test_more_predictors_have_wider_intervals():
    """They hold together: the level is divided by all that the page tries."""
    one = placements(comparison(network(arbitrary)))
    both = placements(comparison([*network(arbitrary), *network(arbitrary, depth=24)]))
    alone, beside = (by_name(found[0])["blocks bypassed"].correlations["validation_loss"] for found in (one, both))
    assert alone.mean == beside.mean
    assert beside.low < alone.low


def test_the_page_says_what_predicts_the_order_and_draws_it(tmp_path):
    text = html.unescape(render(network(arbitrary), {}, tmp_path))
    assert (
        "Over 16 places of a route in DiT (depth 12, hidden 64, heads 4, patch 2), trainings with other seeds agree"
        in text
    )
    assert "It is predicted by layer similarity (+1.00 [" in text
    assert (tmp_path / "figures" / "predictors.svg").exists()
    assert "Choosing a place" in text


def test_dense_trainings_alone_come_after_what_is_compared(tmp_path):
    """The short ones of two networks are evaluated at an iteration of their own."""
    text = html.unescape(render([*network(arbitrary), *network(arbitrary, depth=24)], {}, tmp_path))
    titles = [title for title in ("iteration 120", "iteration 1,200") if title in text]
    assert sorted(titles, key=text.index) == ["iteration 1,200", "iteration 120"]


def test_the_page_says_that_nothing_predicts_it(tmp_path):
    text = html.unescape(render(network(arbitrary, measured=lambda place: arbitrary((place, "other"))), {}, tmp_path))
    assert "No cheaper measurement is shown to predict it as expected: blocks bypassed" in text


def test_the_picture_has_every_predictor_and_what_it_costs():
    with theme():
        picture = predictors(placements(comparison(network(arbitrary))))
    names = [line["predictor"] for line in picture.numbers]
    assert names == [
        "full trainings",
        "blocks bypassed",
        "layer similarity",
        "gradient in the route",
        "first validation loss",
    ]
    assert predictors([]) is None
