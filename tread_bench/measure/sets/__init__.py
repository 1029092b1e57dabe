"""Image sets on disk: samples to be scored, and the references that they are compared with."""
