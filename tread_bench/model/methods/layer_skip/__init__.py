"""Samples that skip blocks."""
