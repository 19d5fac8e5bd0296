"""DeBERTa-v2/v3 encoder: llama.cpp has none, so it runs here. Disentangled attention, He et al. 2021, arXiv:2111.09543.

score(i, j) = (q_i . k_j + q_i . kr(i - j) + k_j . qr(i - j)) / sqrt(3 d), where kr and qr are the key and
query projections of the relative-position table, shared with the content's (share_att_key) and read
at log-spaced buckets of the distance. Names and shapes of tensors are the checkpoint's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localdecide.core.errors import NumericalError
from localdecide.families.heads.arithmetic import Array, Linear, Norm, Tensors, checked, gelu, softmax, tensor

Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class DebertaLayer:
    query: Linear
    key: Linear
    value: Linear
    output: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    norm: Norm

    @classmethod
    def load(cls, tensors: Tensors, name: str, eps: float) -> DebertaLayer:
        def linear(part: str) -> Linear:
            return Linear.load(tensors, f"{name}.{part}")

        return cls(
            query=linear("attention.self.query_proj"),
            key=linear("attention.self.key_proj"),
            value=linear("attention.self.value_proj"),
            output=linear("attention.output.dense"),
            attention_norm=Norm.load(tensors, f"{name}.attention.output.LayerNorm", eps),
            up=linear("intermediate.dense"),
            down=linear("output.dense"),
            norm=Norm.load(tensors, f"{name}.output.LayerNorm", eps),
        )

    def __call__(self, x: Array, relative: Array, near: Index, heads: int) -> Array:
        """x [tokens, w]; relative [2 span, w]; near [tokens, tokens]: row of `relative` for (i, j)."""
        x = self.attention_norm(x + self.output(self._attend(x, relative, near, heads)))
        return self.norm(x + self.down(gelu(self.up(x))))

    def _attend(self, x: Array, relative: Array, near: Index, heads: int) -> Array:
        def cut(rows: Array) -> Array:
            return rows.reshape(len(rows), heads, -1).transpose(1, 0, 2)

        queries, keys, values = cut(self.query(x)), cut(self.key(x)), cut(self.value(x))
        scores = queries @ keys.transpose(0, 2, 1)
        places = np.broadcast_to(near, scores.shape)
        scores += np.take_along_axis(queries @ cut(self.key(relative)).transpose(0, 2, 1), places, axis=2)
        # k_j against the query row of i's distance to j: rows of j are gathered, then turned.
        turned = np.broadcast_to(near.T, scores.shape)
        scores += np.take_along_axis(keys @ cut(self.query(relative)).transpose(0, 2, 1), turned, axis=2).transpose(
            0, 2, 1
        )
        scores *= np.float32(1 / math.sqrt(3 * queries.shape[2]))
        return (softmax(scores) @ values).transpose(1, 0, 2).reshape(x.shape)


@dataclass(frozen=True, slots=True)
class Deberta:
    """words: token ids to their embeddings [tokens, w]; relative [2 span, w], already normalised."""

    words: Callable[[list[int]], Any]
    norm: Norm
    relative: Array
    layers: tuple[DebertaLayer, ...]
    heads: int
    span: int
    reach: int

    @classmethod
    def load(
        cls,
        tensors: Tensors,
        words: Callable[[list[int]], Any],
        *,
        heads: int,
        buckets: int,
        reach: int,
        eps: float = 1e-7,
    ) -> Deberta:
        """words: rows of the embedding table, which may lie in another file.

        buckets, reach: `position_buckets` and the largest distance told apart (`max_relative_positions`).
        """
        layers: list[DebertaLayer] = []
        while f"encoder.layer.{len(layers)}.output.dense.weight" in tensors:
            layers.append(DebertaLayer.load(tensors, f"encoder.layer.{len(layers)}", eps))
        relative = tensor(tensors, "encoder.rel_embeddings.weight", 2)[: 2 * buckets]
        if not layers or len(relative) != 2 * buckets or relative.shape[1] % heads:
            raise NumericalError("numerical error: the encoder's layers, heads or position buckets do not fit together")
        return cls(
            words=words,
            norm=Norm.load(tensors, "embeddings.LayerNorm", eps),
            relative=Norm.load(tensors, "encoder.LayerNorm", eps)(relative),
            layers=tuple(layers),
            heads=heads,
            span=buckets,
            reach=reach,
        )

    def __call__(self, tokens: list[int]) -> Array:
        """Rows [tokens, w] of the last layer."""
        x = self.norm(checked(self.words(tokens), self.relative.shape[1], len(tokens)))
        near = np.clip(distances(len(tokens), self.span, self.reach) + self.span, 0, 2 * self.span - 1)
        # A short prompt meets few of the distances: the others are not projected.
        least, most = int(near.min()), int(near.max())
        for layer in self.layers:
            x = layer(x, self.relative[least : most + 1], near - least, self.heads)
        return x


def distances(tokens: int, span: int, reach: int) -> Index:
    """i - j for every pair, log-spaced beyond half the span so that `reach` falls on the last bucket."""
    exact = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    middle = span // 2
    far = np.maximum(np.abs(exact), middle).astype(np.float32)
    # One function and one precision for both logarithms, so that the quotient at `reach` is exactly 1.
    spaced = np.log(far / np.float32(middle)) / np.log(np.float32((reach - 1) / middle)) * np.float32(middle - 1)
    spaced = np.ceil(spaced) + middle
    bucketed: Index = np.where(np.abs(exact) <= middle, exact, np.sign(exact) * spaced).astype(np.intp)
    return bucketed
