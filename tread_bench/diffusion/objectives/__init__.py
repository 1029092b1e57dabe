"""What a network learns: objectives, one per file."""
