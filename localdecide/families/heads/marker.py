"""The marker head (laya, Julia-1, d1-omni): two transformer blocks over the whole prompt, read at each option's mask.

x = rows + type embedding; blocks x += MHA(LN x), x += W2 relu(W1 LN x), without positions or final norm;
logit = Linear(gelu(Linear(LN x))) at the option's mask token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from localdecide.core.errors import NumericalError
from localdecide.families.heads.arithmetic import (
    Array,
    Attention,
    Linear,
    Norm,
    Tensors,
    checked,
    finite,
    gelu,
    relu,
    tensor,
)

# Rows of the type embedding.
KINDS = {"choice": 0, "score": 1, "noul": 2}


@dataclass(frozen=True, slots=True)
class Block:
    """A pre-norm transformer encoder block."""

    attention_norm: Norm
    attention: Attention
    feed_norm: Norm
    up: Linear
    down: Linear

    @classmethod
    def load(cls, tensors: Tensors, name: str, heads: int, eps: float) -> Block:
        fused = Linear.load(tensors, f"{name}.attn_qkv")
        assert fused.bias is not None
        return cls(
            attention_norm=Norm.load(tensors, f"{name}.attn_norm", eps),
            attention=Attention.fused(fused.weight, fused.bias, Linear.load(tensors, f"{name}.attn_output"), heads),
            feed_norm=Norm.load(tensors, f"{name}.ffn_norm", eps),
            up=Linear.load(tensors, f"{name}.ffn_up"),
            down=Linear.load(tensors, f"{name}.ffn_down"),
        )

    def __call__(self, x: Array, positions: Any = slice(None)) -> Array:
        """The block's rows at `positions` alone; they look at all of x."""
        normed = self.attention_norm(x)
        x = x[positions] + self.attention(normed[positions], normed)
        return x + self.down(relu(self.up(self.feed_norm(x))))


@dataclass(frozen=True, slots=True)
class MarkerHead:
    types: Array
    blocks: tuple[Block, ...]
    norm: Norm
    inner: Linear
    outer: Linear

    @classmethod
    def load(cls, tensors: Tensors, heads: int, eps: float) -> MarkerHead:
        """From `token_types.weight`, `blk.N.*`, `cls.norm`, `cls` and `cls.output`, N in order from any start."""
        numbers = sorted({int(found[1]) for name in tensors if (found := re.match(r"blk\.(\d+)\.", name))})
        if not numbers:
            raise NumericalError("numerical error: the marker head has no blocks")
        types = tensor(tensors, "token_types.weight", 2)
        if len(types) != len(KINDS):
            raise NumericalError(
                f"numerical error: the marker head knows {len(types)} question types, not {len(KINDS)}"
            )
        return cls(
            types=types,
            blocks=tuple(Block.load(tensors, f"blk.{number}", heads, eps) for number in numbers),
            norm=Norm.load(tensors, "cls.norm", eps),
            inner=Linear.load(tensors, "cls"),
            outer=Linear.load(tensors, "cls.output"),
        )

    @property
    def width(self) -> int:
        return int(self.types.shape[1])

    def logits(self, rows: Any, kind: str, markers: list[int]) -> tuple[float, ...]:
        """rows [tokens, n_embd] of the whole prompt; markers: where the masks are. One logit a mask."""
        x = checked(rows, self.width) + self.types[KINDS[kind]]
        for block in self.blocks[:-1]:
            x = block(x)
        # Nothing but the masks is read, so the last block computes nothing else.
        x = self.blocks[-1](x, markers)
        return finite(self.outer(gelu(self.inner(self.norm(x))))[:, 0])
