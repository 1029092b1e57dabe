"""Fréchet distance of each class."""
