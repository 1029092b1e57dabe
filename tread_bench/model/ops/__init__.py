"""Operators: pure functions of tensors."""
