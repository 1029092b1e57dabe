"""Pages: of a run or several, of an evaluation."""
