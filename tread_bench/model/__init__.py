"""What a network is, and how tokens are routed through it: backbones, methods, losses, operators."""
