"""Kernel distance of features."""
