"""What all sources of image files share."""
