"""Figures of image sets: feature networks, reference statistics and the metrics on them."""
