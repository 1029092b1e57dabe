"""MaskDiT's loss on tokens that were left out."""
