"""What a network learns and how it is sampled: objectives, samplers and guidance."""
