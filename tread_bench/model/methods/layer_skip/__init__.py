"""Samples that skip blocks, a control."""
