"""Two spellings of the joint-schema head's tensors: the one of upstream's GGUF files and the checkpoint's own.

Ollama's files hold the checkpoint's names behind `clef.`; a checkpoint has them bare. Fused attention
rows are cut into query, key and value; the three scalars become `decision.scales`.
"""

from __future__ import annotations

import re

import numpy as np

from localdecide.families.heads.arithmetic import Tensors

PREFIX = "clef."
MAX_SCALE = 100.0

_PLAIN = {
    "hidden_norm": "decision.hidden_norm",
    "memory_projection": "decision.proj_memory",
    "question_projection": "decision.proj_question",
    "option_question_projection": "decision.proj_option_question",
    "global_projection": "decision.proj_global",
    "option_context_projection": "decision.proj_option_context",
    "option_lexical_projection": "decision.proj_option_lexical",
    "type_embedding": "token_types",
    "option_summary_norm": "decision.option_summary_norm",
    "field_norm": "decision.field_norm",
    "option_norm": "decision.option_norm",
    "residual_scorer.0": "decision.scorer",
    "residual_scorer.3": "decision.scorer_out",
}
_ROUTING = {
    "query_norm": "cross_attn_norm",
    "memory_norm": "cross_attn_norm_kv",
    "attention": "cross_attn",
    "feedforward_norm": "ffn_norm",
    "feedforward.0": "ffn_up",
    "feedforward.3": "ffn_down",
}
_JOINT = {
    "norm1": "attn_norm",
    "self_attn": "attn",
    "norm2": "cross_attn_norm",
    "multihead_attn": "cross_attn",
    "norm3": "ffn_norm",
    "linear1": "ffn_up",
    "linear2": "ffn_down",
}
_LAYER = re.compile(r"(evidence_layers|layers)\.(\d+)\.(.+)")
_ENDING = re.compile(r"(.+?)(?:\.(out_proj))?\.(in_proj_weight|in_proj_bias|weight|bias)")


def block_counts(tensors: Tensors) -> tuple[int, int]:
    """How many routing and joint blocks a head has, from either spelling of its names."""
    names = upstream_names(tensors)
    blocks = {int(name.split(".")[2]) for name in names if name.startswith("dec.blk.")}
    routing = sum(f"dec.blk.{block}.cross_attn_norm_kv.weight" in names for block in blocks)
    return routing, len(blocks) - routing


def upstream_names(tensors: Tensors) -> Tensors:
    """The same tensors under upstream's names; what already has them is returned as it is."""
    if "decision.hidden_norm.weight" in tensors:
        return tensors
    bare = {name.removeprefix(PREFIX): array for name, array in tensors.items()}
    routing = len({name.split(".")[1] for name in bare if name.startswith("evidence_layers.")})
    renamed: dict[str, np.ndarray] = {}
    for name, array in bare.items():
        found = _ENDING.fullmatch(name)
        if found is None:
            continue
        base, out, ending = found.groups()
        layer = _LAYER.fullmatch(base)
        if layer is None:
            target = _PLAIN.get(base)
        else:
            names, offset = (_ROUTING, 0) if layer[1] == "evidence_layers" else (_JOINT, routing)
            target = names.get(layer[3])
            target = target and f"dec.blk.{int(layer[2]) + offset}.{target}"
        if target is None:
            continue
        values = np.asarray(array, dtype=np.float32)
        if ending.startswith("in_proj_"):
            kind = ending.removeprefix("in_proj_")
            renamed |= {f"{target}_{part}.{kind}": cut for part, cut in zip("qkv", np.split(values, 3), strict=True)}
        else:
            renamed[f"{target}_o.{ending}" if out else f"{target}.{ending}"] = values
    if {"prior_logit_scale", "joint_logit_scale", "residual_gate"} <= bare.keys():
        renamed["decision.scales"] = _scales(*(float(np.asarray(bare[name]).reshape(-1)[0]) for name in _SCALARS))
    return renamed


_SCALARS = ("prior_logit_scale", "joint_logit_scale", "residual_gate")


def _scales(prior: float, joint: float, gate: float) -> np.ndarray:
    """exp of both scales, at most 100, and sigmoid of the gate."""
    top = np.log(MAX_SCALE)
    return np.array([np.exp(min(prior, top)), np.exp(min(joint, top)), 1.0 / (1.0 + np.exp(-gate))], dtype=np.float32)
