"""A plan: the tokens of every prompt of a request and what to read in them.

A family writes it, an engine evaluates it; neither knows the other. Token ids in, numbers out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Attention = Literal["causal", "bidirectional"]


@dataclass(frozen=True, slots=True)
class Labels:
    """Read the logits of `tokens` after the token at `position`, and the log-normaliser of the vocabulary."""

    position: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hidden:
    """Read the hidden rows (after the output norm) at `positions`: float32 [len(positions), n_embd]."""

    positions: tuple[int, ...]


Read = Labels | Hidden


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of one question.

    question: the id it belongs to (for messages; a joint prompt names its first question).
    tokens: all of it, from position 0.
    shared: how many leading tokens depend on the state alone, and so may be decoded once for a
        request and kept between requests. 0 where nothing is shared.
    reads: positions index `tokens`.
    """

    question: str
    tokens: tuple[int, ...]
    reads: tuple[Read, ...]
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """All prompts of a request, in the order of its questions. Bidirectional prompts share nothing."""

    prompts: tuple[Prompt, ...]
    attention: Attention = "causal"


@dataclass(frozen=True, slots=True)
class LabelRow:
    """What a `Labels` read returns.

    logits: one per label token. log_norm: log of the sum of exp over the whole vocabulary.
    argmax: the vocabulary's most likely token.
    """

    logits: tuple[float, ...]
    log_norm: float
    argmax: int

    @property
    def logprobs(self) -> tuple[float, ...]:
        return tuple(logit - self.log_norm for logit in self.logits)


Row = Any  # LabelRow for a Labels read, a float32 array for a Hidden read


@dataclass(frozen=True, slots=True)
class Rows:
    """`values[p][r]` answers read r of prompt p. decoded and cached count tokens.

    padding: rows that were decoded with them for the sake of speed.
    """

    values: Sequence[Sequence[Row]]
    decoded: int = 0
    cached: int = 0
    padding: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """A token with a meaning of its own: a control token or one that its maker defined.

    strips: white space that the tokenizer removes beside it.
    """

    id: int
    text: str
    control: bool
    lstrip: bool = False
    rstrip: bool = False


class Vocabulary(Protocol):
    """A tokenizer's face: ordinary text in, token ids out."""

    @property
    def size(self) -> int: ...
    @property
    def bos(self) -> int | None:
        """The token every prompt of this model begins with, or None where it adds none."""
        ...

    @property
    def specials(self) -> Mapping[str, Special]:
        """Special tokens by their text."""
        ...

    @property
    def prefixes_space(self) -> bool:
        """Whether each piece of text gets a space in front (SentencePiece)."""
        ...

    def tokenize(self, text: str) -> list[int]:
        """Ids of ordinary text: nothing is added and no control token is recognised."""
        ...

    def piece(self, token: int) -> str:
        """The text of one token, special tokens included."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What an engine can take. context: tokens of one prompt; ubatch: of one bidirectional prompt."""

    context: int
    ubatch: int
    width: int = 0
