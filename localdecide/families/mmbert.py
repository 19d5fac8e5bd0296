"""mmBERT's tokenizer (Julia-1) over bindings that do not know it: words are split here, tokenised one by one there.

The store loads such a vocabulary as `gemma4`, the nearest one the bindings know, and keeps its true name
in `localdecide.tokenizer.pre`. Spaces become U+2581; a stretch of text begins with one, and each begins a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from localdecide.core.plan import Special, Vocabulary
from localdecide.families.base import Model

KEY, NAME_OF_PRE = "localdecide.tokenizer.pre", "mmbert"
MASK = "<mask>"
SPACE = "\u2581"

_STRETCHES = re.compile(r"\n+|[^\n]+")
_WORD = re.compile(f"{SPACE}[^{SPACE}]*")


class MmbertVocabulary:
    """See `core.plan.Vocabulary`. inner: the same tokens, read as another tokenizer."""

    prefixes_space = True

    def __init__(self, inner: Vocabulary) -> None:
        self._inner = inner
        self.size, self.bos = inner.size, inner.bos
        specials = dict(inner.specials)
        if MASK in specials:
            specials[MASK] = replace(specials[MASK], lstrip=True)
        self.specials: Mapping[str, Special] = specials

    def tokenize(self, text: str) -> list[int]:
        """Ids of a stretch of text between special tokens."""
        tokens: list[int] = []
        for stretch in _STRETCHES.findall(text):
            if stretch[0] == "\n":
                tokens += self._inner.tokenize(stretch)
                continue
            spaced = stretch.replace(" ", SPACE)
            for word in _WORD.findall(spaced if spaced.startswith(SPACE) else SPACE + spaced):
                tokens += self._inner.tokenize(word)
        return tokens

    def piece(self, token: int) -> str:
        return self._inner.piece(token)


def vocabulary_of(model: Model) -> Vocabulary:
    """The model's vocabulary, as its file means it."""
    if model.metadata.get(KEY) != NAME_OF_PRE:
        return model.vocabulary
    if "mmbert" not in model.cache:
        model.cache["mmbert"] = MmbertVocabulary(model.vocabulary)
    found: Vocabulary = model.cache["mmbert"]
    return found
