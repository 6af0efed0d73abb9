"""Small data sets with something to learn, one per kind of task."""

import numpy as np


def signals(n: int = 60, length: int = 24, seed: int = 0) -> dict[str, np.ndarray]:
    """Slow or fast waves: two classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    t = np.arange(length) / length
    phase = rng.uniform(0, 6, (n, 1))
    return {"x": np.sin(2 * np.pi * (1 + 3 * y[:, None]) * t + phase) + 0.1 * rng.normal(size=(n, length)), "y": y}


def images(n: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    """Horizontal or vertical stripes, by name, in three colours, channels last."""
    rng = np.random.default_rng(seed)
    stripes = np.sin(np.pi * np.arange(8) / 2 + 0.3)
    grid = np.where((np.arange(n) % 2 == 0)[:, None, None], stripes[None, None, :], stripes[None, :, None])
    colours = rng.uniform(0.5, 1, (n, 1, 1, 3))
    return {"x": grid[..., None] * colours + 0.1 * rng.normal(size=(n, 8, 8, 3)), "y": np.array(["down", "across"] * (n // 2))}


def regression(n: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    """Mean and spread of a signal with an offset far from zero."""
    rng = np.random.default_rng(seed)
    level, spread = rng.uniform(50, 60, n), rng.uniform(1, 3, n)
    x = level[:, None] + spread[:, None] * rng.normal(size=(n, 20))
    return {"x": x.astype(np.float32), "y": np.stack([x.mean(1), 1000 * x.std(1)], axis=1)}


def dense_1d(n: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    """Periodic signals and their running means."""
    x = np.random.default_rng(seed).normal(size=(n, 18))
    return {"x": x, "y": 5 + 2 * (x + np.roll(x, 1, axis=1) + np.roll(x, -1, axis=1)) / 3}


def dense_2d(n: int = 24, seed: int = 0) -> dict[str, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(n, 6, 8))
    return {"x": x, "y": (x + np.roll(x, 1, axis=2)) / 2}


KINDS = {"signals": signals, "images": images, "regression": regression, "dense_1d": dense_1d, "dense_2d": dense_2d}
