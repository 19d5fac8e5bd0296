"""Words from users stay words: template text may hold special tokens, text from a request never does.

A guard breaks every special-token look-alike in user text with a mark, a character that occurs
nowhere else in the request. The text is then rendered by any template, and `encode` turns it into
tokens: special tokens where the template wrote them, ordinary tokens everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from localdecide.core.jsontext import Json
from localdecide.core.plan import Vocabulary

# Noncharacters first (no text may interchange them), then a private-use plane that is never exhausted.
_MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)] + [chr(code) for code in range(0xF0000, 0xFFFFE)]


class Guard:
    """Guards the user strings of one request. values: all of them, so that the mark occurs in none."""

    def __init__(self, vocabulary: Vocabulary, *values: Any) -> None:
        self._vocabulary = vocabulary
        self._specials = vocabulary.specials
        self._pattern, self._risky = _patterns(vocabulary)
        used = set().union(*(set(text) for value in values for text in _strings(value)), set())
        self.mark = next(mark for mark in _MARKS if mark not in used)

    def wrap(self, value: Json) -> Any:
        """`value` with the mark after the first character of every look-alike in its strings and keys."""
        if isinstance(value, str):
            return self._risky.sub(lambda found: found[0][0] + self.mark + found[0][1:], value)
        if isinstance(value, list):
            return [self.wrap(item) for item in value]
        if isinstance(value, dict):
            return {self.wrap(key): self.wrap(item) for key, item in value.items()}
        return value

    def plain(self, text: str) -> str:
        """Rendered text without marks: what a person would read."""
        return text.replace(self.mark, "")

    def encode(self, text: str) -> list[int]:
        """Token ids of rendered text: special tokens recognised where no mark breaks them.

        White space beside a special token that its tokenizer strips is stripped. Adds no BOS.
        """
        tokens: list[int] = []
        start = 0
        strip_left = False
        for found in self._pattern.finditer(text):
            special = self._specials[found[0]]
            self._ordinary(text[start : found.start()], strip_left, special.lstrip, tokens)
            tokens.append(special.id)
            start, strip_left = found.end(), special.rstrip
        self._ordinary(text[start:], strip_left, False, tokens)
        return tokens

    def _ordinary(self, text: str, strip_left: bool, strip_right: bool, tokens: list[int]) -> None:
        if strip_left:
            text = text.lstrip()
        if strip_right:
            text = text.rstrip()
        # Where each piece gets a space in front, cutting would put a second one into the text; such
        # vocabularies recognise control tokens only when asked to, so joining again is safe.
        whole = self._vocabulary.prefixes_space
        pieces = [self.plain(text)] if whole else text.split(self.mark)
        for piece in pieces:
            if piece:
                tokens.extend(self._vocabulary.tokenize(piece))


def _looks_special(text: str) -> bool:
    """A user-defined token that stands for structure (`<think>`, `[INST]`), not for words or white space."""
    return re.fullmatch(r"<[|/]?[\w|:.-]+[|/]?>|\[/?[A-Z_]+\]", text) is not None


def _patterns(vocabulary: Vocabulary) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """All special tokens, and those of them that user text must not spell."""
    return _compiled(tuple((text, special.control) for text, special in vocabulary.specials.items()))


@lru_cache(maxsize=4)
def _compiled(specials: tuple[tuple[str, bool], ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    texts = [text for text, _ in specials if len(text) > 1]
    risky = [text for text, control in specials if len(text) > 1 and (control or _looks_special(text))]
    return _alternatives(texts), _alternatives(risky)


def _alternatives(words: list[str]) -> re.Pattern[str]:
    """A pattern of any of `words`, the longest first, as a trie: some vocabularies have thousands."""
    root: dict[str, Any] = {}
    for word in words:
        node = root
        for character in word:
            node = node.setdefault(character, {})
        node[""] = {}
    return re.compile(_branch(root) if words else r"(?!)")


def _branch(node: dict[str, Any]) -> str:
    tails = [re.escape(character) + _branch(child) for character, child in node.items() if character]
    if not tails:
        return ""
    body = tails[0] if len(tails) == 1 and "" not in node else f"(?:{'|'.join(tails)})"
    return body + "?" if "" in node else body


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
