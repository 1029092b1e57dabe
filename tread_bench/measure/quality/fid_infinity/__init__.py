"""Fréchet distance extrapolated to infinitely many images."""
