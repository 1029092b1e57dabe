"""Noise in the shape of latents."""
