"""The joint-schema head (clef): all questions of a prompt are decided together over every token's row.

Spans of a question's and an option's tokens are averaged; options look at the prompt (routing blocks),
fields at each other and the prompt (joint blocks). w is the head's own width, H the model's.

    M = W_memory LN(h)    g = LN(h)[last]    q, c = span means of LN(h)    x = mean output-embedding row
    option = W_context c + W_lexical x + W_option_question q[owner], then routing blocks
    f = W_question q;  field = f + LN(softmax(option . f / sqrt w) option) + W_global g + type, joint blocks
    logit = prior * cos(x, q + g) + gate * (joint * cos(field', option') + MLP[f', o', f' o', |f' - o'|])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from localdecide.core.errors import NumericalError
from localdecide.families.heads.arithmetic import (
    Array,
    Attention,
    Linear,
    Norm,
    Tensors,
    checked,
    cosine,
    finite,
    gelu,
    tensor,
)
from localdecide.families.heads.joint_names import upstream_names
from localdecide.families.heads.segments import segment_softmax, segment_sums, span_means

# Rows of the type embedding.
KINDS = {"noul": 0, "choice": 1, "score": 2}


@dataclass(frozen=True, slots=True)
class Feed:
    """x + W_down gelu(W_up LN x)."""

    norm: Norm
    up: Linear
    down: Linear

    @classmethod
    def load(cls, tensors: Tensors, name: str, eps: float) -> Feed:
        return cls(
            Norm.load(tensors, f"{name}.ffn_norm", eps),
            Linear.load(tensors, f"{name}.ffn_up"),
            Linear.load(tensors, f"{name}.ffn_down"),
        )

    def __call__(self, x: Array) -> Array:
        return x + self.down(gelu(self.up(self.norm(x))))


@dataclass(frozen=True, slots=True)
class RoutingBlock:
    """Options look at the normalised memory."""

    norm: Norm
    memory_norm: Norm
    attention: Attention
    feed: Feed

    def __call__(self, options: Array, memory: Array) -> Array:
        return self.feed(options + self.attention(self.norm(options), self.memory_norm(memory)))


@dataclass(frozen=True, slots=True)
class JointBlock:
    """Fields look at each other, then at the memory as it is."""

    self_norm: Norm
    self_attention: Attention
    norm: Norm
    attention: Attention
    feed: Feed

    def __call__(self, fields: Array, memory: Array) -> Array:
        normed = self.self_norm(fields)
        fields = fields + self.self_attention(normed, normed)
        return self.feed(fields + self.attention(self.norm(fields), memory))


@dataclass(frozen=True, slots=True)
class Field:
    """One question of a joint prompt. question, options: the spans of their tokens, end exclusive."""

    kind: str
    question: tuple[int, int]
    options: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class JointHead:
    hidden_norm: Norm
    projections: dict[str, Linear]
    types: Array
    routing: tuple[RoutingBlock, ...]
    joint: tuple[JointBlock, ...]
    summary_norm: Norm
    field_norm: Norm
    option_norm: Norm
    scorer: Linear
    scorer_out: Linear
    scales: tuple[float, float, float]

    @classmethod
    def load(cls, tensors: Tensors, *, heads: int, routing: int, joint: int, eps: float = 1e-5) -> JointHead:
        """From upstream's names or the checkpoint's (`joint_names`). routing, joint: blocks of each kind."""
        tensors = upstream_names(tensors)

        def attention(name: str) -> Attention:
            q, k, v, o = (Linear.load(tensors, f"{name}_{part}") for part in "qkvo")
            return Attention(q, k, v, o, heads)

        def norm(name: str) -> Norm:
            return Norm.load(tensors, name, eps)

        names = ("memory", "question", "option_question", "global", "option_context", "option_lexical")
        scales = tensor(tensors, "decision.scales", 1)
        if len(scales) != 3:
            raise NumericalError(f"numerical error: the joint head has {len(scales)} scales, not 3")
        return cls(
            hidden_norm=norm("decision.hidden_norm"),
            projections={name: Linear.load(tensors, f"decision.proj_{name}", bias=False) for name in names},
            types=tensor(tensors, "token_types.weight", 2),
            routing=tuple(
                RoutingBlock(
                    norm(f"{name}.cross_attn_norm"),
                    norm(f"{name}.cross_attn_norm_kv"),
                    attention(f"{name}.cross_attn"),
                    Feed.load(tensors, name, eps),
                )
                for name in (f"dec.blk.{index}" for index in range(routing))
            ),
            joint=tuple(
                JointBlock(
                    norm(f"{name}.attn_norm"),
                    attention(f"{name}.attn"),
                    norm(f"{name}.cross_attn_norm"),
                    attention(f"{name}.cross_attn"),
                    Feed.load(tensors, name, eps),
                )
                for name in (f"dec.blk.{index}" for index in range(routing, routing + joint))
            ),
            summary_norm=norm("decision.option_summary_norm"),
            field_norm=norm("decision.field_norm"),
            option_norm=norm("decision.option_norm"),
            scorer=Linear.load(tensors, "decision.scorer"),
            scorer_out=Linear.load(tensors, "decision.scorer_out"),
            scales=(float(scales[0]), float(scales[1]), float(scales[2])),
        )

    @property
    def width(self) -> int:
        return self.projections["memory"].width

    def logits(self, rows: Any, fields: Sequence[Field], lexical: Any) -> list[tuple[float, ...]]:
        """One logit per option, for every field.

        rows [tokens, H]: the whole prompt. lexical [all options, H]: the mean output-embedding row
        of each option's tokens, in the order of the fields and their options.
        """
        hidden = self.hidden_norm(checked(rows, self.width))
        counts = [len(field.options) for field in fields]
        lexical = checked(lexical, self.width, sum(counts))
        owner = np.repeat(np.arange(len(fields)), counts)
        project = self.projections

        memory = project["memory"](hidden)
        last = hidden[-1]
        asked = span_means(hidden, [field.question for field in fields])
        context = span_means(hidden, [span for field in fields for span in field.options])
        options = (
            project["option_context"](context)
            + project["option_lexical"](lexical)
            + project["option_question"](asked)[owner]
        )
        for routing in self.routing:
            options = routing(options, memory)

        base = project["question"](asked)
        affinity = np.sum(options * base[owner], axis=-1) / np.float32(np.sqrt(options.shape[1]))
        summary = segment_sums(segment_softmax(affinity, counts)[:, None] * options, counts)
        types = self.types[[KINDS[field.kind] for field in fields]]
        decided = base + self.summary_norm(summary) + project["global"](last) + types
        for joint in self.joint:
            decided = joint(decided, memory)

        f, o = self.field_norm(decided)[owner], self.option_norm(options)
        residual = self.scorer_out(gelu(self.scorer(np.concatenate([f, o, f * o, np.abs(f - o)], axis=1))))[:, 0]
        prior, cosines, gate = map(np.float32, self.scales)
        logits = prior * cosine(lexical, (asked + last)[owner]) + gate * (cosines * cosine(f, o) + residual)
        return [finite(part) for part in np.split(logits, np.cumsum(counts)[:-1])]
