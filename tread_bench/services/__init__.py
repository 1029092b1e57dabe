"""What commands and the Python interface do: plain arguments and a display in, results out."""
