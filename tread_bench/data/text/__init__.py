"""Text encoders: from captions to tokens."""
