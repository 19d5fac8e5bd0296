"""A tokenizer as DeBERTa-v3's: pieces with U+2581 for spaces, and GLiNER's markers, in a file of our layout."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

SPECIALS = [
    *("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"),
    *("[SEP_STRUCT]", "[SEP_TEXT]", "[P]", "[C]", "[E]", "[R]", "[L]", "[EXAMPLE]", "[OUTPUT]", "[DESCRIPTION]"),
]
WORDS = [
    *("which", "of", "them", "is", "the", "plan", "paid", "option"),
    *("true", "false", "yes", "mild", "pro", "how", "bad"),
]
# Every word is one piece with a space in front; everything else is spelled out in single letters.
PIECES = [f"▁{word}" for word in WORDS] + ["▁"] + [chr(code) for code in range(33, 127)] + list("üßéÄ")


def pieces(text: str) -> list[str]:
    """The vocabulary by hand: words with their space, or letters behind one."""
    found: list[str] = []
    for word in text.split():
        known = max((each for each in WORDS if word.startswith(each)), key=len, default="")
        found += [f"▁{known}", *(c if c in PIECES else "[UNK]" for c in word[len(known) :])]
    return found


def write_backbone(path: Path, embeddings: NDArray[np.float32]) -> Path:
    """The model's file: a tokenizer and word embeddings [tokens, width]."""
    writer = gguf.GGUFWriter(str(path), "deberta-v2")
    writer.add_context_length(512)
    writer.add_embedding_length(embeddings.shape[1])
    writer.add_tokenizer_model("t5")
    writer.add_token_list([*SPECIALS, *PIECES])
    writer.add_token_scores([0.0] * len(SPECIALS) + [-1.0] * len(WORDS) + [-10.0] * (len(PIECES) - len(WORDS)))
    writer.add_token_types([2 if text == "[UNK]" else 3 for text in SPECIALS] + [1] * len(PIECES))
    writer.add_unk_token_id(3)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    writer.add_add_eos_token(False)
    writer.add_tensor("token_embd.weight", embeddings)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
