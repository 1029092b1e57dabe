"""Fixed random vectors, one for each word."""
