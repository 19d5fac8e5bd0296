"""Tiny decision models as upstream's converter writes them: its keys, and a template in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from localdecide.core.model import ModelSpec
from localdecide.engine.llama import LlamaEngine
from localdecide.runner.loaded import LoadedModel
from tests.reference.judge.templates import TEMPLATES
from tests.tiny import build
from tests.tiny.model import TinyModel

# Temperatures as the real files have them; nimble and Liquid d1 have none.
TEMPERATURES: dict[str, dict[str, float]] = {
    "openjev": {"choice": 0.85, "score": 0.85, "noul": 1.554713},
    "lev": {
        "noul": 2.3333,
        "score": 2.8033,
        "choice": 1.7667,
        "choice.small": 1.7898,
        "choice.mid": 1.6086,
        "choice.large": 1.6641,
    },
    "nimble": {},
    "pplx-decider": {"choice": 1.25, "score": 1.25, "noul": 1.25},
    "lfm2-d1": {},
}
ARCHITECTURES = {"lfm2-d1": "lfm2"}
CONTEXT = 16384


def decision_file(family: str, path: Path, *, seed: int = 1, **metadata: Any) -> TinyModel:
    """A tiny model of a label family. metadata: more keys, or other values, by what follows `decision.`."""
    arch = ARCHITECTURES.get(family, "qwen35")
    keys: dict[str, Any] = {"type": family}
    keys |= {f"temperature.{name}": value for name, value in TEMPERATURES[family].items()}
    header = {f"{arch}.decision.{name}": value for name, value in (keys | metadata).items()}
    header["tokenizer.chat_template.systemone"] = TEMPLATES[family]
    header["tokenizer.chat_templates"] = ["systemone"]
    return build(arch, path, seed=seed, metadata=header, max_position_embeddings=CONTEXT)


def head_file(path: Path, rows: Any, **keys: Any) -> Path:
    """A readout head of our own layout. keys: `localdecide.head.*`."""
    writer = gguf.GGUFWriter(str(path), "localdecide-head")
    add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32, list: writer.add_array}
    for name, value in keys.items():
        add[type(value)](f"localdecide.head.{name}", value)
    writer.add_tensor("readout.weight", np.ascontiguousarray(rows, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


# As close to the reference as llama.cpp comes: float32 cache, no flash attention, one thread.
EXACT = {"num_ctx": CONTEXT, "flash_attention": "off", "kv_cache_type": "f32", "num_thread": 1}


def loaded(path: Path, *, exact: bool = True, **spec: Any) -> LoadedModel:
    """The runner's own join of family and engine over a file."""
    parameters = EXACT if exact else {"num_ctx": CONTEXT}
    return LoadedModel(ModelSpec("m:latest", str(path), parameters=parameters, **spec), {}, lambda fraction: None)


def engine(path: Path) -> LlamaEngine:
    """llama.cpp alone, for tests that put a family on it by hand."""
    from localdecide.engine.weights import start_backend

    start_backend()
    return LlamaEngine(str(path), EXACT)
