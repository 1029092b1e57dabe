"""The rows of the table: a module per subject, a function per row."""
