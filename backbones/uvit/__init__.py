"""U-ViT."""
