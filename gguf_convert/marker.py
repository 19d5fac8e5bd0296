"""Marker heads: a checkpoint's names turned into those of upstream's GGUF files, and temperatures by bucket."""

from __future__ import annotations

from collections.abc import Mapping

from gguf_convert.checkpoint import Array, ConversionError, Tensor

_BLOCK = {
    "norm1": "attn_norm",
    "self_attn.in_proj": "attn_qkv",
    "self_attn.out_proj": "attn_output",
    "norm2": "ffn_norm",
    "linear1": "ffn_up",
    "linear2": "ffn_down",
}
_TOP = {"type_emb": "token_types", "scorer.0": "cls.norm", "scorer.1": "cls", "scorer.3": "cls.output"}


def marker_tensors(tensors: Mapping[str, Tensor], first: int, prefix: str = "") -> dict[str, Array]:
    """first: number of the head's first block, behind the encoder's. prefix: before every name of the head."""
    found: dict[str, Array] = {}
    for name, read in tensors.items():
        if not name.startswith(prefix):
            continue
        target = _target(name.removeprefix(prefix), first)
        if target is not None:
            found[target] = read()
    wanted = {"token_types.weight", f"blk.{first}.attn_qkv.weight", "cls.output.weight"}
    if not wanted <= found.keys():
        raise ConversionError("the checkpoint has no marker head under names that are known")
    return found


def temperatures(by_kind: Mapping[str, float], by_options: Mapping[str, float]) -> dict[str, float]:
    """Keys `temperature.*` from values by type, and by type and options as in "choice:3-5" or "choice:11+"."""
    values = {f"temperature.{kind}": float(value) for kind, value in by_kind.items()}
    for name, value in by_options.items():
        key = name.replace(":", ".").replace("-", "_").rstrip("+")
        values[f"temperature.{key}"] = float(value)
    return values


def _target(name: str, first: int) -> str | None:
    if name.startswith("head.layers."):
        number, _, rest = name.removeprefix("head.layers.").partition(".")
        part, _, kind = rest.replace("in_proj_", "in_proj.").rpartition(".")
        block = _BLOCK.get(part)
        return None if block is None else f"blk.{first + int(number)}.{block}.{kind}"
    part, _, kind = name.rpartition(".")
    return f"{_TOP[part]}.{kind}" if part in _TOP else None
