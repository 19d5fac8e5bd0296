"""Prompts in pieces: a template marks where to cut and which pieces are spans that a head reads.

Pieces are tokenised apart, as the models were trained. What a mark looks like is our own affair, since
templates get it as an input; a user's text may spell it, so the marks hold the guard's character too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from localdecide.families.text import Guard


@dataclass(frozen=True, slots=True)
class Piece:
    """kind: "" for fixed text, else the name of the mark before it. tokens: may be cut by a budget."""

    kind: str
    tokens: list[int]


class Marks:
    """Marks of the given kinds, as inputs of a template: `sep`, and `mark_<kind>` for each."""

    def __init__(self, guard: Guard, family: str, kinds: tuple[str, ...]) -> None:
        self._guard = guard
        # Two marks in a row never stand in guarded text: only one is put after a first character.
        self._ends = f"<<{guard.mark}{guard.mark}{family}:", ">>"
        self._kinds = kinds

    def inputs(self) -> dict[str, str]:
        start, end = self._ends
        return {"sep": f"{start}{end}"} | {f"mark_{kind}": f"{start}{kind}{end}" for kind in self._kinds}

    def cut(self, rendered: str) -> list[Piece]:
        """The pieces in order; empty ones between two marks are dropped, empty spans are kept."""
        start, end = map(re.escape, self._ends)
        parts = re.split(f"{start}({'|'.join(self._kinds)}|){end}", rendered)
        # re.split with one group alternates text and kind; the text before the first mark has none.
        kinds = ["", *parts[1::2]]
        pieces = zip(kinds, parts[::2], strict=True)
        return [Piece(kind, self._guard.encode(text)) for kind, text in pieces if text or kind]


def join(pieces: list[Piece]) -> tuple[list[int], list[tuple[int, int]]]:
    """All tokens, and where each piece lies in them: start and end."""
    tokens: list[int] = []
    places = []
    for piece in pieces:
        places.append((len(tokens), len(tokens) + len(piece.tokens)))
        tokens += piece.tokens
    return tokens, places
