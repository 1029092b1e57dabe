"""Latents of the characters of matplotlib's fonts, by a small autoencoder that comes with this package."""
