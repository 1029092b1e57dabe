"""Checks of what only a whole cell shows."""
