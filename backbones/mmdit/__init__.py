"""MMDiT."""
