"""Fréchet distance of spatial features."""
