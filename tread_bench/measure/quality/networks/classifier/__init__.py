"""Small classifiers: those of digits and glyphs, and those that `tread-bench features` trains."""
