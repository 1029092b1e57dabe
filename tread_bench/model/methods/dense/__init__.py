"""Dense training: every token passes every block."""
