"""Pages: of a run, of two runs side by side, of a baseline's history, of an evaluation."""
