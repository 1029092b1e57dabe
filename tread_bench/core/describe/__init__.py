"""What backbones, methods and everything else that plugs in say of themselves, without torch."""
