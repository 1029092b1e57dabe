"""The metric itself."""

import torch


class Coverage:
    def __init__(self, options):
        self.neighbours = options.neighbours

    def __call__(self, generated, real):
        generated_MD, real_ND = generated.features.double(), real.features.double()
        covered = 0
        for part in real_ND.split(1000):
            radius = torch.cdist(part, real_ND).kthvalue(self.neighbours + 1).values  # an image is its own nearest
            covered += int((torch.cdist(part, generated_MD).amin(1) < radius).sum())
        return {"coverage": covered / len(real_ND)}
