"""What goes on inside a network: similarity of layers, gap of training to inference, gradients, validation loss."""
