"""Two versions of this program, timed in turn on one machine. What is timed is the command line, which both have."""
