"""Layers that heads are made of: linear, LayerNorm, attention, exact GELU, and the checks on what they meet.

Arrays are float32 and shapes are written [rows, columns]; weights are [out, in] as PyTorch keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localdecide.core.errors import NumericalError

Array = NDArray[np.float32]
Tensors = Mapping[str, Any]

# erf is read from a table by linear interpolation. With steps of 2^-12 the error is at most
# h^2/8 * max|erf''| = 7.3e-9, an eighth of float32's step below 1; beyond 4.5, erf is 1 in float32.
_STEPS = 4096
_REACH = 4.5
_ERF = np.array([math.erf(i / _STEPS) for i in range(int(_REACH * _STEPS) + 2)], dtype=np.float32)
_SLOPE = np.array(
    [math.erf((i + 1) / _STEPS) - math.erf(i / _STEPS) for i in range(int(_REACH * _STEPS) + 2)], dtype=np.float32
)
# Attention scores held at once: 2^24 floats are 64 MB, whatever the prompt's length.
_SCORES = 1 << 24


def erf(x: Array) -> Array:
    """The error function, to 1e-7."""
    scaled = np.minimum(np.abs(x), np.float32(_REACH)) * np.float32(_STEPS)
    index = scaled.astype(np.int32)
    return np.copysign(_ERF[index] + (scaled - index).astype(np.float32) * _SLOPE[index], x)


def gelu(x: Array) -> Array:
    """x * Phi(x) with the exact normal distribution, not its tanh approximation."""
    return np.float32(0.5) * x * (np.float32(1) + erf(x * np.float32(math.sqrt(0.5))))


def relu(x: Array) -> Array:
    return np.maximum(x, np.float32(0))


def softmax(scores: Array) -> Array:
    """Over the last axis."""
    weights: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def cosine(a: Array, b: Array) -> Array:
    """Of rows [n, d] and [n, d]: [n]. A row of zeros has cosine 0 to everything."""
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    similarity: Array = np.sum(a * b, axis=-1) / np.maximum(lengths, np.float32(1e-12))
    return similarity


@dataclass(frozen=True, slots=True)
class Linear:
    """x W^T + b. weight: [out, in]; bias: [out] or None."""

    weight: Array
    bias: Array | None = None

    @classmethod
    def load(cls, tensors: Tensors, name: str, *, bias: bool = True) -> Linear:
        return cls(tensor(tensors, f"{name}.weight", 2), tensor(tensors, f"{name}.bias", 1) if bias else None)

    @property
    def width(self) -> int:
        """Columns that its input must have."""
        return int(self.weight.shape[1])

    def __call__(self, x: Array) -> Array:
        product: Array = x @ self.weight.T
        return product if self.bias is None else product + self.bias


@dataclass(frozen=True, slots=True)
class Norm:
    """LayerNorm over the last axis."""

    weight: Array
    bias: Array
    eps: float

    @classmethod
    def load(cls, tensors: Tensors, name: str, eps: float) -> Norm:
        return cls(tensor(tensors, f"{name}.weight", 1), tensor(tensors, f"{name}.bias", 1), eps)

    def __call__(self, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.mean(centred * centred, axis=-1, keepdims=True)
        normed: Array = centred / np.sqrt(variance + np.float32(self.eps)) * self.weight + self.bias
        return normed


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head attention without mask or positions; heads: how many slices the width is cut into."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int

    def __post_init__(self) -> None:
        if self.heads < 1 or self.query.weight.shape[0] % self.heads:
            raise NumericalError(
                f"numerical error: {self.heads} attention heads do not divide a width of {self.query.weight.shape[0]}"
            )

    @classmethod
    def fused(cls, weight: Array, bias: Array, output: Linear, heads: int) -> Attention:
        """From query, key and value rows stacked in one matrix [3 w, w] and bias [3 w]."""
        parts = [Linear(w, b) for w, b in zip(np.split(weight, 3), np.split(bias, 3), strict=True)]
        return cls(parts[0], parts[1], parts[2], output, heads)

    def __call__(self, x: Array, memory: Array) -> Array:
        """x [q, w] looks at memory [m, w]: [q, w]."""
        width = self.query.weight.shape[0] // self.heads
        queries: Array = self.query(x).reshape(len(x), self.heads, width).transpose(1, 0, 2) * np.float32(width**-0.5)
        keys: Array = self.key(memory).reshape(len(memory), self.heads, width).transpose(1, 2, 0)
        values = self.value(memory).reshape(len(memory), self.heads, width).transpose(1, 0, 2)
        mixed: Array = np.empty_like(queries)
        step = max(1, _SCORES // (self.heads * len(memory)))
        for start in range(0, len(x), step):
            mixed[:, start : start + step] = softmax(queries[:, start : start + step] @ keys) @ values
        return self.output(mixed.transpose(1, 0, 2).reshape(len(x), -1))


def tensor(tensors: Tensors, name: str, dimensions: int) -> Array:
    """A head's tensor as float32. Raises NumericalError if it is missing, misshapen or not finite.

    A matrix of one row may be stored as a vector and the other way round.
    """
    if name not in tensors:
        raise NumericalError(f"numerical error: the head has no tensor {name}")
    array = np.asarray(tensors[name], dtype=np.float32)
    if array.ndim == 1 and dimensions == 2:
        array = array[None, :]
    elif dimensions == 1 and (array.ndim == 0 or (array.ndim == 2 and 1 in array.shape)):
        array = array.reshape(-1)
    if array.ndim != dimensions:
        raise NumericalError(f"numerical error: the head's tensor {name} has the shape {array.shape}")
    if not np.isfinite(array).all():
        raise NumericalError(f"numerical error: the head's tensor {name} holds values that are not finite numbers")
    return array


def checked(rows: Any, width: int, count: int | None = None) -> Array:
    """Hidden rows [n, width] as float32, fit to compute with.

    Raises NumericalError for NaN, infinity, another width (a head of another base model), another
    count, and for a row of zeros, which no final norm returns and an unfilled buffer does.
    """
    array = np.asarray(rows, dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != width:
        raise NumericalError(
            f"numerical error: the head wants rows of width {width} and the model gave {array.shape[-1:]}; "
            "the head belongs to another base model"
        )
    if count is not None and len(array) != count:
        raise NumericalError(f"numerical error: the head wants {count} rows and the model gave {len(array)}")
    if not np.isfinite(array).all():
        raise NumericalError("numerical error: a hidden row holds values that are not finite numbers")
    if not array.any(axis=1).all():
        raise NumericalError("numerical error: a hidden row is all zeros")
    return array


def finite(logits: Array) -> tuple[float, ...]:
    """Logits as plain floats. Raises NumericalError unless all are finite."""
    if not np.isfinite(logits).all():
        raise NumericalError("numerical error: the head returned a value that is not a finite number")
    return tuple(float(logit) for logit in logits)
