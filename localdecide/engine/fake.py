"""A deterministic engine without weights: the same protocol, for tests and for anyone's contract tests.

Its vocabulary is bytes, plus every two-letter label and a few control tokens. A logit is a hash of
the tokens before it and the label, so that every token matters and every number repeats.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from localdecide.core.errors import Cancelled
from localdecide.core.plan import Hidden, LabelRow, Labels, Limits, Plan, Prompt, Rows, Special
from localdecide.engine.base import Work, never, nothing, refuse_long

WIDTH = 16
_CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_WORDS = [a + b for a in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" for b in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"] + [
    "yes", "no", "Yes", "No", " A", " B",
]  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class FakeVocabulary:
    """Bytes 0 to 255, then whole words that labels need, then control tokens."""

    bos = None
    prefixes_space = False

    def __init__(self) -> None:
        self._words = {word: 256 + index for index, word in enumerate(_WORDS)}
        first = 256 + len(_WORDS)
        self.specials: Mapping[str, Special] = {
            text: Special(first + index, text, control=True) for index, text in enumerate(_CONTROL)
        }
        self.size = first + len(_CONTROL)

    def tokenize(self, text: str) -> list[int]:
        """Bytes, except that a word of the vocabulary which ends the text is one token."""
        for length in (3, 2):
            tail = text[-length:]
            if tail in self._words and not text[:-length][-1:].isalpha():
                return [*text[:-length].encode(), self._words[tail]]
        return list(text.encode())

    def piece(self, token: int) -> str:
        if token < 256:
            return bytes([token]).decode(errors="replace")
        return (*_WORDS, *_CONTROL)[token - 256]


class FakeEngine:
    """See `engine.base.Engine`. seed: another seed is another model; delay: seconds per prompt."""

    def __init__(self, seed: str = "", parameters: Mapping[str, Any] | None = None, delay: float = 0.0) -> None:
        self._seed, self._delay = seed.encode(), delay
        self.vocabulary = FakeVocabulary()
        self.limits = Limits(context=int((parameters or {}).get("num_ctx", 4096)), ubatch=4096, width=WIDTH)
        self.metadata: dict[str, Any] = {
            "general.architecture": "fake",
            "tokenizer.chat_template": TEMPLATE,
            "bos_text": "",
            "eos_text": "<|endoftext|>",
        }

    def evaluate(
        self,
        plan: Plan,
        *,
        exact: bool = False,
        cancelled: Callable[[], bool] = never,
        interrupt: Callable[[], Work | None] = nothing,
    ) -> Rows:
        refuse_long(plan.prompts, self.limits.context)
        values = []
        for prompt in plan.prompts:
            if cancelled():
                raise Cancelled("request canceled")
            if (work := interrupt()) is not None:
                work()
            if self._delay:
                time.sleep(self._delay)
            values.append([self._read(prompt, read) for read in prompt.reads])
        return Rows(values, decoded=sum(len(prompt.tokens) for prompt in plan.prompts))

    def _read(self, prompt: Prompt, read: Labels | Hidden) -> Any:
        if isinstance(read, Labels):
            logits = tuple(self._number(prompt.tokens[: read.position + 1], token) for token in read.tokens)
            # As if the rest of the vocabulary weighed a tenth of the labels.
            return LabelRow(logits, math.log(1.1 * math.fsum(map(math.exp, logits))), read.tokens[0])
        rows = [[self._number(prompt.tokens[: p + 1], -1 - i) for i in range(WIDTH)] for p in read.positions]
        return np.asarray(rows, dtype=np.float32)

    def _number(self, tokens: tuple[int, ...], salt: int) -> float:
        digest = hashlib.blake2b(repr((tokens, salt)).encode(), key=self._seed[:64], digest_size=8).digest()
        return int.from_bytes(digest) / 2**64 * 6 - 3

    def output_rows(self, tokens: list[int]) -> Any:
        rows = [[self._number((token,), i) for i in range(WIDTH)] for token in tokens]
        return np.asarray(rows, dtype=np.float32)

    def describe(self) -> dict[str, Any]:
        return {"engine": "fake", "context": self.limits.context}

    def close(self) -> None:
        """Nothing to free."""
