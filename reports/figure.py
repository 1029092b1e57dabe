"""What a figure shows; `figures.draw` is how it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What to draw, from the lines of a frame that were chosen for it.

    Args:
        lines: with the columns that are named here, and `row`, which the numbers begin with; `is_dense`, where it is
            there, gives a line the look of dense rows.
        x, y: columns. Where `y` holds names it is a forest: a line for each, from top to bottom.
        hue: the column that tells lines of one panel apart.
        panel: the column that tells panels apart; "": one panel.
        low, high: columns with the ends of an interval; "": the 95 % t interval of lines that share all else.
        ideal: a column with what is to be expected, drawn as a tick or a dashed line.
        still: where nothing changes.
        logarithmic: axes, such as "x" or "xy".
        highest_first: whether the lines of highest figures are the ones to draw where there are too many.
        extra: columns that only the numbers show, by the header there.
        titles: of columns, on axes and in the numbers.
    """

    name: str
    title: str
    caption: str
    lines: pd.DataFrame
    x: str
    y: str
    hue: str = "name"
    panel: str = ""
    low: str = ""
    high: str = ""
    ideal: str = ""
    still: float | None = None
    logarithmic: str = ""
    highest_first: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_forest(self) -> bool:
        """Whether it has a line for each name of `y`."""
        return not pd.api.types.is_numeric_dtype(self.lines[self.y])

    @property
    def value(self) -> str:
        """The column that is measured."""
        return self.x if self.is_forest else self.y

    @property
    def place(self) -> str:
        """The column of the other axis."""
        return self.y if self.is_forest else self.x
