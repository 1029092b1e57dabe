"""Auxiliary losses, one per folder."""
