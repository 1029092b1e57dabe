"""What is compared: the records of a run as rows, one per configuration, in groups that may be ranked together."""
