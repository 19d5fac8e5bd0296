"""What prompts begin with alike, made into tokens once for all of them.

Tokenizers cut text into words before they look tokens up, and where one word ends depends on what is
near. So text may be made into tokens in two parts where a window around the cut gives the same tokens
whole and in parts, and where the first word after the cut ends before the common text does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Encode = Callable[[str], list[int]]

# A word behind a single space or a line break, and what ends it.
_WORD = re.compile(r"(?:(?<=[^\s]) |(?<=\n))[A-Za-z]{2,}(?=[^A-Za-z'])")
# Characters at the end of the common text among which a cut is looked for, and that it is tried in.
_REACH, _WINDOW = 4096, 128
_TRIES = 8


class Beginning:
    """text: what the prompts have in common. tokens: of all of it, as if nothing followed."""

    def __init__(self, encode: Encode, text: str, *, divisible: bool = True) -> None:
        cut = _cut(encode, text) if divisible else 0
        self._encode, self._text = encode, text[:cut]
        self._tokens = encode(self._text) if cut else []
        self.tokens = self._tokens + encode(text[cut:])

    def encode(self, prompt: str) -> list[int]:
        """Tokens of a prompt: those of its beginning, which are here already, and those of the rest."""
        if self._text and prompt.startswith(self._text):
            return self._tokens + self._encode(prompt[len(self._text) :])
        return self._encode(prompt)


def common(texts: Sequence[str]) -> str:
    """What all texts begin with; nothing where there are fewer than two."""
    if len(texts) < 2:
        return ""
    least, greatest = min(texts), max(texts)  # what these two begin with, all between them do
    low, high = 0, min(len(least), len(greatest))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if least[:middle] == greatest[:middle] else (low, middle - 1)
    return least[:low]


def shared(beginning: list[int], tokens: list[int]) -> int:
    """How many tokens of a prompt are those of its beginning; always fewer than all of them."""
    limit = min(len(beginning), len(tokens) - 1)
    if beginning[:limit] == tokens[:limit]:
        return limit
    return next(index for index in range(limit) if beginning[index] != tokens[index])


def _cut(encode: Encode, text: str) -> int:
    """The last place where the text may be divided; 0 where none of the last few may."""
    start = max(0, len(text) - _REACH)
    places = [(start + found.start(), start + found.end()) for found in _WORD.finditer(text[start:])]
    for place, end in places[: -_TRIES - 1 : -1]:
        left, right = text[max(0, place - _WINDOW) : place], text[place : end + 1]
        if left and encode(left + right) == encode(left) + encode(right):
            return place
    return 0
