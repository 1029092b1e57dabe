"""REPA."""
