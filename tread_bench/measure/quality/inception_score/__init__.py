"""Inception score."""
