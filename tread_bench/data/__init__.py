"""Data sources, one file per layout."""
