"""Inputs of decision templates: id, type, instructions, state, options, images, as llama.cpp hands them over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.errors import UnsupportedInput
from localdecide.core.jsontext import Json
from localdecide.core.questions import Noul, Question
from localdecide.families.options import described


def template_inputs(
    key: str, question: Question, options: list[tuple[str, Json]], text: Callable[[Json], Any]
) -> dict[str, Any]:
    """What a template reads of one question. options: key and description in the prompt's order.

    text: guards (and rewrites) each value that a user wrote. No instructions are empty ones.
    """
    return {
        "id": text(key),
        "type": question.kind,
        "instructions": text("" if question.instructions is None else question.instructions),
        "options": [{"key": text(name), "description": text(description)} for name, description in options],
    }


def user_values(decision: Decision) -> list[Json]:
    """Every value of a decision that a user wrote, for the guard."""
    values: list[Json] = [decision.state]
    for key, question in decision.questions.items():
        values += [key, question.instructions]
        for name, description in described(question):
            values += [name, description]
    return values


def false_first_back(question: Question, values: tuple[float, ...]) -> tuple[float, ...]:
    """Values in the order of `options.false_first`, put into the order of `Question.keys`."""
    return values[::-1] if isinstance(question, Noul) else values


def refuse_images(decision: Decision) -> None:
    """Raises UnsupportedInput where a model that reads text is shown images."""
    if decision.images:
        raise UnsupportedInput.at(("images",), "this model reads text only")
