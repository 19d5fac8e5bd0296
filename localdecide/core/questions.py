"""The three questions: choice, noul (yes or no) and score, read from JSON and checked.

`parse_questions` holds the widest rules any contract has; a dialect that is stricter checks first.
"""

from __future__ import annotations

import enum
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from localdecide.core.errors import InvalidRequest, UnsupportedInput
from localdecide.core.jsontext import Json, is_blank

MAX_QUESTIONS = 256
MAX_OPTIONS = 255
MAX_LEVELS = 10

Loc = tuple[str | int, ...]


class Absent(enum.Enum):
    """The type of `ABSENT`: a member that the JSON does not have, as opposed to one that is null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Option:
    """One named option of a choice; `description` is a string, object, array or null."""

    name: str
    description: Json = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the named options? 1 to 255, in the caller's order."""

    options: tuple[Option, ...]
    instructions: Json = None

    kind = "choice"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple([option.name for option in self.options])


@dataclass(frozen=True, slots=True)
class Noul:
    """Yes or no? A side's description may be absent, null, a string, an object or an array."""

    instructions: Json = None
    true: Json | Absent = ABSENT
    false: Json | Absent = ABSENT

    kind = "noul"

    @property
    def keys(self) -> tuple[str, ...]:
        """The order of a noul's distribution everywhere outside a family: true first."""
        return ("true", "false")


@dataclass(frozen=True, slots=True)
class Score:
    """Where on ordered levels? 1 to 10 of them, lowest first."""

    levels: tuple[Json, ...]
    instructions: Json = None

    kind = "score"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(str(level) for level in range(len(self.levels)))


Question = Choice | Noul | Score


def parse_questions(raw: Any, loc: Loc = ("questions",)) -> dict[str, Question]:
    """The questions of a request by id, in the order they were asked.

    Raises InvalidRequest with the path of the first member that is wrong.
    """
    if raw is None:
        raise InvalidRequest.at(loc, "is required")
    if not isinstance(raw, Mapping):
        raise InvalidRequest.at(loc, "must be an object of questions by id")
    if not 1 <= len(raw) <= MAX_QUESTIONS:
        raise InvalidRequest.at(loc, f"must hold 1 to {MAX_QUESTIONS} questions, not {len(raw)}")
    for key in raw:
        if key == "":
            raise InvalidRequest.at(loc, "a question id must not be empty")
    return {key: parse_question(value, (*loc, key)) for key, value in raw.items()}


def parse_question(raw: Any, loc: Loc) -> Question:
    """One question from its JSON object `{type, instructions?, criteria?}`."""
    if not isinstance(raw, Mapping):
        raise InvalidRequest.at(loc, "must be an object")
    kind = raw.get("type")
    if kind == "box":
        raise UnsupportedInput.at((*loc, "type"), "box questions are not supported; use choice, noul or score")
    if not isinstance(kind, str) or kind not in _PARSERS:
        raise InvalidRequest.at((*loc, "type"), "must be choice, noul or score")
    for key in raw:
        if key not in ("type", "instructions", "criteria"):
            raise InvalidRequest.at((*loc, key), "is not a field of a question")
    instructions = _text(raw.get("instructions"), (*loc, "instructions"), null=True)
    return _PARSERS[kind](raw.get("criteria"), instructions, (*loc, "criteria"))


def question_to_json(question: Question) -> dict[str, Any]:
    """The JSON object that `parse_question` reads back to an equal question."""
    wire: dict[str, Any] = {"type": question.kind, "instructions": question.instructions}
    match question:
        case Choice():
            wire["criteria"] = {option.name: option.description for option in question.options}
        case Score():
            wire["criteria"] = list(question.levels)
        case Noul():
            sides = {"true": question.true, "false": question.false}
            wire["criteria"] = {side: text for side, text in sides.items() if text is not ABSENT}
    return wire


def _parse_choice(raw: Any, instructions: Json, loc: Loc) -> Choice:
    if not isinstance(raw, Mapping):
        raise InvalidRequest.at(loc, "must be an object of options and their descriptions")
    if not 1 <= len(raw) <= MAX_OPTIONS:
        raise InvalidRequest.at(loc, f"must hold 1 to {MAX_OPTIONS} options, not {len(raw)}")
    seen: dict[str, str] = {}
    for name in raw:
        check_option_name(name, seen, loc)
    options = [Option(name, _text(text, (*loc, name), null=True)) for name, text in raw.items()]
    return Choice(tuple(options), instructions)


def check_option_name(name: str, seen: dict[str, str], loc: Loc) -> None:
    """Refuses a name that is blank, has control or line-break characters, or repeats one in `seen`.

    The rule is SGLang's: categories Cc, Zl and Zp, and a repeat after trimming and case folding.
    """
    if not name.strip():
        raise InvalidRequest.at(loc, "an option name must not be blank")
    # What can be printed has none of them, and that is known faster.
    if not name.isprintable() and any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in name):
        raise InvalidRequest.at(loc, f"option name {name!r} has a control or line-break character")
    folded = name.strip().casefold()
    if folded in seen:
        raise InvalidRequest.at(loc, f"option name {name!r} repeats {seen[folded]!r}")
    seen[folded] = name


def _parse_noul(raw: Any, instructions: Json, loc: Loc) -> Noul:
    if raw is None:
        raw = {}
    if not isinstance(raw, Mapping):
        raise InvalidRequest.at(loc, "must be an object with true, false or both")
    for side in raw:
        if side not in ("true", "false"):
            raise InvalidRequest.at((*loc, side), "is not a side of a yes-or-no question; use true and false")
    sides: dict[str, Json | Absent] = {
        side: _text(raw[side], (*loc, side), null=True) if side in raw else ABSENT for side in ("true", "false")
    }
    if is_blank(instructions) and all(text is ABSENT or is_blank(text) for text in sides.values()):
        raise InvalidRequest.at(loc[:-1], "needs instructions or a described side")
    return Noul(instructions, sides["true"], sides["false"])


def _parse_score(raw: Any, instructions: Json, loc: Loc) -> Score:
    if not isinstance(raw, list | tuple):
        raise InvalidRequest.at(loc, "must be an array of levels, lowest first")
    if not 1 <= len(raw) <= MAX_LEVELS:
        raise InvalidRequest.at(loc, f"must hold 1 to {MAX_LEVELS} levels, not {len(raw)}")
    levels: list[Json] = []
    for index, raw_level in enumerate(raw):
        level = _text(raw_level, (*loc, index), null=False)
        if is_blank(level):
            raise InvalidRequest.at((*loc, index), "a level must not be blank")
        levels.append(level)
    return Score(tuple(levels), instructions)


def _text(value: Any, loc: Loc, *, null: bool) -> Json:
    if (null and value is None) or isinstance(value, _TEXT):
        return value
    allowed = "a string, object, array or null" if null else "a string, object or array"
    raise InvalidRequest.at(loc, f"must be {allowed}")


_TEXT = (str, dict, list)
_PARSERS: dict[str, Callable[[Any, Json, Loc], Question]] = {
    "choice": _parse_choice,
    "noul": _parse_noul,
    "score": _parse_score,
}
