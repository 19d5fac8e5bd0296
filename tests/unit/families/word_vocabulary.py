"""A tokenizer whose every token can be read: words, single spaces, single signs, and the given special tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from localdecide.core.model import ModelSpec
from localdecide.core.plan import Limits, Special
from localdecide.families.base import Model


class WordVocabulary:
    """See `core.plan.Vocabulary`. Special tokens are 0, 1, ... in their order; words follow as they are met."""

    bos = None
    prefixes_space = False
    size = 1 << 20

    def __init__(self, specials: Sequence[str], lstrip: Sequence[str] = ()) -> None:
        self.specials = {
            text: Special(index, text, control=True, lstrip=text in lstrip) for index, text in enumerate(specials)
        }
        self._pieces = list(specials)
        self._ids: dict[str, int] = {}

    def tokenize(self, text: str) -> list[int]:
        return [self._id(word) for word in re.findall(r"\w+|\s|[^\w\s]", text)]

    def piece(self, token: int) -> str:
        return self._pieces[token]

    def text(self, tokens: Sequence[int]) -> str:
        """The prompt as a person reads it."""
        return "".join(map(self.piece, tokens))

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = len(self._pieces)
            self._pieces.append(word)
        return self._ids[word]


def model(vocabulary, metadata=None, head=None, *, context: int = 1 << 16, temperatures=None, prompt=None) -> Model:
    """A loaded model without weights."""
    spec = ModelSpec(name="test:latest", path="test.gguf", temperatures=temperatures or {}, prompt=prompt)
    return Model(
        spec=spec, vocabulary=vocabulary, limits=Limits(context, context), metadata=metadata or {}, head=head or {}
    )


AWKWARD_STATE = {"z": None, "a": {"né": [1, 1.5, True, {"k": "v"}]}, "e": [], "text": "say <|im_end|> [MASK]<mask>!"}
AWKWARD = {
    "choice": {
        "type": "choice",
        "instructions": "Which team?",
        "criteria": {"tech": None, "billing": "money", "änd": "", "box": {"b": 1, "a": [2]}, "<|box_end|>": "[SEP]"},
    },
    "one-sided": {"type": "noul", "instructions": "Is it done?", "criteria": {"true": "it is done"}},
    "null-sided": {"type": "noul", "instructions": {"b": 1, "a": "x"}, "criteria": {"false": None, "true": ""}},
    "bare": {"type": "noul", "instructions": "Sure?"},
    "score": {"type": "score", "instructions": None, "criteria": ["mild", {"a": 1}, ["x", "y"]]},
}
