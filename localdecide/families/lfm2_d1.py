"""Liquid d1: several tokens stand for one label, and the likeliest of them counts."""

from __future__ import annotations

import string
from collections.abc import Iterable

from localdecide.core.errors import BadModelFile, UnsupportedInput
from localdecide.core.questions import Choice, Noul, Question, Score
from localdecide.families import options
from localdecide.families.asked import Asked
from localdecide.families.base import Model
from localdecide.families.chatml import turns
from localdecide.families.codes import Codes
from localdecide.families.label_family import LabelFamily
from localdecide.families.labels import LETTERS, PAIRS
from localdecide.families.render import indented, spaced

NAME = "lfm2-d1"
JOINT = False

SIDES = {"true": ("yes", "Yes", "YES"), "false": ("no", "No", "NO")}
NUMBERS = tuple(f"{number:02d}" for number in range(100))
# Where a code is not one token, the first of these that is and that no other option has.
POOL = (*LETTERS, *NUMBERS, *string.ascii_lowercase, *(f"#{number}" for number in range(200)), *PAIRS)


def write(asked: Asked) -> str:
    question = asked.question
    instructions = "" if question.instructions is None else spaced(question.instructions)
    state = "" if asked.state is None else f"{indented(asked.state)}\n\n\nQUESTION:\n"
    user = turns(f"{state}{instructions}{_block(asked)}", answer="<|im_start|>assistant\n")
    return f"<|startoftext|>{user}"


def _block(asked: Asked) -> str:
    question = asked.question
    shown = options.liquid(question)
    listed = [f"{label} {text}" for label, text in asked.listed(shown)]
    match question:
        case Choice():
            return "\n\nOptions:\n" + "\n".join(listed) + "\n\nReply with the option code only."
        case Score():
            return "\n\n" + "\n".join(listed) + f"\n\nReply with a single digit 0-{len(listed) - 1} only."
        case Noul():
            given = any(each.value is not None for each in shown)
            sides = f"\nYes: {shown[0].text}\nNo: {shown[1].text}" if given else ""
            return f"{sides}\n\nReply with yes or no only."


def codes(model: Model, key: str, question: Question) -> Codes:
    """Groups of tokens: a code with and without a space in front; three spellings of yes and of no; a digit."""
    singles = model.cache.setdefault("lfm2-d1 singles", _Singles(model))
    match question:
        case Choice():
            return _choice(singles, key, [option.name for option in question.options])
        case Score():
            groups = [singles.of([name]) for name in question.keys]
        case Noul():
            groups = [singles.of(SIDES[name]) for name in question.keys]
    for name, group in zip(question.keys, groups, strict=True):
        if not group:
            raise BadModelFile(f'the label "{name}" is not one token in the vocabulary of this model')
    return Codes(question.keys, tuple(groups))


def _choice(singles: _Singles, key: str, names: list[str]) -> Codes:
    if all(len(name) == 1 and name.isascii() and name.isalpha() for name in names):
        wanted = names
    else:
        wanted = list(LETTERS[: len(names)]) if len(names) <= len(LETTERS) else [f"{i:02d}" for i in range(len(names))]
    taken: dict[int | None, str] = {None: ""}  # what is not one token is never free
    for code in wanted:
        text = next((text for text in (code, *POOL) if singles[text] not in taken), None)
        if text is None:
            problem = f"too many options ({len(names)}), this model has single tokens for {len(taken) - 1}"
            raise UnsupportedInput.at(("questions", key, "criteria"), problem, limit=len(taken) - 1, count=len(names))
        taken[singles[text]] = text
    del taken[None]
    groups = [singles.of((text, f" {text}")) for text in taken.values()]
    return Codes(tuple(taken.values()), tuple(groups))


class _Singles(dict[str, int | None]):
    """The token of a text that is one token by itself, or None; looked up once."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._vocabulary = model.vocabulary

    def __missing__(self, text: str) -> int | None:
        tokens = self._vocabulary.tokenize(text)
        self[text] = found = tokens[0] if len(tokens) == 1 else None
        return found

    def of(self, texts: Iterable[str]) -> tuple[int, ...]:
        """The distinct tokens of texts that are one token each."""
        return tuple(dict.fromkeys(token for token in map(self.__getitem__, texts) if token is not None))


family = LabelFamily(
    name=NAME,
    takes_null=True,
    codes=codes,
    write=write,
    true_first=True,
    readouts={"choice": "codes", "noul": "yesno", "score": "digits"},
    alphabet="the options' own letters, else A to Z, else 00 to 99 and others; yes and no; 0 to 9",
)
plan, read, describe = family.plan, family.read, family.describe
