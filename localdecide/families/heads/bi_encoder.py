"""The bi-encoder (CLM): state and candidates are projected apart and compared by their angle.

logit = min(exp(logit_scale), 100) * cos(state projection, candidate projection). Each projection is a
small MLP on the L2-normalised hidden row of a text's last token.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from localdecide.families.heads.arithmetic import Array, Linear, Norm, Tensors, checked, cosine, finite, gelu, tensor

MAX_SCALE = 100.0


@dataclass(frozen=True, slots=True)
class Projection:
    """act(inp x), then per hidden layer act(LN(linear x)), added to x where `residual`; then out."""

    inp: Linear
    hidden: tuple[Linear, ...]
    norms: tuple[Norm, ...]
    out: Linear
    residual: bool

    @classmethod
    def load(cls, tensors: Tensors, name: str, *, residual: bool, eps: float) -> Projection:
        layers = list(itertools.takewhile(lambda i: f"{name}.hidden.{i}.weight" in tensors, itertools.count()))
        normed = f"{name}.norms.0.weight" in tensors
        return cls(
            inp=Linear.load(tensors, f"{name}.inp"),
            hidden=tuple(Linear.load(tensors, f"{name}.hidden.{i}") for i in layers),
            norms=tuple(Norm.load(tensors, f"{name}.norms.{i}", eps) for i in layers) if normed else (),
            out=Linear.load(tensors, f"{name}.out"),
            residual=residual,
        )

    def __call__(self, x: Array) -> Array:
        x = gelu(self.inp(x))
        for index, layer in enumerate(self.hidden):
            y = layer(x)
            y = gelu(self.norms[index](y) if self.norms else y)
            x = x + y if self.residual else y
        return self.out(x)


@dataclass(frozen=True, slots=True)
class BiEncoderHead:
    state: Projection
    candidate: Projection
    scale: float

    @classmethod
    def load(cls, tensors: Tensors, *, residual: bool = False, eps: float = 1e-5) -> BiEncoderHead:
        """From `state_head.*`, `action_head.*` and the scalar `logit_scale` (the logarithm of the scale)."""
        scale = float(tensor(tensors, "logit_scale", 1)[0])
        return cls(
            state=Projection.load(tensors, "state_head", residual=residual, eps=eps),
            candidate=Projection.load(tensors, "action_head", residual=residual, eps=eps),
            # exp of the bound's logarithm would round past the bound.
            scale=MAX_SCALE if scale >= np.log(MAX_SCALE) else float(np.exp(scale)),
        )

    @property
    def width(self) -> int:
        return self.state.inp.width

    def logits(self, state: Any, candidates: Any) -> tuple[float, ...]:
        """state [1, n_embd] and candidates [n, n_embd], rows of last tokens: n logits."""
        left = self.state(_unit(checked(state, self.width, 1)))
        right = self.candidate(_unit(checked(candidates, self.width)))
        return finite(np.float32(self.scale) * cosine(np.broadcast_to(left, right.shape), right))


def _unit(x: Array) -> Array:
    unit: Array = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return unit
