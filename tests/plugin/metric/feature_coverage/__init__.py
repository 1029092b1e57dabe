"""Flow matching on a circular path."""
