"""Decision models with heads as upstream's converter writes them, and what an import makes of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch_heads

from localdecide.families import clef, kev, laya, lfm2_d1_omni
from localdecide.store.gguf_header import read_header
from localdecide.store.gguf_pieces import write as write_pieces
from localdecide.store.gguf_split import split
from tests.reference.julia_vocabulary import JuliaVocabulary
from tests.tiny import lfm2, modern_bert, qwen35
from tests.tiny.model import Random, write
from tests.tiny.vocabulary import LFM2, vocabulary

CONTEXT = 8192
HEADS = 4
LAYA_TEMPERATURES = {"choice": 2.0, "score": 1.3, "noul": 0.8, "choice.3_5": 1.5, "choice.11": 2.7}
KEV_TEMPERATURES = dict.fromkeys(("choice", "score", "noul"), 2.41)


@dataclass(frozen=True)
class HeadFiles:
    """whole: what upstream's server loads. backbone, head: what an import makes of it."""

    family: str
    whole: Path
    backbone: Path
    head: Path


def imported(family: str, whole: Path) -> HeadFiles:
    """The store's own split, written out."""
    parts = split(read_header(whole))
    written = []
    for name, pieces in (("backbone", parts.backbone), ("head", parts.head)):
        path = whole.with_suffix(f".{name}.gguf")
        with path.open("wb") as file:
            for _ in write_pieces(pieces, file, threading.Event()):
                pass
        written.append(path)
    return HeadFiles(family, whole, *written)


def header(arch: str, family: str, template: str, temperatures: dict[str, float], **keys: Any) -> dict[str, Any]:
    """The keys of a decision file, in full."""
    named = {"type": family} | {f"temperature.{name}": value for name, value in temperatures.items()} | keys
    return {f"{arch}.decision.{name}": value for name, value in named.items()} | {
        "tokenizer.chat_template.systemone": template,
        "tokenizer.chat_templates": ["systemone"],
    }


def kev_files(folder: Path) -> HeadFiles:
    head = torch_heads.pointer_to_gguf(torch_heads.scramble(torch_heads.Pointer(64, 32), 5, 1.2))
    keys = header("qwen35", "kev", kev.TEMPLATE, KEV_TEMPERATURES)
    output = {"qwen35.embedding_length_out": 64}
    options: dict[str, Any] = {"seed": 3, "max_position_embeddings": CONTEXT, "tie_word_embeddings": True}
    whole = qwen35.build(folder / "kev.gguf", metadata=keys | output, tensors=head, **options)
    return imported("kev", whole.path)


def joint_module() -> torch_heads.Joint:
    module: Any = torch_heads.scramble(torch_heads.Joint(64, 32, 2, 2, HEADS, 48), 9, 1.5)
    module.prior_logit_scale.data.fill_(1.5)
    module.joint_logit_scale.data.fill_(1.2)
    module.residual_gate.data.fill_(0.5)
    return module


def clef_files(folder: Path) -> HeadFiles:
    head = torch_heads.joint_to_gguf(joint_module())
    sizes = {"routing_block_count": 2, "block_count": 2, "head_count": HEADS}
    backbone = qwen35.build(folder / "qwen35.gguf", seed=4, max_position_embeddings=CONTEXT)
    renamed = qwen35.keys(backbone.config) | {"attention.layer_norm_epsilon": 1e-5}
    upstream = header("clef", "clef", clef.TEMPLATE, {}, **sizes)
    whole = write(
        folder / "clef.gguf", "clef", backbone.tensors | head, renamed, backbone.vocabulary, metadata=upstream
    )
    return imported("clef", whole)


def ollama_clef_files(folder: Path) -> HeadFiles:
    """The same weights as Ollama stores them: qwen35, the checkpoint's names behind `clef.`, sizes, no template."""
    sizes = {"hidden_size": 64, "width": 32, "heads": HEADS, "feedforward": 48, "layers": 2, "routing_layers": 2}
    keys = {f"qwen35.decision.{name}": value for name, value in ({"type": "clef"} | sizes).items()}
    head = {f"clef.{name}": array for name, array in torch_heads.arrays(joint_module()).items()}
    options: dict[str, Any] = {"seed": 4, "max_position_embeddings": CONTEXT}
    whole = qwen35.build(folder / "ollama.gguf", metadata=keys, tensors=head, **options)
    return imported("clef", whole.path)


def laya_files(folder: Path, *, activation: str = "gelu", name: str = "tiny encoder") -> HeadFiles:
    layers = modern_bert.CONFIG["num_hidden_layers"]
    head = torch_heads.marker_to_gguf(torch_heads.scramble(torch_heads.Marker(64, HEADS, 2, 1e-5), 12, 1.2), layers)
    template = laya.template_text("[CLS]", "[SEP]", "[MASK]")
    keys = header("modern-bert", "laya", template, LAYA_TEMPERATURES, max_head_tokens=192, block_count=2)
    deeper = {
        "modern-bert.block_count": layers + 2,
        "modern-bert.feed_forward_length": [modern_bert.CONFIG["intermediate_size"]] * layers + [256] * 2,
        "tokenizer.ggml.token_type_count": 3,
    }
    options: dict[str, Any] = {"seed": 6, "hidden_activation": activation, "name": name}
    options["max_position_embeddings"] = CONTEXT
    whole = modern_bert.build(folder / "laya.gguf", metadata=keys | deeper, tensors=head, **options)
    return imported("laya", whole.path)


def julia_files(folder: Path) -> HeadFiles:
    words: Any = JuliaVocabulary()
    config = modern_bert.CONFIG | {"vocab_size": len(words), "max_position_embeddings": CONTEXT}
    layers = config["num_hidden_layers"]
    weights = modern_bert.random_weights(config, Random(16))
    tensors = {modern_bert.gguf_name(name): array for name, array in weights.items()}
    head = torch_heads.scramble(torch_heads.Marker(64, HEADS, 2, 1e-5), 17, 1.2)
    tensors |= torch_heads.marker_to_gguf(head, layers)
    template = laya.template_text("<bos>", "<eos>", "<mask>", julia=True)
    keys = header("modern-bert", "laya", template, {}, max_head_tokens=256, block_count=2)
    keys["tokenizer.ggml.token_type_count"] = 3
    sizes = modern_bert.keys(config) | {
        "block_count": layers + 2,
        "feed_forward_length": [config["intermediate_size"]] * layers + [256] * 2,
    }
    whole = write(folder / "julia.gguf", "modern-bert", tensors, sizes, words, metadata=keys, name="Julia-1")
    return imported("laya", whole)


def omni_files(folder: Path) -> HeadFiles:
    kinds = lfm2.CONFIG["layer_types"]
    layers = len(kinds)
    head = torch_heads.marker_to_gguf(torch_heads.scramble(torch_heads.Marker(64, HEADS, 2, 1e-5), 12, 1.2), layers)
    keys = header("lfm2", "lfm2-d1-omni", lfm2_d1_omni.TEMPLATE, LAYA_TEMPERATURES, block_count=2)
    keys["lfm2.attention.layer_norm_epsilon"] = 1e-5
    pairs = [lfm2.CONFIG["num_key_value_heads"] if kind == lfm2.FULL else 0 for kind in kinds]
    words = vocabulary("lfm2", LFM2, eos="<|im_end|>", pad="<|pad|>", bos="<|startoftext|>")
    deeper = {
        "lfm2.block_count": layers + 2,
        "lfm2.feed_forward_length": [lfm2.CONFIG["intermediate_size"]] * layers + [256] * 2,
        "lfm2.attention.head_count_kv": [*pairs, HEADS, HEADS],
        "tokenizer.ggml.mask_token_id": words.id("<|mask|>"),
        "tokenizer.ggml.token_type_count": 3,
    }
    options: dict[str, Any] = {"seed": 6, "causal": False, "max_position_embeddings": CONTEXT}
    whole = lfm2.build(folder / "omni.gguf", metadata=keys | deeper, tensors=head, **options)
    return imported("lfm2-d1-omni", whole.path)


BUILDERS = {
    "kev": kev_files,
    "clef": clef_files,
    "laya": laya_files,
    "julia": julia_files,
    "lfm2-d1-omni": omni_files,
}
