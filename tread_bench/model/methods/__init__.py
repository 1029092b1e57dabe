"""Methods, one per folder."""
