"""The run folder and who works on it: executors, progress, status, the speed phase. No torch."""
