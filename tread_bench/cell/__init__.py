"""One cell's process: open, build, train, evaluate, time."""
