"""The gate: whether a run is worse than one that was accepted. No torch."""
