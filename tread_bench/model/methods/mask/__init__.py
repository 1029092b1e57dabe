"""MaskDiT."""
