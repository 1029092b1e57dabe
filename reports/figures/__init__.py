"""The pictures of a run, one per file, and what they share."""
