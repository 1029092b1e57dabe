"""DiT and SiT."""
