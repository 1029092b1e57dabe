"""Routes whose rates depend on the noise level."""
