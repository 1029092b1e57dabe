"""What ranks the places of a route as full trainings do: rank correlations, beside what each predictor costs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from tread_bench.reports.claims.predictors import Placements, Predictor
from tread_bench.reports.figures.forest import Column, dot, forest, still, write
from tread_bench.reports.figures.picture import Picture, picture_of
from tread_bench.reports.figures.style import BETTER, INK, MUTED, clean
from tread_bench.reports.text.numbers import DASH, number, words

_NAME = 44  # characters


def predictors(found: Sequence[Placements]) -> Picture | None:
    """Draw each predictor's rank correlation with the final loss and FID of other seeds, by architecture."""
    if not found:
        return None
    numbers = [_numbers(study, predictor) for study in found for predictor in (study.ceiling, *study.predictors)]
    return picture_of("predictors", _figure(found), numbers, found=found)


def _numbers(study: Placements, predictor: Predictor) -> dict[str, str]:
    return {
        "predictor": predictor.name,
        "architecture": study.architecture,
        "places": str(study.places),
        "costs, in dense trainings": number(predictor.costs),
        "with the final loss": words(predictor.correlations["validation_loss"], nothing="not known"),
        "given the number of blocks": words(predictor.beyond_blocks, nothing=DASH),
        "with the final FID": words(predictor.correlations["fid"], nothing="not known"),
    }


def _figure(found: Sequence[Placements]) -> Figure:
    lines = [[study.ceiling, *study.predictors] for study in found]
    names = [[clean(predictor.name, _NAME) for predictor in each] for each in lines]
    columns = [Column(0.5), Column(0.5), Column(0.5), Column(0.9, "trainings")]
    figure, panels = forest(names, columns)
    for study, each, (loss, beyond, fid, costs) in zip(found, lines, panels, strict=True):
        for y, predictor in enumerate(each):
            of = predictor.correlations
            for axes, estimate in ((loss, of["validation_loss"]), (beyond, predictor.beyond_blocks), (fid, of["fid"])):
                if estimate:
                    colour = BETTER if estimate.is_above(0) else INK
                    dot(axes, y, estimate.mean, estimate.bounds, colour, "o" if y else "D")
            write(costs, y, number(predictor.costs), MUTED)
        for axes in (loss, beyond, fid):
            still(axes, 0)
            axes.set(xlim=(-1.05, 1.05), xticks=(-0.5, 0, 0.5, 1))
        loss.set_title(clean(study.architecture, _NAME), loc="left")
        loss.set_xlabel("rank correlation\nwith the final loss")
        beyond.set_xlabel("the same, given\nthe number of blocks")
        fid.set_xlabel("rank correlation\nwith the final FID")
    return figure
