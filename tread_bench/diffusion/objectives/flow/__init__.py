"""Flow matching."""
