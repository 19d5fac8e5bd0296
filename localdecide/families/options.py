"""What each family writes for an option, and in which order it writes them.

A family shows options in an order of its own and may describe the two sides of a yes-or-no question
in words of its own. `Shown` keeps the way back to `Question.keys`, the order of every distribution.
Pure functions, named by family; the wording is the models' own and must not change by a character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from localdecide.core.jsontext import Json
from localdecide.core.questions import ABSENT, Absent, Choice, Noul, Question, Score
from localdecide.families import render

Render = Callable[[Json], str]


@dataclass(frozen=True, slots=True)
class Shown:
    """One option in a prompt. key: its name in `Question.keys`; value: what the caller wrote, null where nothing."""

    key: str
    value: Json
    text: str = ""


def described(question: Question) -> list[tuple[str, Json]]:
    """Every option as (key, description) in the order of `Question.keys`; a missing description is null."""
    match question:
        case Choice():
            return [(option.name, option.description) for option in question.options]
        case Score():
            return [(str(index), level) for index, level in enumerate(question.levels)]
        case Noul():
            return [("true", _side(question.true)), ("false", _side(question.false))]


def false_first(question: Question) -> list[tuple[str, Json]]:
    """As `described`, with a noul's false side first: kev, PPLX, d3, nimble, Laya, CLM."""
    pairs = described(question)
    return pairs[::-1] if isinstance(question, Noul) else pairs


def reorder(question: Question, shown: Iterable[Shown], values: Sequence[float]) -> tuple[float, ...]:
    """`values`, one per shown option in prompt order, put into the order of `Question.keys`."""
    by_key = {option.key: value for option, value in zip(shown, values, strict=True)}
    return tuple(by_key[key] for key in question.keys)


def pplx(question: Question) -> list[Shown]:
    """PPLX and Decision 3.0: `name: description` or the name; a level alone; a noul's side without its name.

    An empty string is a description, null is none; a noul's side that is empty in any way has a default.
    """
    defaults = {"false": "No / false", "true": "Yes / true"}
    options = []
    for key, value in false_first(question):
        match question:
            case Choice():
                text = key if value is None else f"{key}: {render.spaced(value)}"
            case Noul():
                text = render.spaced(value) if value else defaults[key]
            case Score():
                text = render.spaced(value)
        options.append(Shown(key, value, text))
    return options


def clef(question: Question) -> list[Shown]:
    """`{"description": ..., "option_id": ...}` as sorted compact JSON; choices sorted by name, true before false.

    A noul's absent side has a default description; one that is null has none.
    """
    pairs = described(question)
    if isinstance(question, Choice):
        pairs.sort(key=lambda pair: pair[0].encode())
    if isinstance(question, Noul):
        true = CLEF_TRUE if question.true is ABSENT else question.true
        false = CLEF_FALSE if question.false is ABSENT else question.false
        pairs = [("true", _side(true)), ("false", _side(false))]
    options = []
    for key, value in pairs:
        record: dict[str, Json] = {"option_id": key}
        if value is not None:
            record["description"] = value
        options.append(Shown(key, value, render.sorted_compact(record)))
    return options


CLEF_TRUE = "The proposition is true or the answer is yes."
CLEF_FALSE = "The proposition is false or the answer is no."


def liquid(question: Question) -> list[Shown]:
    """Liquid d1: the description, or the name with spaces for underscores; true before false."""
    options = []
    for key, value in described(question):
        if isinstance(question, Noul):
            text = "None" if value is None else render.spaced(value)
        elif isinstance(question, Score):
            text = render.spaced(value)
        else:
            text = render.spaced(value) if value else key.replace("_", " ")
        options.append(Shown(key, value, text))
    return options


def openjev(question: Question) -> list[Shown]:
    """`key: description`, with the space also where there is none; `yes` and `no` with defaults, yes first."""
    names = {"true": "yes", "false": "no"}
    defaults = {"true": "The statement is true.", "false": "The statement is false."}
    options = []
    for key, value in described(question):
        noul = isinstance(question, Noul)
        text = render.spaced(value) if value else defaults[key] if noul else ""
        options.append(Shown(key, value, f"{names[key] if noul else key}: {text}"))
    return options


def xor(question: Question) -> list[Shown]:
    """The description, or the name where it is null; a noul's blank side is `yes` or `no`, yes first."""
    names = {"true": "yes", "false": "no"}
    options = []
    for key, value in described(question):
        if isinstance(question, Noul):
            text = render.spaced(value or names[key])
        else:
            text = key if value is None else render.spaced(value)
        options.append(Shown(key, value, text))
    return options


def lev(question: Question) -> list[Shown]:
    """`name: description` or the name; `(level i of n-1) text`. A noul has a scale instead of options."""
    options = []
    last = len(question.keys) - 1
    for key, value in described(question):
        text = render.sorted_spaced(value) if value else ""
        name = f"{key}: {text}" if text else key
        options.append(Shown(key, value, f"(level {key} of {last}) {text}" if isinstance(question, Score) else name))
    return options


def nimble(question: Question) -> list[Shown]:
    """The description as text, empty where there is none; `No` and `Yes` for a noul, false first."""
    defaults = {"false": "No", "true": "Yes"}
    options = []
    for key, value in false_first(question):
        default = defaults[key] if isinstance(question, Noul) else key
        options.append(Shown(key, value, default if value is None else render.spaced(value)))
    return options


def tev(question: Question) -> list[Shown]:
    """Tev1: every option has a description; a choice's default is its name, a noul's `No` or `Yes`, false first."""
    return nimble(question)


def clm(question: Question) -> list[Shown]:
    """CLM's candidates: the description or the name, a level's text; a noul's sides name themselves, false first.

    A noul's default repeats the instructions, or is the side's name where there are none.
    """
    instructions = render.clm(question.instructions).strip()
    defaults = {"false": f"No. This is false: {instructions}", "true": f"Yes. This is true: {instructions}"}
    options = []
    for key, value in false_first(question):
        text = "" if value is None else render.clm(value)
        if isinstance(question, Noul):
            text = f"{key}: {text}" if text else f"{key}: {defaults[key]}" if instructions else key
        options.append(Shown(key, value, text or key))
    return options


def _side(value: Json | Absent) -> Json:
    return None if value is ABSENT else value
