"""Feature networks: a folder each."""
