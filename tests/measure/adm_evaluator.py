"""ADM's evaluator, restated in NumPy from its description: evaluations/evaluator.py (Dhariwal and Nichol 2021).

Where it takes means in float32, this takes float64. Where it computes distances on a GPU in float16, this rounds
float32 products to float16.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

BLOCK = 10_000


def statistics(activations):
    return np.mean(activations, axis=0, dtype=np.float64), np.cov(activations.astype(np.float64), rowvar=False)


def frechet_distance(first, second):
    (mean_1, sigma_1), (mean_2, sigma_2) = first, second
    root = scipy.linalg.sqrtm(sigma_1 @ sigma_2)
    if not np.isfinite(root).all():
        offset = np.eye(len(sigma_1)) * 1e-6
        root = scipy.linalg.sqrtm((sigma_1 + offset) @ (sigma_2 + offset))
    if np.iscomplexobj(root):
        assert np.allclose(np.diagonal(root).imag, 0, atol=1e-3)
        root = root.real
    difference = mean_1 - mean_2
    return difference @ difference + np.trace(sigma_1) + np.trace(sigma_2) - 2 * np.trace(root)


def inception_score(logits, chunk=5000):
    """`logits` are products with the weights of the last layer, without its bias."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    preds = shifted / shifted.sum(1, keepdims=True)
    scores = []
    for start in range(0, len(preds), chunk):
        part = preds[start : start + chunk]
        kl = part * (np.log(part) - np.log(np.mean(part, 0, keepdims=True)))
        scores.append(np.exp(np.mean(np.sum(kl, 1))))
    return float(np.mean(scores))


def squared_distances(u, v, dtype):
    u, v = u.astype(dtype), v.astype(dtype)
    norms = [np.sum(np.square(part), 1, dtype=np.float32).astype(dtype) for part in (u, v)]
    products = (u.astype(np.float32) @ v.astype(np.float32).T).astype(dtype)
    return np.maximum(norms[0][:, None] - dtype(2) * products + norms[1][None], dtype(0))


def pairwise(u, v, block=BLOCK, dtype=np.float16):
    rows = []
    for i in range(0, len(u), block):
        row = []
        for j in range(0, len(v), block):
            with np.errstate(over="ignore", invalid="ignore"):
                found = squared_distances(u[i : i + block], v[j : j + block], dtype)
            if not np.isfinite(found).all():
                found = squared_distances(u[i : i + block], v[j : j + block], np.float32)
            row.append(found.astype(np.float32))
        rows.append(np.concatenate(row, 1))
    return np.concatenate(rows)


def precision_recall(samples, reference, k=3, block=BLOCK, dtype=np.float16):
    def radii(features):
        return np.partition(pairwise(features, features, block, dtype), np.arange(k + 1), axis=1)[:, k]

    distances = pairwise(reference, samples, block, dtype)
    precision = np.mean((distances <= radii(reference)[:, None]).any(0))
    recall = np.mean((distances <= radii(samples)[None]).any(1))
    return float(precision), float(recall)
