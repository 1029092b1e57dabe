"""The inside of a network: similarity of layers, gap between training and inference, gradients, validation loss."""
