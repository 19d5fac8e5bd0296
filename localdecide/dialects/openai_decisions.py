"""The list of questions that OpenAI's decisions route takes, and its answers. vLLM serves it too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from localdecide.core.answers import ChoiceAnswer, NoulAnswer, ScoreAnswer, answer
from localdecide.core.decision import Reading, Result
from localdecide.core.errors import InvalidRequest
from localdecide.core.jsontext import is_blank
from localdecide.core.questions import (
    MAX_LEVELS,
    MAX_OPTIONS,
    MAX_QUESTIONS,
    Choice,
    Noul,
    Option,
    Question,
    Score,
    check_option_name,
)
from localdecide.dialects.base import Asked, Body
from localdecide.dialects.fields import items, members, refuse_unknown
from localdecide.dialects.openai_input import read_content
from localdecide.dialects.systemone import Measure, check_count

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a contract allows; pairs are least and most. null_names: whether a name may be null."""

    questions: tuple[int, int] = (1, 400)
    choices: tuple[int, int] = (2, 255)
    levels: tuple[int, int] = (2, 10)
    null_names: bool = True
    parts: bool = True


def parse_list(raw: Any, limits: Limits, loc: Loc = ("questions",)) -> dict[str, Question]:
    """Questions under ids of our own: the name where it is one of a kind, else the place in the list."""
    if raw is None:
        raise InvalidRequest.at(loc, "is required")
    listed = items(raw, loc)
    check_count(len(listed), limits.questions, MAX_QUESTIONS, "questions", loc)
    names = [item.get("name") if isinstance(item, dict) else None for item in listed]
    parsed: dict[str, Question] = {}
    for index, item in enumerate(listed):
        question = _question(members(item, (*loc, index)), limits, (*loc, index))
        name = names[index]
        if not isinstance(name, str) or not name.strip() or names.count(name) > 1:
            # A family that was trained with ids puts them into its prompt, so this is a plain word too.
            name = f"question_{index + 1}"
            while name in names:
                name += "_"
        parsed[name] = question
    return parsed


def _question(raw: dict[str, Any], limits: Limits, loc: Loc) -> Question:
    name = raw.get("name")
    if not isinstance(name, str) and (name is not None or ("name" in raw and not limits.null_names)):
        raise InvalidRequest.at((*loc, "name"), "must be a string when provided")
    kind = raw.get("type")
    fields = {"predicate": frozenset[str](), "choice": frozenset({"choices"}), "score": frozenset({"levels"})}
    if kind not in fields:
        raise InvalidRequest.at((*loc, "type"), "must be predicate, choice or score")
    refuse_unknown(raw, frozenset({"type", "name", "instructions"}) | fields[kind], loc)
    here = (*loc, "instructions")
    if not limits.parts and not isinstance(raw.get("instructions"), str):
        raise InvalidRequest.at(here, "must be a string")
    instructions = read_content(raw.get("instructions"), here, None)
    if is_blank(instructions):
        raise InvalidRequest.at(here, "must not be empty")
    if kind == "predicate":
        return Noul(instructions)
    if kind == "choice":
        return Choice(_options(raw.get("choices"), limits, (*loc, "choices")), instructions)
    return Score(_levels(raw.get("levels"), limits, (*loc, "levels")), instructions)


def _options(raw: Any, limits: Limits, loc: Loc) -> tuple[Option, ...]:
    """Options named by their values; true and "true" are two different values."""
    listed = items(raw, loc)
    check_count(len(listed), limits.choices, MAX_OPTIONS, "choices", loc)
    values = [_value(item, (*loc, index)) for index, item in enumerate(listed)]
    words = {value.strip().casefold() for value in values if isinstance(value, str)}
    seen: dict[str, str] = {}
    found: list[Option] = []
    for index, (item, value) in enumerate(zip(listed, values, strict=True)):
        word = value if isinstance(value, str) else str(value).lower()
        if isinstance(value, bool) and word in words:
            word += " (boolean)"
        check_option_name(word, seen, (*loc, index, "value"))
        found.append(Option(word, _description(item, (*loc, index))))
    return tuple(found)


def _value(raw: Any, loc: Loc) -> str | bool:
    item = members(raw, loc)
    refuse_unknown(item, frozenset({"value", "description"}), loc)
    value = item.get("value")
    if not isinstance(value, str | bool):
        raise InvalidRequest.at((*loc, "value"), "must be a string or a boolean")
    return value


def _levels(raw: Any, limits: Limits, loc: Loc) -> tuple[str, ...]:
    listed = items(raw, loc)
    check_count(len(listed), limits.levels, MAX_LEVELS, "levels", loc)
    found = []
    for index, item in enumerate(listed):
        here = (*loc, index)
        refuse_unknown(members(item, here), frozenset({"label", "description"}), here)
        label = item.get("label")
        if not isinstance(label, str) or not label.strip():
            raise InvalidRequest.at((*here, "label"), "must be a non-empty string")
        description = _description(item, here)
        found.append(f"{label} - {description}" if description else label)
    return tuple(found)


def _description(item: dict[str, Any], loc: Loc) -> str | None:
    value = item.get("description")
    if value is not None and not isinstance(value, str):
        raise InvalidRequest.at((*loc, "description"), "must be a string")
    return value


def render_list(asked: Asked, result: Result, measure: Measure) -> list[Body]:
    """Answers in the order asked, each with its question's name. A question left unanswered is a refusal."""
    rendered = []
    for raw, (key, question) in zip(asked.sent["questions"], asked.decision.questions.items(), strict=True):
        reading = result.readings.get(key)
        if reading is None:
            rendered.append({"type": "refusal", "name": raw.get("name")})
        else:
            rendered.append(_answer(raw, question, reading, measure))
    return rendered


def _answer(raw: Mapping[str, Any], question: Question, reading: Reading, measure: Callable[[Reading], float]) -> Body:
    head: Body = {"type": raw["type"], "name": raw.get("name")}
    p = reading.probabilities
    match answer(question, p):
        case NoulAnswer(noul):
            return {**head, "probability": noul}
        case ChoiceAnswer(choice, _):
            values = [item["value"] for item in raw["choices"]]
            return {
                **head,
                "choice": values[question.keys.index(choice)],
                "confidence": measure(reading),
                "probabilities": [{"value": value, "probability": q} for value, q in zip(values, p, strict=True)],
            }
        case ScoreAnswer(score, _):
            labels = [item["label"] for item in raw["levels"]]
            return {
                **head,
                "score": score,
                "confidence": measure(reading),
                "probabilities": [
                    {"value": index, "label": label, "probability": q}
                    for index, (label, q) in enumerate(zip(labels, p, strict=True))
                ],
            }


def render_usage(result: Result, output_tokens: int = 0) -> Body:
    """OpenAI's six integers. What the state cache held counts as cached input."""
    return {
        "input_tokens": result.input_tokens,
        "input_tokens_details": {
            "cached_tokens": min(result.cached_tokens, result.input_tokens),
            "cache_write_tokens": 0,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": result.input_tokens + output_tokens,
    }
