"""Networks and how tokens are routed through them: backbones, methods, losses, operators."""
