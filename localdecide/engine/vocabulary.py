"""The tokenizer that a GGUF carries, through llama.cpp."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import llama_cpp as llama
import numpy as np

from localdecide.core.plan import Special

_SENTENCEPIECE = 1  # enum llama_vocab_type


class LlamaVocabulary:
    """Text to tokens and back; see `core.plan.Vocabulary`. handle: a `llama_vocab` that outlives it."""

    def __init__(self, handle: Any, *, prefixes_space: bool | None = None) -> None:
        self._handle = handle
        self.size = int(llama.llama_vocab_n_tokens(handle))
        adds_bos = bool(llama.llama_vocab_get_add_bos(handle))
        bos = int(llama.llama_vocab_bos(handle))
        self.bos: int | None = bos if adds_bos and bos >= 0 else None
        self.bos_text = self.piece(bos) if bos >= 0 else ""
        eos = int(llama.llama_vocab_eos(handle))
        self.eos_text = self.piece(eos) if eos >= 0 else ""
        self.specials: Mapping[str, Special] = self._read_specials()
        if prefixes_space is None:
            prefixes_space = llama.llama_vocab_type(handle) == _SENTENCEPIECE
        self.prefixes_space = prefixes_space

    def _read_specials(self) -> dict[str, Special]:
        wanted = llama.LLAMA_TOKEN_ATTR_CONTROL | llama.LLAMA_TOKEN_ATTR_USER_DEFINED
        specials: dict[str, Special] = {}
        for token in range(self.size):
            attributes = llama.llama_vocab_get_attr(self._handle, token)
            if attributes & wanted:
                text = (llama.llama_vocab_get_text(self._handle, token) or b"").decode(errors="replace")
                if text:
                    specials[text] = Special(
                        token,
                        text,
                        control=bool(attributes & llama.LLAMA_TOKEN_ATTR_CONTROL),
                        lstrip=bool(attributes & llama.LLAMA_TOKEN_ATTR_LSTRIP),
                        rstrip=bool(attributes & llama.LLAMA_TOKEN_ATTR_RSTRIP),
                    )
        return specials

    def tokenize(self, text: str) -> list[int]:
        """Ids of ordinary text; control tokens in it are spelled out."""
        raw = text.encode()
        room = len(raw) + 8
        while True:
            buffer = np.empty(room, dtype=np.int32)
            pointer = buffer.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
            count = int(llama.llama_tokenize(self._handle, raw, len(raw), pointer, room, False, False))
            if count >= 0:
                tokens: list[int] = buffer[:count].tolist()
                return tokens
            room = -count

    def piece(self, token: int) -> str:
        """The text of one token; bytes that are not UTF-8 alone become U+FFFD."""
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            count = int(llama.llama_token_to_piece(self._handle, token, buffer, size, 0, True))
            if count >= 0:
                return buffer.raw[:count].decode(errors="replace")
            size = -count
