"""Image files in class folders."""
