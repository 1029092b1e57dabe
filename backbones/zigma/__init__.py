"""ZigMa."""
