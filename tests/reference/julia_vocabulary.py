"""A tokenizer as mmBERT's: BPE over plain characters with U+2581 for spaces, bytes as a fallback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tiny.vocabulary import CONTROL, NORMAL, USER_DEFINED, spell, vocabulary

SPACE = "\u2581"
SPECIALS = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
UNKNOWN, BYTE = 2, 6


class JuliaVocabulary:
    """The merges of the tiny vocabularies that are plain ASCII, `Ġ` spelled as mmBERT does."""

    def __init__(self, pre: str = "mmbert") -> None:
        self.pre = pre
        tiny = vocabulary("qwen2", (("<x>", CONTROL),), eos="<x>", pad="<x>")
        allowed = {spell(" "): SPACE} | {chr(code): chr(code) for code in range(33, 127)}
        merges = [pair for pair in tiny.merges if all(letter in allowed for part in pair for letter in part)]
        self.merges = [tuple("".join(allowed[letter] for letter in part) for part in pair) for pair in merges]
        ordinary = [SPACE, *map(chr, range(33, 127)), *(left + right for left, right in self.merges)]
        bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
        breaks = ["\n" * count for count in range(1, 5)]
        self.tokens = [*SPECIALS, *bytes_, *breaks, *dict.fromkeys(ordinary)]
        kinds = [UNKNOWN if text == "<unk>" else CONTROL for text in SPECIALS]
        self.types = [*kinds, *[BYTE] * 256, *[USER_DEFINED] * len(breaks)]
        self.types += [NORMAL] * (len(self.tokens) - len(self.types))
        self.bos, self.eos, self.pad = 2, 1, 0

    def __len__(self) -> int:
        return len(self.tokens)

    def id(self, text: str) -> int:
        return self.tokens.index(text)

    def write(self, writer: Any) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        writer.add_token_merges([f"{left} {right}" for left, right in self.merges])
        ids: dict[Callable[[int], None], int] = {
            writer.add_bos_token_id: 2,
            writer.add_eos_token_id: 1,
            writer.add_pad_token_id: 0,
            writer.add_unk_token_id: 3,
            writer.add_sep_token_id: 1,
            writer.add_mask_token_id: 4,
        }
        for add, token in ids.items():
            add(token)
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(True)
