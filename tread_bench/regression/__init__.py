"""Is this version worse? Baselines, versions timed in turn, and histories of many runs. No torch."""
