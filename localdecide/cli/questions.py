"""The terminal's grammar of a question: one line of text -> (id, System One question object).

    choice   [id: ]instructions = option[: description] | option[: description] ...
    yes-no   [id: ]instructions [= yes: description | no: description]
    score    [id: ]instructions = lowest level < next level < ... highest level

A colon separates only when white space or the end follows it, so `17:00` and `https://x` stay whole.
The `=` is the first with white space on both sides, else the first. Without an id the instructions
are the id. A backslash before `|`, `:`, `=`, `<` or `\\` makes it an ordinary character.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from localdecide.core.errors import InvalidRequest
from localdecide.core.questions import parse_question

KINDS = ("choice", "yes-no", "score")

EXAMPLES = {
    "choice": "team: Which team? = billing: payments | technical: bugs | sales",
    "yes-no": "urgent: Needs an answer today",
    "score": "tone: How upset? = calm < annoyed < furious",
}

_SPECIAL = "|:=<\\"
_SIDES = {"yes": "true", "true": "true", "no": "false", "false": "false"}

# A character and whether it may separate: false where a backslash stood before it.
_Text = list[tuple[str, bool]]


class QuestionSyntax(ValueError):
    """A question line that cannot be read; `kind` tells which example helps."""

    def __init__(self, kind: str, text: str, problem: str) -> None:
        super().__init__(f"--{kind} {text!r}: {problem}")
        self.kind = kind
        self.text = text
        self.problem = problem


def parse(kind: str, text: str) -> tuple[str, dict[str, Any]]:
    """The id and the question object of one line. `kind` is one of `KINDS`. Raises QuestionSyntax."""
    key, question = _READERS[kind](_read(text), kind, text)
    try:
        parse_question(question, ())
    except InvalidRequest as error:
        raise QuestionSyntax(kind, text, error.problem) from None
    return key, question


def yes_no(text: str) -> tuple[str, dict[str, Any]]:
    """A plain yes-or-no question whose whole text is instructions and id, with no grammar."""
    if not text.strip():
        raise QuestionSyntax("yes-no", text, "the question is blank")
    return text.strip(), {"type": "noul", "instructions": text.strip()}


def collect(lines: Iterable[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Questions by id in the order given. Raises QuestionSyntax for a line or a repeated id."""
    questions: dict[str, dict[str, Any]] = {}
    for kind, text in lines:
        key, question = parse(kind, text) if kind in KINDS else yes_no(text)
        if key in questions:
            raise QuestionSyntax(kind if kind in KINDS else "yes-no", text, f"another question has the id {key!r}")
        questions[key] = question
    return questions


def _choice(text: _Text, kind: str, raw: str) -> tuple[str, dict[str, Any]]:
    key, question, body = _with_body(text, kind, raw, "the options, separated by `|`")
    options: dict[str, str | None] = {}
    for part in _split(body, "|"):
        name, description = _named(part)
        if not name:
            raise QuestionSyntax(kind, raw, "an option is blank")
        if name in options:
            raise QuestionSyntax(kind, raw, f"the option {name!r} is there twice")
        options[name] = description or None
    return key, question | {"criteria": options}


def _score(text: _Text, kind: str, raw: str) -> tuple[str, dict[str, Any]]:
    key, question, body = _with_body(text, kind, raw, "the levels, lowest first, separated by `<`")
    levels = [_plain(part) for part in _split(body, "<")]
    if "" in levels:
        raise QuestionSyntax(kind, raw, "a level is blank")
    return key, question | {"criteria": levels}


def _yes_no(text: _Text, kind: str, raw: str) -> tuple[str, dict[str, Any]]:
    at = _equals(text)
    sides = _sides(text[at + 1 :]) if at is not None else None
    key, instructions = _head(text[:at] if sides else text)
    if not key:
        raise QuestionSyntax(kind, raw, "the question is blank")
    question: dict[str, Any] = {"type": "noul", "instructions": instructions}
    return key, question | {"criteria": sides} if sides else question


def _sides(text: _Text) -> dict[str, str] | None:
    """`yes: ... | no: ...`; None where the text is anything else, and then its `=` separates nothing."""
    sides: dict[str, str] = {}
    for part in _split(text, "|"):
        name, description = _named(part)
        side = _SIDES.get(name.lower())
        if side is None or side in sides or not description:
            return None
        sides[side] = description
    return sides


def _with_body(text: _Text, kind: str, raw: str, needed: str) -> tuple[str, dict[str, Any], _Text]:
    at = _equals(text)
    if at is None or not _plain(text[at + 1 :]):
        raise QuestionSyntax(kind, raw, f"needs `=` and {needed}")
    key, instructions = _head(text[:at])
    question: dict[str, Any] = {"type": kind}
    if instructions:
        question["instructions"] = instructions
    return key or kind, question, text[at + 1 :]


def _head(text: _Text) -> tuple[str, str]:
    """Id and instructions: each stands for the other where only one is given."""
    key, instructions = _named(text)
    return key or instructions or "", instructions or key


def _named(text: _Text) -> tuple[str, str | None]:
    """`name: rest`, both trimmed; None for the rest where no colon separates."""
    for index, (character, separates) in enumerate(text):
        if separates and character == ":" and (index + 1 == len(text) or text[index + 1][0].isspace()):
            return _plain(text[:index]), _plain(text[index + 1 :])
    return _plain(text), None


def _equals(text: _Text) -> int | None:
    found = [index for index, item in enumerate(text) if item == ("=", True)]
    spaced = [index for index in found if _blank_at(text, index - 1) and _blank_at(text, index + 1)]
    return next(iter(spaced or found), None)


def _blank_at(text: _Text, index: int) -> bool:
    return not 0 <= index < len(text) or text[index][0].isspace()


def _split(text: _Text, separator: str) -> list[_Text]:
    parts: list[_Text] = [[]]
    for item in text:
        if item == (separator, True):
            parts.append([])
        else:
            parts[-1].append(item)
    return parts


def _read(text: str) -> _Text:
    read: _Text = []
    characters = iter(text)
    for character in characters:
        if character != "\\":
            read.append((character, True))
            continue
        following = next(characters, "")
        if not following or following not in _SPECIAL:  # an ordinary backslash, as in C:\temp
            read.append(("\\", False))
        if following:
            read.append((following, False))
    return read


def _plain(text: _Text) -> str:
    return "".join(character for character, _ in text).strip()


_READERS = {"choice": _choice, "yes-no": _yes_no, "score": _score}
