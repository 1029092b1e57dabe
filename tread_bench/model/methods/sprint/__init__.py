"""SPRINT."""
