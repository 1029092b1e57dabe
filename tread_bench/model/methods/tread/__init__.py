"""TREAD."""
