"""A backbone's checkpoint as a GGUF: which module knows its architecture, and the tensors under its names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from gguf_convert import files
from gguf_convert.checkpoint import Array, Checkpoint, ConversionError, Tensor
from gguf_convert.tokenizer import tokenizer_keys

Change = Callable[[Array], Array]
TEMPLATE_KEY = "tokenizer.chat_template.systemone"

# model_type in config.json, and the module of this package that is named after its base type.
_MODULES = {
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3_moe",
    "qwen3_omni_moe": "qwen3_moe",
    "qwen3_omni_moe_text": "qwen3_moe",
    "qwen3_5": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
    "modernbert": "modernbert",
    "lfm2": "lfm2",
    "deberta-v2": "deberta_v2",
}
# What may stand in front of a text backbone's names; the longest first.
_PREFIXES = (
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "thinker.model.",
    "thinker.",
    "encoder.",
    "deberta.",
    "model.",
)
_SKIPPED = (
    *("visual.", "model.visual.", "vision.", "audio.", "thinker.visual.", "thinker.audio_tower."),
    *("talker.", "code2wav.", "mtp.", "model.mtp.", "head.", "act_head."),
)


def same(array: Array) -> Array:
    return array


def rope(config: Mapping[str, Any], name: str, default: Any) -> Any:
    """A value of the rope, where either generation of config.json puts it."""
    return (config.get("rope_parameters") or {}).get(name, config.get(name, default))


def text_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of config.json that describes the text backbone."""
    if isinstance(config.get("thinker_config"), Mapping):
        return text_config(config["thinker_config"])
    return {**config, **config["text_config"]} if isinstance(config.get("text_config"), Mapping) else dict(config)


def module_of(config: Mapping[str, Any]) -> ModuleType:
    """Raises ConversionError for an architecture that is not known."""
    kind = str(config.get("model_type"))
    if kind not in _MODULES:
        raise ConversionError(f"models of the type {kind!r} are not known (known: {', '.join(sorted(_MODULES))})")
    return import_module(f"{__package__}.{_MODULES[kind]}")


def write_backbone(
    path: Path,
    checkpoint: Checkpoint,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    name: str,
    decision: Mapping[str, Any],
    template: str | None = None,
    kind: str = "F16",
    pre: str | None = None,
    tokenizer_folder: str = "",
    more: Mapping[str, Any] | None = None,
) -> Path:
    """decision: keys by what follows `<arch>.decision.`. more: other keys of the header, in full."""
    module = module_of(config)
    architecture = str(module.ARCHITECTURE)
    rows = list(_renamed(tensors, config, module))
    size = next((tensor.shape[0] for target, tensor in rows if target == "token_embd.weight"), None)
    if size is None:
        raise ConversionError("the checkpoint has no token embeddings under a name that is known")
    header = {"general.name": name, "general.file_type": files.FILE_TYPES.get(kind, 0)}
    header |= {f"{architecture}.{key}": value for key, value in module.keys(config).items()}
    header |= {f"{architecture}.decision.{key}": value for key, value in decision.items()}
    header |= tokenizer_keys(checkpoint, pre or str(module.PRE), size, tokenizer_folder)
    if template is not None:
        header |= {TEMPLATE_KEY: template, "tokenizer.chat_templates": ["systemone"]}
    return files.write(path, architecture, header | dict(more or {}), rows, kind)


def bare(name: str) -> str:
    """A tensor's name without what a wrapper class puts in front."""
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    rest = name[len(prefix) :]
    # DeBERTa's own layers lie under `encoder.`, which is no wrapper there.
    return name if prefix == "encoder." and rest.startswith(("layer.", "LayerNorm", "rel_embeddings")) else rest


def _renamed(
    tensors: Mapping[str, Tensor], config: Mapping[str, Any], module: ModuleType
) -> Iterator[tuple[str, Tensor]]:
    prepare = getattr(module, "prepare", None)
    for name, read in (tensors if prepare is None else prepare(tensors)).items():
        if name.startswith(_SKIPPED):
            continue
        found = module.tensor(bare(name), config)
        if found is not None:
            target, change = found
            yield target, read if change is same else read.changed(change)
