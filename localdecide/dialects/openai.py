"""OpenAI's Decisions API. It publishes no formula for confidence; here it is the top probability."""

from __future__ import annotations

from localdecide.core import confidence
from localdecide.core.decision import Decision, Result
from localdecide.core.errors import InvalidRequest
from localdecide.dialects import schemas
from localdecide.dialects.base import Asked, Body, Dialect, Incoming, Operation, ask
from localdecide.dialects.errors_openai import error_body
from localdecide.dialects.fields import check_text, members, model_name, refuse_unknown, text
from localdecide.dialects.openai_decisions import Limits, parse_list, render_list, render_usage
from localdecide.dialects.openai_input import read_input
from localdecide.dialects.systemone import of_distribution

DIALECT = Dialect("openai", error_body)
LIMITS = Limits()
TOP = of_distribution(confidence.top)
FIELDS = frozenset({"model", "input", "questions", "prompt_cache_key", "prompt_cache_options", "safety_identifier"})


def parse(incoming: Incoming) -> Asked:
    """A list of questions about an input. Anything that is not part of the API is refused, stream too."""
    body = incoming.object()
    refuse_unknown(body, FIELDS)
    text(body, "prompt_cache_key")
    if body.get("prompt_cache_options") is not None:
        members(body["prompt_cache_options"], ("prompt_cache_options",))
    if len(text(body, "safety_identifier") or "") > 128:
        raise InvalidRequest.at(("safety_identifier",), "must have at most 128 characters")
    model = model_name(body, required=True)
    state, images = read_input(body.get("input"))
    questions = parse_list(body.get("questions"), LIMITS)
    check_text(incoming, state, body["questions"])
    return Asked(model, Decision(state, questions, images), None, body)


def render(asked: Asked, result: Result) -> Body:
    """`{model, answers, usage}`, the answers a list."""
    return {"model": result.model, "answers": render_list(asked, result, TOP), "usage": render_usage(result)}


DECISIONS = Operation(DIALECT, ask(parse, render), "Decisions as OpenAI serves them", schemas.OPENAI)
