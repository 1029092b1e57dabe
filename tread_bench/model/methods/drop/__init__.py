"""Token dropping."""
