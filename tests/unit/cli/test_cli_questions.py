"""The grammar of question lines."""

from __future__ import annotations

from typing import Any

import pytest

from localdecide.cli.questions import EXAMPLES, KINDS, QuestionSyntax, collect, parse, yes_no

CHOICES: list[tuple[str, str, str | None, dict[str, str | None]]] = [
    (
        "team: Which team? = billing: payments | technical: bugs | sales",
        "team",
        "Which team?",
        {"billing": "payments", "technical": "bugs", "sales": None},
    ),
    ("Which team? = a | b", "Which team?", "Which team?", {"a": None, "b": None}),
    ("team = a | b", "team", "team", {"a": None, "b": None}),
    ("team: = a | b", "team", "team", {"a": None, "b": None}),
    (": Which? = a | b", "Which?", "Which?", {"a": None, "b": None}),
    ("= a | b", "choice", None, {"a": None, "b": None}),
    ("t: Which?=a|b", "t", "Which?", {"a": None, "b": None}),
    ("t: Is x=1 or not? = a | b", "t", "Is x=1 or not?", {"a": None, "b": None}),
    ("slot: When? = 17:00 | 18:00: in the evening", "slot", "When?", {"17:00": None, "18:00": "in the evening"}),
    ("t: See https://x.org/a? = a: see https://y | b", "t", "See https://x.org/a?", {"a": "see https://y", "b": None}),
    (r"t: a\: b\=c? = x\|y: d\: e | z\\", "t", "a: b=c?", {"x|y": "d: e", "z\\": None}),
    (r"t\: u: Which? = a | b", "t: u", "Which?", {"a": None, "b": None}),
    (r"t: Where? = C:\temp | D:\x" + "\\", "t", "Where?", {r"C:\temp": None, "D:\\x\\": None}),
    ("t: 1 < 2? = a < b | c", "t", "1 < 2?", {"a < b": None, "c": None}),
    ("t: Which? = a = b: c = d | e", "t", "Which?", {"a = b": "c = d", "e": None}),
    ("équipe: Où? = été | naïve", "équipe", "Où?", {"été": None, "naïve": None}),
    ("t: Only one? = a", "t", "Only one?", {"a": None}),
    ("t: Empty description? = a: | b", "t", "Empty description?", {"a": None, "b": None}),
]


@pytest.mark.parametrize(("line", "key", "instructions", "options"), CHOICES)
def test_choice(line: str, key: str, instructions: str | None, options: dict[str, Any]) -> None:
    """A choice line gives id, instructions and options in their order."""
    expected = {"type": "choice"} | ({"instructions": instructions} if instructions else {}) | {"criteria": options}

    found_key, found = parse("choice", line)

    assert (key, expected) == (found_key, found)
    assert list(options) == list(found["criteria"])


@pytest.mark.parametrize(
    ("line", "key", "expected"),
    [
        ("urgent: Needs an answer today", "urgent", {"instructions": "Needs an answer today"}),
        ("Is it urgent?", "Is it urgent?", {"instructions": "Is it urgent?"}),
        ("Answer by 17:00?", "Answer by 17:00?", {"instructions": "Answer by 17:00?"}),
        ("Is 2+2=4?", "Is 2+2=4?", {"instructions": "Is 2+2=4?"}),
        ("sum: Is 2 + 2 = 4?", "sum", {"instructions": "Is 2 + 2 = 4?"}),
        (
            "u: Urgent? = yes: before night | no: can wait",
            "u",
            {"instructions": "Urgent?", "criteria": {"true": "before night", "false": "can wait"}},
        ),
        ("u: Urgent? = No: can wait", "u", {"instructions": "Urgent?", "criteria": {"false": "can wait"}}),
        (r"u: Urgent? \= yes: x", "u", {"instructions": "Urgent? = yes: x"}),
        ("u: Which | of = yes: a | yes: b", "u", {"instructions": "Which | of = yes: a | yes: b"}),
    ],
)
def test_yes_no(line: str, key: str, expected: dict[str, Any]) -> None:
    """A yes-no line gives instructions; its `=` separates only where sides follow."""
    assert (key, {"type": "noul"} | expected) == parse("yes-no", line)


@pytest.mark.parametrize(
    ("line", "key", "instructions", "levels"),
    [
        ("tone: How upset? = calm < annoyed < furious", "tone", "How upset?", ["calm", "annoyed", "furious"]),
        ("tone: How upset?=calm<annoyed", "tone", "How upset?", ["calm", "annoyed"]),
        (r"n: How many? = \< 10 < 10 or more", "n", "How many?", ["< 10", "10 or more"]),
        ("t: How? = bad: really | x < good", "t", "How?", ["bad: really | x", "good"]),
    ],
)
def test_score(line: str, key: str, instructions: str, levels: list[str]) -> None:
    """A score line gives its levels, lowest first."""
    assert (key, {"type": "score", "instructions": instructions, "criteria": levels}) == parse("score", line)


@pytest.mark.parametrize(
    ("kind", "line", "problem"),
    [
        ("choice", "team: Which team?", "needs `=` and the options, separated by `|`"),
        ("choice", "team: Which team? =  ", "needs `=` and the options, separated by `|`"),
        ("choice", "team: Which? = a | | b", "an option is blank"),
        ("choice", "team: Which? = a | a: again", "the option 'a' is there twice"),
        ("choice", "team: Which? = a | A", "option name 'A' repeats 'a'"),
        ("choice", "", "needs `=` and the options, separated by `|`"),
        ("score", "tone: How?", "needs `=` and the levels, lowest first, separated by `<`"),
        ("score", "tone: How? = a < < b", "a level is blank"),
        ("score", "tone: How? = " + " < ".join("abcdefghijk"), "must hold 1 to 10 levels, not 11"),
        ("yes-no", "  ", "the question is blank"),
    ],
)
def test_refusals(kind: str, line: str, problem: str) -> None:
    """A line that cannot be read says what is wrong with it."""
    with pytest.raises(QuestionSyntax) as refused:
        parse(kind, line)

    assert problem == refused.value.problem
    assert f"--{kind} {line!r}" in str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_examples_are_valid(kind: str) -> None:
    """The examples that hints show can be read."""
    key, question = parse(kind, EXAMPLES[kind])

    assert key in EXAMPLES[kind]
    assert {"choice": "choice", "yes-no": "noul", "score": "score"}[kind] == question["type"]


def test_collect_keeps_the_order() -> None:
    """Questions of all kinds stay in the order given."""
    found = collect([("score", "s: ? = a < b"), ("yes-no", "y: now?"), ("", "x: y?"), ("choice", "c: ? = a | b")])

    assert ["s", "y", "x: y?", "c"] == list(found)


def test_collect_refuses_a_repeated_id() -> None:
    """Two questions with one id are refused: the reply could hold only one."""
    with pytest.raises(QuestionSyntax, match="another question has the id 'a'"):
        collect([("yes-no", "a: x?"), ("yes-no", "a: y?")])


def test_plain_question_has_no_grammar() -> None:
    """A plain question is its whole text."""
    assert ("a: b = c | d?", {"type": "noul", "instructions": "a: b = c | d?"}) == yes_no(" a: b = c | d? ")
