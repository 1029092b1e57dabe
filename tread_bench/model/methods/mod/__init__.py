"""Mixture-of-Depths."""
