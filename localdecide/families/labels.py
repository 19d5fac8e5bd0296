"""Labels: the tokens that stand for options, checked at the place where they are read.

The rules are those of SGLang's decisions route: a label must continue the prompt as exactly one
token of its own. Two-letter labels beyond 26 options are AA, AB, ... in that fixed order.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence

from localdecide.core.errors import UnsupportedInput
from localdecide.core.plan import Vocabulary

LETTERS = tuple(string.ascii_uppercase)
PAIRS = tuple(a + b for a in LETTERS for b in LETTERS)
DIGITS = tuple(string.digits)


def after_last_special(text: str, vocabulary: Vocabulary) -> str:
    """The end of a rendered prompt after its last special token: what a label is joined to."""
    end = 0
    for special in vocabulary.specials:
        found = text.rfind(special)
        if found >= 0:
            end = max(end, found + len(special))
    return text[end:]


def token_at(vocabulary: Vocabulary, suffix: str, base: Sequence[int], label: str) -> int | None:
    """The one token that `label` adds after `suffix`, or None if it adds more or changes what is before it.

    base: tokens of `suffix`.
    """
    tokens = vocabulary.tokenize(suffix + label)
    return tokens[-1] if len(tokens) == len(base) + 1 and tokens[:-1] == list(base) else None


def single_tokens(
    vocabulary: Vocabulary, suffix: str, labels: Iterable[str], limit: int | None = None
) -> dict[str, int]:
    """The labels that are one distinct token after `suffix`, in order, `limit` of them at most."""
    base = vocabulary.tokenize(suffix) if suffix else []
    found: dict[str, int] = {}
    taken: set[int] = set()
    for label in labels:
        if limit is not None and len(found) == limit:
            break
        token = token_at(vocabulary, suffix, base, label)
        if token is not None and token not in taken:
            found[label] = token
            taken.add(token)
    return found


def require_tokens(vocabulary: Vocabulary, suffix: str, labels: Sequence[str], question: str) -> tuple[int, ...]:
    """Token ids of labels that must all be there. Raises UnsupportedInput naming the first that is not."""
    found = single_tokens(vocabulary, suffix, labels)
    for label in labels:
        if label not in found:
            raise UnsupportedInput.at(
                ("questions", question),
                f'the label "{label}" is not one token of its own at the answer position of this model',
            )
    return tuple(found[label] for label in labels)
