"""Grey discs, squares and crosses, drawn by sample number."""
