"""Diffusion-RWKV."""
