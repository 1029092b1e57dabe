"""The contracts of metrics and feature networks, as checks."""
