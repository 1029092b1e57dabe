"""Local data sets of Hugging Face's `datasets`."""
