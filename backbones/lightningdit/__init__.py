"""LightningDiT."""
