"""What "confidence" means, by definition: pure functions of a distribution.

H is the entropy in nats, n the number of options, m the index of the first maximum.
A single option is certain (1). Sources are the published formulas of each contract.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from localdecide.core.probability import argmax

Distribution = Sequence[float]


def entropy(p: Distribution) -> float:
    """1 - H/ln n (Ollama, Tev1, Nimble, d3, xor, Laya; localdecide's own)."""
    if len(p) < 2:
        return 1.0
    h = -math.fsum(q * math.log(q) for q in p if q > 0)
    return _clamp(1 - h / math.log(len(p)))


def margin(p: Distribution) -> float:
    """(n * pmax - 1)/(n - 1): distance above chance (TypeSafe, SGLang, llama.cpp for a choice)."""
    n = len(p)
    return 1.0 if n < 2 else _clamp((n * max(p) - 1) / (n - 1))


def dispersion(p: Distribution) -> float:
    """1 - E|i - m| / D, D = mean |i - (n-1)/2| (TypeSafe, SGLang, llama.cpp for a score)."""
    n = len(p)
    if n < 2:
        return 1.0
    spread = math.fsum(abs(i - (n - 1) / 2) for i in range(n)) / n
    return max(0.0, 1 - _distance_to_mode(p) / spread)


def range_dispersion(p: Distribution) -> float:
    """1 - E|i - m| / (n - 1) (LocalAI and older Kev for a score)."""
    n = len(p)
    return 1.0 if n < 2 else _clamp(1 - _distance_to_mode(p) / (n - 1))


def top(p: Distribution) -> float:
    """The highest probability (Clef; OpenAI and Requesty routes here)."""
    return max(p)


def top_mass(p: Distribution, label_mass: float | None) -> float:
    """pmax * label mass (vLLM, Liquid); a head has mass 1."""
    return _clamp(max(p) * (1.0 if label_mass is None else label_mass))


def lead(p: Distribution) -> float:
    """pmax - mean of the rest (CLM)."""
    n = len(p)
    return 1.0 if n < 2 else _clamp(max(p) - (math.fsum(p) - max(p)) / (n - 1))


def _distance_to_mode(p: Distribution) -> float:
    mode = argmax(p)
    return math.fsum(q * abs(i - mode) for i, q in enumerate(p))


def _clamp(value: float) -> float:
    return min(1.0, max(0.0, value))
