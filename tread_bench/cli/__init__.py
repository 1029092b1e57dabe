"""The command line: a file per command. Results go to stdout, progress and errors to stderr."""
