"""Questions: what is accepted, what is refused and with which path."""

from __future__ import annotations

from typing import Any

import pytest

from localdecide.core.errors import InvalidRequest, UnsupportedInput
from localdecide.core.questions import (
    ABSENT,
    Choice,
    Noul,
    Option,
    Score,
    parse_question,
    parse_questions,
    question_to_json,
)

LOC = ("questions", "q")


def choice(*names: str) -> dict[str, Any]:
    return {"type": "choice", "instructions": "Which?", "criteria": dict.fromkeys(names)}


def test_choice_keeps_order_and_every_kind_of_description() -> None:
    """Options keep the caller's order; descriptions may be null, text, an object or an array."""
    raw = {"type": "choice", "criteria": {"b": None, "a": "text", "c": {"k": [1]}, "d": ["x"]}}

    question = parse_question(raw, LOC)

    assert Choice((Option("b"), Option("a", "text"), Option("c", {"k": [1]}), Option("d", ["x"]))) == question


def test_noul_tells_absent_from_null() -> None:
    """A side that is absent is not the same as a side that is null."""
    question = parse_question({"type": "noul", "instructions": "Is it?", "criteria": {"true": None}}, LOC)

    assert Noul("Is it?", None, ABSENT) == question


@pytest.mark.parametrize(
    "criteria", [None, {}, {"true": "yes"}, {"false": {"a": 1}}, {"true": None, "false": None}, {"true": ["x"]}]
)
def test_noul_criteria_in_all_shapes(criteria: Any) -> None:
    """Absent, null, one-sided and structured criteria are accepted with instructions."""
    assert isinstance(parse_question({"type": "noul", "instructions": "Is it?", "criteria": criteria}, LOC), Noul)


def test_score_levels() -> None:
    """Levels are text, objects or arrays, 1 to 10."""
    question = parse_question({"type": "score", "criteria": ["low", {"a": 1}, ["x"]]}, LOC)

    assert Score(("low", {"a": 1}, ["x"])) == question
    assert len(parse_question({"type": "score", "criteria": ["l"] * 10}, LOC).keys) == 10


@pytest.mark.parametrize("count", [1, 2, 26, 27, 255])
def test_choice_sizes(count: int) -> None:
    """1 to 255 options."""
    names = [f"Queue {number:03}" for number in range(count)]

    assert tuple(names) == parse_question(choice(*names), LOC).keys


@pytest.mark.parametrize(
    ("raw", "loc"),
    [
        ([], "questions.q"),
        ({"criteria": {"a": None}}, "questions.q.type"),
        ({"type": "boolean"}, "questions.q.type"),
        ({"type": ["choice"]}, "questions.q.type"),
        ({**choice("a"), "extra": 1}, "questions.q.extra"),
        ({**choice("a"), "instructions": 3}, "questions.q.instructions"),
        ({**choice("a"), "instructions": True}, "questions.q.instructions"),
        (choice(), "questions.q.criteria"),
        (choice(*[str(n) for n in range(256)]), "questions.q.criteria"),
        (choice(" "), "questions.q.criteria"),
        (choice("a\nb"), "questions.q.criteria"),
        (choice("a\u2028b"), "questions.q.criteria"),
        (choice("a\x00"), "questions.q.criteria"),
        (choice("Straße", " STRASSE "), "questions.q.criteria"),
        ({"type": "choice", "criteria": ["a", "b"]}, "questions.q.criteria"),
        ({"type": "choice", "criteria": {"a": 3}}, "questions.q.criteria.a"),
        ({"type": "noul"}, "questions.q"),
        ({"type": "noul", "instructions": "  ", "criteria": {"true": ""}}, "questions.q"),
        ({"type": "noul", "instructions": "x", "criteria": {"yes": "a"}}, "questions.q.criteria.yes"),
        ({"type": "noul", "instructions": "x", "criteria": {"true": 1}}, "questions.q.criteria.true"),
        ({"type": "noul", "instructions": "x", "criteria": "yes"}, "questions.q.criteria"),
        ({"type": "score", "criteria": {"0": "a"}}, "questions.q.criteria"),
        ({"type": "score", "criteria": []}, "questions.q.criteria"),
        ({"type": "score", "criteria": ["a"] * 11}, "questions.q.criteria"),
        ({"type": "score", "criteria": ["a", None]}, "questions.q.criteria.1"),
        ({"type": "score", "criteria": ["a", " "]}, "questions.q.criteria.1"),
        ({"type": "score", "criteria": [{}]}, "questions.q.criteria.0"),
    ],
)
def test_refused_with_the_path(raw: Any, loc: str) -> None:
    """Each fault is refused with the path of the field in the message."""
    with pytest.raises(InvalidRequest) as caught:
        parse_question(raw, LOC)

    assert loc == ".".join(map(str, caught.value.loc))
    assert caught.value.message.startswith(loc + ": ")


def test_box_is_refused_clearly() -> None:
    """The field's fourth question type is named in its refusal."""
    with pytest.raises(UnsupportedInput, match="box"):
        parse_question({"type": "box", "instructions": "Where?"}, LOC)


@pytest.mark.parametrize("raw", [None, [], {}, "x", {"": choice("a")}, {str(n): choice("a") for n in range(257)}])
def test_question_maps_that_are_refused(raw: Any) -> None:
    """No questions, too many, an empty id or another shape."""
    with pytest.raises(InvalidRequest, match="^questions: "):
        parse_questions(raw)


def test_ids_are_any_text_in_order() -> None:
    """Ids may be any non-empty text and keep their order."""
    ids = ["b.c", "a b", "질문", "🎉", "-", "0"]

    assert ids == list(parse_questions({key: choice("a") for key in ids}))


@pytest.mark.parametrize(
    "question",
    [
        Choice((Option("a", {"x": [1]}), Option("b")), ["i"]),
        Noul("x", ABSENT, None),
        Noul(None, "t", ABSENT),
        Score(("a", {"b": 1}), "s"),
    ],
)
def test_json_round_trip(question: Any) -> None:
    """A question written as JSON reads back equal, absent members included."""
    assert question == parse_question(question_to_json(question), LOC)
