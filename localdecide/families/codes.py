"""Codes: what stands for the options of a question in a prompt, and the tokens that are read for it."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localdecide.core.errors import BadModelFile, UnsupportedInput
from localdecide.core.plan import Vocabulary
from localdecide.core.questions import MAX_OPTIONS, Question
from localdecide.families import head_file
from localdecide.families.base import Model
from localdecide.families.labels import LETTERS, PAIRS, single_tokens

LETTERS_52 = (*LETTERS, *string.ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Codes:
    """texts: one for each output, as the prompt shows it. groups: the tokens of each; the likeliest counts."""

    texts: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]


# The codes of one question. Raises UnsupportedInput where it has more options than there are codes.
Coder = Callable[[Model, str, Question], Codes]


def letters(alphabet: Sequence[str], space: str = "") -> Coder:
    """A fixed alphabet, each letter one token; `space` is read in front of it but not shown."""

    def coder(model: Model, key: str, question: Question) -> Codes:
        count = len(question.keys)
        refuse_over(len(alphabet), count, key)
        found = _cached(model, ("letters", space, *alphabet), lambda: _alone(model.vocabulary, alphabet, space))
        missing = next((letter for letter in alphabet[:count] if letter not in found), None)
        if missing is not None:
            raise BadModelFile(f'the label "{space}{missing}" is not one token in the vocabulary of this model')
        return Codes(tuple(alphabet[:count]), tuple((found[letter],) for letter in alphabet[:count]))

    return coder


def letters_then_pairs(model: Model, key: str, question: Question) -> Codes:
    """A to Z, then AA to ZZ, those that are one token of their own, 255 of them at most."""
    return first_codes(model, key, len(question.keys))


def first_codes(model: Model, key: str, count: int) -> Codes:
    """The first `count` of `letters_then_pairs`."""
    found = _cached(model, "pairs", lambda: _alone(model.vocabulary, (*LETTERS, *PAIRS), "", MAX_OPTIONS))
    refuse_over(len(found), count, key)
    texts = tuple(found)[:count]
    return Codes(texts, tuple((found[text],) for text in texts))


def head_codes(model: Model, key: str, question: Question) -> Codes:
    """The codes of a readout head, whose rows are read instead of tokens; without one, `letters_then_pairs`."""
    if not head_file.has_readout(model):
        return letters_then_pairs(model, key, question)
    count = len(question.keys)
    said = head_file.keys(model).get("codes")
    if said is None:
        return first_codes(model, key, count)
    refuse_over(len(said), count, key)
    return Codes(tuple(map(str, said[:count])), ((),) * count)


def refuse_over(limit: int, count: int, key: str) -> None:
    """Raises UnsupportedInput when a question has more options than there are codes."""
    if count > limit:
        raise UnsupportedInput.at(
            ("questions", key, "criteria"),
            f"too many options ({count}), this model supports at most {limit}",
            limit=limit,
            count=count,
        )


def _alone(vocabulary: Vocabulary, labels: Sequence[str], space: str, limit: int | None = None) -> dict[str, int]:
    """Labels that are one token by themselves: the rule of these models' own code."""
    spaced = single_tokens(vocabulary, "", [space + label for label in labels], limit)
    return {label[len(space) :]: token for label, token in spaced.items()}


def _cached(model: Model, key: object, make: Callable[[], dict[str, int]]) -> dict[str, int]:
    if key not in model.cache:
        model.cache[key] = make()
    found: dict[str, int] = model.cache[key]
    return found
