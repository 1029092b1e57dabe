"""DDPM."""
