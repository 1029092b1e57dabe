"""From records to tables, figures, HTML and CSV."""
