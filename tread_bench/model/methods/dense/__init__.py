"""Every token passes every block."""
