"""What is written to disk and read back: records, documents, what figures depend on, and where files may go."""
