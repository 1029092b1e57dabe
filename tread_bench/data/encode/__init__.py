"""Images to latents, by an autoencoder of diffusers."""
