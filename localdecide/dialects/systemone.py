"""The System One body that seven contracts share: a state and a map of questions, and answers by id.

Contracts differ in what they allow (`Rules`) and in how they report (`Style`); each dialect's file
says its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from localdecide.core import confidence, jsontext
from localdecide.core.answers import ChoiceAnswer, NoulAnswer, ScoreAnswer, answer
from localdecide.core.decision import Reading, Result
from localdecide.core.errors import InvalidRequest, ModelFailed, UnsupportedInput
from localdecide.core.jsontext import Json
from localdecide.core.questions import MAX_LEVELS, MAX_OPTIONS, MAX_QUESTIONS, Question, Score, parse_question
from localdecide.dialects.base import Asked, Body

QUESTION_FIELDS = ("type", "instructions", "criteria")


@dataclass(frozen=True, slots=True)
class Rules:
    """What a contract allows beyond or below the core's own rules. Pairs are least and most."""

    questions: tuple[int, int] = (1, MAX_QUESTIONS)
    options: tuple[int, int] = (1, MAX_OPTIONS)
    levels: tuple[int, int] = (1, MAX_LEVELS)
    any_state: bool = False
    blank_state: bool = True
    blank_ids: bool = False
    ignore_unknown: bool = False


def parse_state(body: Mapping[str, Any], rules: Rules) -> Json:
    """The state: a string, object or array, unless the contract takes any JSON. Raises InvalidRequest."""
    if "state" not in body:
        raise InvalidRequest.at(("state",), "is required")
    state: Json = body["state"]
    if not rules.any_state and not isinstance(state, str | dict | list):
        raise InvalidRequest.at(("state",), "must be a string, object or array")
    if not rules.blank_state and jsontext.is_blank(state):
        raise InvalidRequest.at(("state",), "state must not be empty")
    return state


def parse_map(raw: Any, rules: Rules, loc: tuple[str | int, ...] = ("questions",)) -> dict[str, Question]:
    """The questions by id, in the order asked. Raises InvalidRequest with the first wrong path."""
    if raw is None:
        raise InvalidRequest.at(loc, "is required")
    if not isinstance(raw, Mapping):
        raise InvalidRequest.at(loc, "must be an object of questions by id")
    check_count(len(raw), rules.questions, MAX_QUESTIONS, "questions", loc)
    parsed: dict[str, Question] = {}
    for key, value in raw.items():
        if not rules.blank_ids and (key == "" or (not rules.blank_state and not key.strip())):
            raise InvalidRequest.at(loc, "a question id must not be empty")
        parsed[key] = parse_one(value, rules, (*loc, key))
    return parsed


def parse_one(raw: Any, rules: Rules, loc: tuple[str | int, ...]) -> Question:
    """One question under `rules`."""
    if rules.ignore_unknown and isinstance(raw, Mapping):
        raw = {name: value for name, value in raw.items() if name in QUESTION_FIELDS}
    if isinstance(raw, Mapping):
        kind, criteria = raw.get("type"), raw.get("criteria")
        if kind == "choice" and isinstance(criteria, Mapping):
            check_count(len(criteria), rules.options, MAX_OPTIONS, "options", (*loc, "criteria"))
        elif kind == "score" and isinstance(criteria, list):
            check_count(len(criteria), rules.levels, MAX_LEVELS, "levels", (*loc, "criteria"))
    return parse_question(raw, loc)


def check_count(count: int, allowed: tuple[int, int], server: int, what: str, loc: tuple[str | int, ...]) -> None:
    """Refuses a count outside the contract's pair, and then one over what any model here reads."""
    least, most = allowed
    if not least <= count <= most:
        raise InvalidRequest.at(loc, f"must hold {least} to {most} {what}, not {count}")
    if count > server:
        raise UnsupportedInput.at(loc, f"{count} {what}: this API allows {most}, this server reads at most {server}")


def legend_text(level: Json) -> Json:
    """A level as text: strings as they are, anything else as its JSON."""
    return level if isinstance(level, str) else compact_json(level)


def legend_structured(level: Json) -> Json:
    """A level as it was sent."""
    return level


def compact_json(value: Json) -> str:
    """Compact JSON text with non-ASCII characters kept."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


Measure = Callable[[Reading], float]


def of_distribution(measure: Callable[[confidence.Distribution], float]) -> Measure:
    """A confidence that needs the probabilities alone."""
    return lambda reading: measure(reading.probabilities)


@dataclass(frozen=True, slots=True)
class Style:
    """How a contract reports. extras: fields added to an answer, given its question and reading."""

    choice: Measure
    score: Measure
    legend: Callable[[Json], Json] = legend_text
    extras: Callable[[Question, Reading], Body] = lambda question, reading: {}


def render_answer(question: Question, reading: Reading, style: Style) -> Body:
    """One answer in System One form."""
    body: Body
    match answer(question, reading.probabilities):
        case ChoiceAnswer(choice, probabilities):
            body = {"type": "choice", "choice": choice, "probabilities": probabilities}
            body["confidence"] = style.choice(reading)
        case NoulAnswer(noul):
            body = {"type": "noul", "noul": noul}
        case ScoreAnswer(score, probabilities):
            assert isinstance(question, Score)
            legend = {str(index): style.legend(level) for index, level in enumerate(question.levels)}
            body = {"type": "score", "score": score, "legend": legend, "probabilities": probabilities}
            body["confidence"] = style.score(reading)
    return {**body, **style.extras(question, reading)}


def render_answers(asked: Asked, result: Result, style: Style) -> Body:
    """All answers by id, in the order asked."""
    questions = asked.decision.questions
    return {key: render_answer(question, reading_of(result, key), style) for key, question in questions.items()}


def reading_of(result: Result, key: str) -> Reading:
    """The reading of one question, where the contract has no word for a question left unanswered."""
    try:
        return result.readings[key]
    except KeyError:
        raise ModelFailed(f"the model gave no answer to question {key!r}") from None


def usage(result: Result) -> Body:
    """Two integers: the sum of all prompts' tokens, and none generated."""
    return {"input_tokens": result.input_tokens, "output_tokens": 0}
