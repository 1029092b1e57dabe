"""ELIT."""
