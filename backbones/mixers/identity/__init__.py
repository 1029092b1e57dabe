"""No mixer."""
