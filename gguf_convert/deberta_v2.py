"""DeBERTa-v2 and v3: the tokenizer and the word embeddings alone. The layers go into the head's file.

llama.cpp has no such encoder; localdecide computes it itself (`localdecide.families.heads.deberta`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguf_convert.backbone import Change, same

ARCHITECTURE = "deberta-v2"
PRE = "default"


def keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """Header keys without the architecture's prefix."""
    return {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
    }


def tensor(name: str, config: Mapping[str, Any]) -> tuple[str, Change] | None:
    """The word embeddings; everything else is the head's."""
    return ("token_embd.weight", same) if name == "embeddings.word_embeddings.weight" else None
