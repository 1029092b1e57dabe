"""Samplers, one per file."""
