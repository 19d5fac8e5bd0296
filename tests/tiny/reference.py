"""The same weights in PyTorch: transformers' own classes, float32, for tests marked `reference`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tests.tiny.model import Array, TinyModel


def forward(model: TinyModel, tokens: Sequence[int], *, causal: bool = True) -> tuple[Array, Array | None]:
    """Hidden rows after the output norm [n, width] and logits [n, vocabulary], None for an encoder.

    causal: False lets attention layers see everything; recurrent layers stay causal, except in LFM2,
    whose convolutions are then centred, as in LiquidAI's bidirectional models.
    """
    ids = torch.tensor([list(tokens)])
    with torch.inference_mode():
        network = load(model)
        body = getattr(network, "model", network)
        if model.arch == "modern-bert":
            return body(input_ids=ids).last_hidden_state[0].numpy(), None
        if causal:
            hidden = body(input_ids=ids, use_cache=False).last_hidden_state
        else:
            if model.arch == "lfm2":
                _centre_convolutions(body)
            everything = torch.zeros(1, 1, len(tokens), len(tokens))
            masks: Any = {"full_attention": everything, "linear_attention": None, "conv": None}
            if model.arch == "llama":
                masks = everything  # all its layers are of one kind
            hidden = body(input_ids=ids, attention_mask=masks, use_cache=False).last_hidden_state
        logits = network.lm_head(hidden)
        return hidden[0].numpy(), logits[0].numpy()


def load(model: TinyModel) -> Any:
    """The network of transformers with the model's weights, every one of them and no other."""
    import transformers

    classes = {
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "qwen35": (transformers.Qwen3_5TextConfig, transformers.Qwen3_5ForCausalLM),
        "lfm2": (transformers.Lfm2Config, transformers.Lfm2ForCausalLM),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "modern-bert": (transformers.ModernBertConfig, transformers.ModernBertModel),
    }
    config_class, network_class = classes[model.arch]
    config = config_class(**_settings(model), attn_implementation="eager")
    network = network_class(config).float().eval()
    weights = {name: torch.from_numpy(array) for name, array in model.weights.items()}
    if model.config.get("tie_word_embeddings"):
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    network.load_state_dict(weights, strict=True)
    return network


def _settings(model: TinyModel) -> dict[str, Any]:
    settings = {key: value for key, value in model.config.items() if key not in ("architectures", "model_type")}
    if "rope_theta" in settings:
        rope = {"rope_type": "default", "rope_theta": settings.pop("rope_theta")}
        for key in ("partial_rotary_factor", "mrope_section"):
            if key in settings:
                rope[key] = settings.pop(key)
        settings["rope_parameters"] = rope
    return settings


def _centre_convolutions(body: Any) -> None:
    """Puts each kernel of LFM2 in the middle of its window instead of at its end."""
    for layer in body.layers:
        if hasattr(layer, "conv"):
            layer.conv.forward = _Centred(layer.conv)


class _Centred:
    def __init__(self, module: Any) -> None:
        self._module = module

    def __call__(self, hidden_states: torch.Tensor, **_: Any) -> torch.Tensor:
        module = self._module
        gate, out, values = module.in_proj(hidden_states).transpose(-1, -2).chunk(3, dim=-2)
        kernel = module.conv.weight
        mixed = torch.nn.functional.conv1d(
            gate * values, kernel, padding=(kernel.shape[-1] - 1) // 2, groups=kernel.shape[0]
        )
        return module.out_proj((out * mixed).transpose(-1, -2))
