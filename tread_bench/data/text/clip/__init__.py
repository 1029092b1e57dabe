"""CLIP's text model."""
