"""Heads as PyTorch modules, written from the published formulas with PyTorch's own layers.

Their state dicts have the names of the checkpoints; `*_to_gguf` renames them as upstream's converter does.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F


def scramble(module: nn.Module, seed: int, spread: float = 1.0) -> nn.Module:
    """Random weights, biases and norms, far enough from 0 and 1 that each one matters."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 2:
            noise *= spread / math.sqrt(parameter.shape[1])
        elif name.endswith("weight") and parameter.dim() == 1:
            noise = 1 + 0.3 * noise
        else:
            noise *= 0.3
        parameter.data.copy_(noise)
    return module.eval()


def arrays(module: nn.Module) -> dict:
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}


class Pointer(nn.Module):
    """kev: query and key projections of head_dim rows."""

    def __init__(self, width: int, head_dim: int) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(width, head_dim), nn.Linear(width, head_dim)

    def forward(self, hidden: torch.Tensor, ends: list[int]) -> torch.Tensor:
        query = self.q(hidden[-1])
        return torch.stack([self.k(hidden[end]) @ query for end in ends]) / self.q.out_features**0.5


def pointer_to_gguf(module: Pointer) -> dict:
    state = arrays(module)
    return {
        "cls.output.weight": torch.cat([module.q.weight, module.k.weight]).detach().numpy(),
        "cls.output.bias": torch.cat([module.q.bias, module.k.bias]).detach().numpy(),
    } | {name: state[name] for name in ()}


class Marker(nn.Module):
    """laya: pre-norm encoder layers with ReLU over all tokens, a scorer at the masks."""

    def __init__(self, width: int, heads: int, layers: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.type_emb = nn.Embedding(3, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, F.relu, layer_norm_eps=eps, batch_first=True, norm_first=True
        )
        self.head = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.scorer = nn.Sequential(nn.LayerNorm(width, eps), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, hidden: torch.Tensor, kind: int, masks: list[int]) -> torch.Tensor:
        x = hidden + self.type_emb.weight[kind]
        return self.scorer(self.head(x[None])[0][masks])[:, 0]


def marker_to_gguf(module: Marker, first: int) -> dict:
    names = {
        "norm1": "attn_norm",
        "self_attn.in_proj_": "attn_qkv",
        "self_attn.out_proj": "attn_output",
        "norm2": "ffn_norm",
        "linear1": "ffn_up",
        "linear2": "ffn_down",
    }
    tops = {"type_emb": "token_types", "scorer.0": "cls.norm", "scorer.1": "cls", "scorer.3": "cls.output"}
    tensors = {}
    for name, value in arrays(module).items():
        for old, new in tops.items():
            if name.startswith(old + "."):
                tensors[new + name[len(old) :]] = value
        if name.startswith("head.layers."):
            number, rest = name.removeprefix("head.layers.").split(".", 1)
            for old, new in names.items():
                if rest.startswith(old):
                    tensors[f"blk.{first + int(number)}.{new}.{rest[len(old) :].lstrip('.')}"] = value
    return tensors


class Routing(nn.Module):
    def __init__(self, width: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self.query_norm, self.memory_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, feedforward), nn.GELU(), nn.Dropout(0.0), nn.Linear(feedforward, width)
        )

    def forward(self, options: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        seen = self.memory_norm(memory)[None]
        options = options + self.attention(self.query_norm(options)[None], seen, seen)[0][0]
        return options + self.feedforward(self.feedforward_norm(options))


class Joint(nn.Module):
    """clef: the joint-schema head, one question and option at a time where that is plainer."""

    def __init__(self, hidden: int, width: int, routing: int, layers: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self.hidden_norm = nn.LayerNorm(hidden)
        for name in ("memory", "question", "option_question", "global", "option_context", "option_lexical"):
            setattr(self, f"{name}_projection", nn.Linear(hidden, width, bias=False))
        self.type_embedding = nn.Embedding(3, width)
        self.evidence_layers = nn.ModuleList(Routing(width, heads, feedforward) for _ in range(routing))
        self.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(width, heads, feedforward, 0.0, F.gelu, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.option_summary_norm, self.field_norm, self.option_norm = (nn.LayerNorm(width) for _ in range(3))
        self.residual_scorer = nn.Sequential(
            nn.Linear(4 * width, width), nn.GELU(), nn.Dropout(0.0), nn.Linear(width, 1)
        )
        self.prior_logit_scale = nn.Parameter(torch.tensor(0.0))
        self.joint_logit_scale = nn.Parameter(torch.tensor(0.0))
        self.residual_gate = nn.Parameter(torch.tensor(0.0))

    def forward(self, hidden, fields, embedding) -> list[torch.Tensor]:
        """fields: (type row, question span, [(option span, token ids)]) each; embedding [vocabulary, hidden]."""
        normed = self.hidden_norm(hidden)
        memory, last = self.memory_projection(normed), normed[-1]
        questions = [normed[start:end].mean(0) for _, (start, end), _ in fields]
        lexical = [[embedding[ids].mean(0) for _, ids in options] for _, _, options in fields]
        rows = []
        for question, words, (_, _, options) in zip(questions, lexical, fields, strict=True):
            for word, ((start, end), _) in zip(words, options, strict=True):
                context = self.option_context_projection(normed[start:end].mean(0))
                rows.append(context + self.option_lexical_projection(word) + self.option_question_projection(question))
        options = torch.stack(rows)
        for layer in self.evidence_layers:
            options = layer(options, memory)
        grouped = list(options.split([len(field[2]) for field in fields]))
        decided = []
        for question, own, (kind, _, _) in zip(questions, grouped, fields, strict=True):
            base = self.question_projection(question)
            weights = torch.softmax(own @ base / base.shape[0] ** 0.5, 0)
            summary = self.option_summary_norm((weights[:, None] * own).sum(0))
            decided.append(base + summary + self.global_projection(last) + self.type_embedding.weight[kind])
        states = torch.stack(decided)
        for layer in self.layers:
            states = layer(states[None], memory[None])[0]
        states = self.field_norm(states)
        top = math.log(100)
        results = []
        for question, state, own, words in zip(questions, states, grouped, lexical, strict=True):
            logits = []
            for option, word in zip(self.option_norm(own), words, strict=True):
                prior = self.prior_logit_scale.clamp(max=top).exp() * F.cosine_similarity(word, question + last, dim=0)
                angle = self.joint_logit_scale.clamp(max=top).exp() * F.cosine_similarity(state, option, dim=0)
                both = torch.cat([state, option, state * option, (state - option).abs()])
                logits.append(prior + torch.sigmoid(self.residual_gate) * (angle + self.residual_scorer(both)[0]))
            results.append(torch.stack(logits))
        return results


def joint_to_gguf(module: Joint) -> dict:
    """The names that upstream's GGUF files hold, written out apart from the product's own table."""
    state = dict(module.state_dict())
    out: dict = {}

    def put(new: str, old: str) -> None:
        for part in ("weight", "bias"):
            if f"{old}.{part}" in state:
                out[f"{new}.{part}"] = state[f"{old}.{part}"].numpy()

    def put_attention(new: str, old: str) -> None:
        for part in ("weight", "bias"):
            for letter, rows in zip("qkv", state[f"{old}.in_proj_{part}"].chunk(3), strict=True):
                out[f"{new}_{letter}.{part}"] = rows.numpy()
        put(f"{new}_o", f"{old}.out_proj")

    for name in ("memory", "question", "option_question", "global", "option_context", "option_lexical"):
        put(f"decision.proj_{name}", f"{name}_projection")
    for name in ("hidden_norm", "option_summary_norm", "field_norm", "option_norm"):
        put(f"decision.{name}", name)
    put("token_types", "type_embedding")
    put("decision.scorer", "residual_scorer.0")
    put("decision.scorer_out", "residual_scorer.3")
    routing = len(module.evidence_layers)
    for index in range(routing):
        new, old = f"dec.blk.{index}", f"evidence_layers.{index}"
        put_attention(f"{new}.cross_attn", f"{old}.attention")
        put(f"{new}.cross_attn_norm", f"{old}.query_norm")
        put(f"{new}.cross_attn_norm_kv", f"{old}.memory_norm")
        put(f"{new}.ffn_norm", f"{old}.feedforward_norm")
        put(f"{new}.ffn_up", f"{old}.feedforward.0")
        put(f"{new}.ffn_down", f"{old}.feedforward.3")
    for index in range(len(module.layers)):
        new, old = f"dec.blk.{routing + index}", f"layers.{index}"
        put_attention(f"{new}.attn", f"{old}.self_attn")
        put_attention(f"{new}.cross_attn", f"{old}.multihead_attn")
        put(f"{new}.attn_norm", f"{old}.norm1")
        put(f"{new}.cross_attn_norm", f"{old}.norm2")
        put(f"{new}.ffn_norm", f"{old}.norm3")
        put(f"{new}.ffn_up", f"{old}.linear1")
        put(f"{new}.ffn_down", f"{old}.linear2")
    scales = [state["prior_logit_scale"].clamp(max=math.log(100)).exp(), state["joint_logit_scale"].exp()]
    out["decision.scales"] = torch.stack([*scales, state["residual_gate"].sigmoid()]).numpy()
    return out


class Tower(nn.Module):
    def __init__(self, width: int, inner: int, depth: int, out: int, layernorm: bool, residual: bool) -> None:
        super().__init__()
        self.inp = nn.Linear(width, inner)
        self.hidden = nn.ModuleList(nn.Linear(inner, inner) for _ in range(depth - 2))
        self.norms = nn.ModuleList(nn.LayerNorm(inner) if layernorm else nn.Identity() for _ in range(depth - 2))
        self.out = nn.Linear(inner, out)
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.inp(x))
        for linear, norm in zip(self.hidden, self.norms, strict=True):
            y = F.gelu(norm(linear(x)))
            x = x + y if self.residual else y
        return F.normalize(self.out(x), dim=-1)


class BiEncoder(nn.Module):
    """CLM: two towers and a learned scale."""

    def __init__(self, width: int, inner: int, depth: int, out: int, layernorm: bool, residual: bool) -> None:
        super().__init__()
        self.state_head = Tower(width, inner, depth, out, layernorm, residual)
        self.action_head = Tower(width, inner, depth, out, layernorm, residual)
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, state: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        left = self.state_head(F.normalize(state, dim=-1))
        right = self.action_head(F.normalize(candidates, dim=-1))
        return self.logit_scale.exp().clamp(max=100) * (right @ left)
