"""Precision and recall."""
