"""Backbones, a folder per family, and what they share."""
