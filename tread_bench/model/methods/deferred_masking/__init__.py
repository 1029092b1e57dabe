"""Deferred masking."""
