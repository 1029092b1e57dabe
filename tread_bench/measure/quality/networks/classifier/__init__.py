"""Small classifiers: the one of digits, and those that `tread-bench features` trains."""
