"""The rules for every metric and every feature network, as checks."""
