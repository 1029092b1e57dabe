"""Captions of images: read from where people keep them, encoded once, one drawn for each training sample."""
