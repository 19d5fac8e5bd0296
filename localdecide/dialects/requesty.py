"""Requesty's System One: a provider before the model, confidence as the top probability, OpenAI's errors.

Its published reference calls a score "the zero-based index of the chosen label"; so does this prefix.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from localdecide.core import confidence, errors
from localdecide.core.decision import Decision, Reading, Result
from localdecide.core.errors import InvalidRequest
from localdecide.core.probability import argmax
from localdecide.core.questions import Question
from localdecide.dialects import schemas
from localdecide.dialects.assets import read_with_assets
from localdecide.dialects.base import STATUSES, Asked, Body, Dialect, Incoming, Operation, ask
from localdecide.dialects.errors_openai import error_body
from localdecide.dialects.fields import check_text, find_with_provider, model_name
from localdecide.dialects.systemone import Rules, Style, of_distribution, parse_map, parse_state, render_answer, usage

# Rate limits are what this contract calls a full queue.
REQUESTY_STATUSES = {**STATUSES, errors.Busy: 429}
DIALECT = Dialect("requesty", error_body, REQUESTY_STATUSES)
RULES = Rules(blank_state=False, ignore_unknown=True)
TOP = of_distribution(confidence.top)
STYLE_MEAN = Style(TOP, TOP)


def _index(question: Question, reading: Reading) -> Body:
    return {"score": argmax(reading.probabilities)} if question.kind == "score" else {}


STYLE_INDEX = Style(TOP, TOP, extras=_index)


def parse(incoming: Incoming) -> Asked:
    """A JSON or multipart request."""
    body, images = read_with_assets(incoming)
    state = parse_state(body, RULES)
    questions = parse_map(body.get("questions"), RULES)
    check_text(incoming, state, body.get("questions"))
    if body.get("stream"):
        raise InvalidRequest.at(("stream",), "answers are not streamed")
    return Asked(model_name(body, required=True), Decision(state, questions, images), None, body)


def answers(asked: Asked, result: Result, style: Style) -> Body:
    """Answers by id; a question that the model left unanswered is a refusal."""
    return {
        key: render_answer(question, result.readings[key], style) if key in result.readings else {"type": "refusal"}
        for key, question in asked.decision.questions.items()
    }


def provider(sent: Mapping[str, Any]) -> str:
    """The word before the slash of the model sent; ours is `local`."""
    name = sent.get("model") or ""
    return str(name).partition("/")[0] if "/" in name else "local"


def render(asked: Asked, result: Result) -> Body:
    """The answers and an envelope of id, model and provider."""
    return {
        "answers": answers(asked, result, STYLE_INDEX),
        "id": f"rqsty-dcsn-{uuid.uuid4().hex}",
        "model": result.model,
        "provider": provider(asked.sent),
        "usage": usage(result),
    }


SYSTEMONE = Operation(
    DIALECT,
    ask(parse, render, find=find_with_provider),
    "System One as Requesty serves it",
    schemas.TYPESAFE,
    multipart=True,
)
