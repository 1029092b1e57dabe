"""Records to tables, figures, HTML and CSV."""
