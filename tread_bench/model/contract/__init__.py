"""The contracts of backbones, methods, losses and selectors, as checks."""
