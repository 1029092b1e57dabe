"""Dropped tokens come back as the mean of the others."""
