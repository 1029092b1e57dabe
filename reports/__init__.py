"""Records to tables, figures, HTML and CSV."""

SMOKE_RUN = (
    "Every cell was cut down to a few iterations and samples, to show that everything works. Its figures say nothing "
    "about quality or speed: nothing is ranked, and there is no verdict."
)
