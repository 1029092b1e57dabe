"""The encoder itself."""

import torch


class Spelling:
    def __init__(self, options):
        self.options = options

    def to(self, device):
        return self

    def encode(self, captions):
        features = torch.zeros(len(captions), self.options.tokens, self.options.width)
        for row, caption in enumerate(captions):
            for place, character in enumerate(caption[: self.options.tokens]):
                features[row, place, ord(character) % self.options.width] = 1
        return features

    def lengths(self, captions):
        return [len(caption) for caption in captions]
