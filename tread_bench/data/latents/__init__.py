"""Latents of an autoencoder, in safetensors files."""
