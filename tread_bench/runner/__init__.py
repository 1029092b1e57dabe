"""The run folder and who works on it: executors, progress, the speed phase. No torch."""
