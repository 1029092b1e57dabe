"""Gated DeltaNet."""
