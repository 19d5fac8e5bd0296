"""LoRA adapters merged into the base model's tensors: W + alpha / r * B A, in float32."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gguf_convert.checkpoint import Array, Checkpoint, ConversionError, Tensor

_NAME = re.compile(r"base_model\.model\.(?P<target>.+)\.lora_(?P<half>[AB])(?:\.default)?\.weight")


def merged(base: Mapping[str, Tensor], adapter: Checkpoint) -> dict[str, Tensor]:
    """The base's readers with the adapter merged in. Raises ConversionError for an adapter of another kind or model."""
    config = adapter.json("adapter_config.json")
    if config.get("use_dora") or config.get("use_rslora") or config.get("peft_type", "LORA") != "LORA":
        raise ConversionError("only plain LoRA adapters can be merged")
    scale = float(config["lora_alpha"]) / float(config["r"])
    halves: dict[str, dict[str, Tensor]] = {}
    for name, read in adapter.tensors("adapter_model*.safetensors").items():
        found = _NAME.fullmatch(name)
        if found is None:
            raise ConversionError(f"the adapter's tensor {name} is not a half of a LoRA pair")
        halves.setdefault(found["target"], {})[found["half"]] = read
    result = dict(base)
    for target, pair in halves.items():
        name = _base_name(f"{target}.weight", base)
        if pair.keys() != {"A", "B"}:
            raise ConversionError(f"the adapter has only one half for {target}")
        result[name] = _sum(base[name], pair["A"], pair["B"], scale)
    return result


def _base_name(name: str, base: Mapping[str, Tensor]) -> str:
    """Adapters name the layers of another wrapper class than the checkpoint does."""
    for candidate in (name, name.replace("model.layers", "model.language_model.layers", 1), f"model.{name}"):
        if candidate in base:
            return candidate
    raise ConversionError(f"the base model has no tensor {name}, which the adapter changes")


def _sum(weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    def read() -> Array:
        total: Array = weight() + scale * (b() @ a())
        return total.astype("float32")

    return Tensor(weight.shape, read)
