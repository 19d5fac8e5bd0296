"""From logits to probabilities and answers: the arithmetic every family shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

from localdecide.core.errors import NumericalError


def softmax(logits: Sequence[float], temperature: float = 1.0) -> list[float]:
    """exp(z/T) normalised, shifted by the maximum. Raises NumericalError unless all are finite."""
    if not temperature > 0 or not all(math.isfinite(z) for z in logits):
        raise NumericalError("numerical error: the model returned a value that is not a finite number")
    top = max(logits)
    weights = [math.exp((z - top) / temperature) for z in logits]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def mean(distributions: Sequence[Sequence[float]]) -> list[float]:
    """The average of several distributions over the same options (lev, rotations)."""
    return [math.fsum(column) / len(distributions) for column in zip(*distributions, strict=True)]


def argmax(probabilities: Sequence[float]) -> int:
    """Index of the highest probability; the first wins a tie."""
    return probabilities.index(max(probabilities))


def expectation(probabilities: Sequence[float]) -> float:
    """Expected zero-based level: the sum of i * p_i."""
    return math.fsum(i * p for i, p in enumerate(probabilities))
