"""Auxiliary losses, one per file."""
