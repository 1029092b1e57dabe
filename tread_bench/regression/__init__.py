"""Is this version worse? A run against accepted figures. No torch."""
