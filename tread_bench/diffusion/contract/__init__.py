"""The contracts of objectives, samplers and guidance rules, as checks."""
