"""MaskDiT's loss on tokens that bypass a route."""
