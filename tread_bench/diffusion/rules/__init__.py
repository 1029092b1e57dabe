"""Guidance rules: which two branches are combined. No torch."""
