"""Tiny checkpoints of decision models as their makers publish them, and readers of what a conversion wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from gguf_convert.__main__ import main
from localdecide.core.model import ModelSpec
from localdecide.runner.loaded import LoadedModel
from tests.tiny.checkpoint import write_safetensors

__all__ = ["arrays", "converted", "keys", "load", "write_json", "write_safetensors"]


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def converted(folder: Path, out: Path, base: Path | None = None, kind: str = "F32") -> tuple[Path, Path]:
    """The files of a conversion that must succeed."""
    arguments = [str(folder), "--out", str(out), "--type", kind]
    assert main([*arguments, *(["--base", str(base)] if base else [])]) == 0
    name = folder.name.lower()
    return out / f"{name}.gguf", out / f"{name}-head.gguf"


def arrays(path: Path) -> dict[str, np.ndarray]:
    """Tensors of a GGUF by name, [out, in]."""
    found = {}
    for tensor in gguf.GGUFReader(path).tensors:
        found[tensor.name] = np.array(tensor.data).reshape(tuple(int(side) for side in reversed(tensor.shape)))
    return found


def keys(path: Path) -> dict[str, Any]:
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}


def load(model: Path, head: Path, family: str | None = None) -> LoadedModel:
    spec = ModelSpec("m:latest", str(model), head=str(head), family=family, parameters={"num_thread": 1})
    return LoadedModel(spec, {}, lambda fraction: None)
