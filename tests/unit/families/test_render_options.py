"""What each family writes for an option, and the way back from its order."""

from __future__ import annotations

from typing import Any

import pytest

from localdecide.core.questions import Question, parse_question
from localdecide.families import options

CRITERIA = {"tech_team": None, "billing": "money", "a": {"k": [1]}, "void": ""}
CHOICE = parse_question({"type": "choice", "instructions": "Which?", "criteria": CRITERIA}, ())
SCORE = parse_question({"type": "score", "criteria": ["mild", {"a": 1}]}, ())
HALF = parse_question({"type": "noul", "instructions": "Done?", "criteria": {"true": "it is done"}}, ())
BARE = parse_question({"type": "noul", "instructions": "Done?"}, ())
NULL = parse_question({"type": "noul", "instructions": "Done?", "criteria": {"true": None, "false": "not yet"}}, ())

EXPECTED: dict[str, dict[str, list[str]]] = {
    "pplx": {
        "choice": ["tech_team", "billing: money", 'a: {"k": [1]}', "void: "],
        "score": ["mild", '{"a": 1}'],
        "half": ["No / false", "it is done"],
    },
    "clef": {
        "choice": [
            '{"description":{"k":[1]},"option_id":"a"}',
            '{"description":"money","option_id":"billing"}',
            '{"option_id":"tech_team"}',
            '{"description":"","option_id":"void"}',
        ],
        "score": ['{"description":"mild","option_id":"0"}', '{"description":{"a":1},"option_id":"1"}'],
        "half": [
            '{"description":"it is done","option_id":"true"}',
            '{"description":"The proposition is false or the answer is no.","option_id":"false"}',
        ],
        "null": ['{"option_id":"true"}', '{"description":"not yet","option_id":"false"}'],
    },
    "liquid": {
        "choice": ["tech team", "money", '{"k": [1]}', "void"],
        "score": ["mild", '{"a": 1}'],
        "half": ["it is done", "None"],
    },
    "openjev": {
        "choice": ["tech_team: ", "billing: money", 'a: {"k": [1]}', "void: "],
        "score": ["0: mild", '1: {"a": 1}'],
        "half": ["yes: it is done", "no: The statement is false."],
    },
    "xor": {
        "choice": ["tech_team", "money", '{"k": [1]}', ""],
        "score": ["mild", '{"a": 1}'],
        "half": ["it is done", "no"],
    },
    "lev": {
        "choice": ["tech_team", "billing: money", 'a: {"k": [1]}', "void"],
        "score": ["(level 0 of 1) mild", '(level 1 of 1) {"a": 1}'],
    },
    "nimble": {
        "choice": ["tech_team", "money", '{"k": [1]}', ""],
        "score": ["mild", '{"a": 1}'],
        "half": ["No", "it is done"],
    },
    "clm": {
        "choice": ["tech_team", "money", "k:\n  - 1", "void"],
        "score": ["mild", "a: 1"],
        "half": ["false: No. This is false: Done?", "true: it is done"],
    },
}
QUESTIONS: dict[str, Question] = {"choice": CHOICE, "score": SCORE, "half": HALF, "bare": BARE, "null": NULL}
CASES = [(family, name, texts) for family, by_name in EXPECTED.items() for name, texts in by_name.items()]


@pytest.mark.parametrize(("family", "name", "texts"), CASES)
def test_texts_as_written_out_by_hand(family: str, name: str, texts: list[str]) -> None:
    """The wording and the order of every family for every type."""
    assert texts == [shown.text for shown in getattr(options, family)(QUESTIONS[name])]


TRUE_FIRST = {"clef", "liquid", "openjev", "xor", "lev"}


@pytest.mark.parametrize("family", [*EXPECTED, "tev"])
def test_the_sides_of_a_noul_come_in_the_family_s_order(family: str) -> None:
    """True first in some families, false first in the others."""
    expected = ["true", "false"] if family in TRUE_FIRST else ["false", "true"]
    assert expected == [shown.key for shown in getattr(options, family)(BARE)]


@pytest.mark.parametrize("family", [*EXPECTED, "tev"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_values_find_their_way_back(family: str, name: str) -> None:
    """Values in prompt order return in the order of the question's keys."""
    question = QUESTIONS[name]
    number = {key: float(index) for index, key in enumerate(question.keys)}
    shown = getattr(options, family)(question)
    assert tuple(number.values()) == options.reorder(question, shown, [number[option.key] for option in shown])


def test_a_value_too_few_is_an_error() -> None:
    """Never a silent shift of probabilities."""
    with pytest.raises(ValueError, match="zip"):
        options.reorder(BARE, options.pplx(BARE), [1.0])


def test_described_keeps_what_the_caller_wrote() -> None:
    """Absent and null descriptions are null; the rest is untouched."""
    expected: list[tuple[str, Any]] = [("true", "it is done"), ("false", None)]
    assert expected == options.described(HALF)


def test_clm_without_instructions_names_the_side() -> None:
    """There is nothing to repeat."""
    question = parse_question({"type": "noul", "criteria": {"true": "yes it is"}}, ())
    assert ["false", "true: yes it is"] == [shown.text for shown in options.clm(question)]
