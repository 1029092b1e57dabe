"""Pure functions of tensors."""
