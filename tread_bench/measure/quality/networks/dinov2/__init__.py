"""DINOv2, as FD-DINOv2 has it."""
