"""Inception v3, as torch-fidelity has it."""
