"""From YAML to a plan: reading, merging, resolving and checking suites, every mistake with its place. No torch."""
