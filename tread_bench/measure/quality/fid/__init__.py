"""Fréchet distance of features."""
