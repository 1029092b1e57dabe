"""Pages: of a run, of two runs side by side, of an evaluation."""
