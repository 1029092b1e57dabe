"""Backbones: one folder per family, and code that families share."""
