"""A file per command: its options, and what they are handed to. Nothing heavy is imported before a command runs."""
