"""Objectives, one per folder."""
