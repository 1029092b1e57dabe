"""Random samples in place of files that a smoke run lacks."""
