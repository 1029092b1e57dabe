"""What every backbone keeps to, as checks."""
