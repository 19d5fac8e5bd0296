"""vLLM's two routes: confidence is the chosen option's probability over the whole vocabulary."""

from __future__ import annotations

import time
import uuid
from typing import Any

from localdecide.core import confidence, errors
from localdecide.core.decision import Decision, Options, Reading, Result
from localdecide.core.errors import InvalidRequest, UnsupportedInput
from localdecide.core.questions import Question
from localdecide.dialects import schemas
from localdecide.dialects.base import STATUSES, Asked, Body, Dialect, Fault, Incoming, Operation, ask
from localdecide.dialects.errors_openai import parameter
from localdecide.dialects.fields import check_text, flag, model_name, refuse_unknown, template_arguments, text
from localdecide.dialects.images import read_images
from localdecide.dialects.openai_decisions import Limits, parse_list, render_list, render_usage
from localdecide.dialects.openai_input import read_input
from localdecide.dialects.systemone import (
    QUESTION_FIELDS,
    Rules,
    Style,
    parse_map,
    parse_state,
    reading_of,
    render_answers,
)

TYPES = {400: "BadRequestError", 404: "NotFoundError", 501: "NotImplementedError", 503: "ServiceUnavailableError"}
THINKING_REFUSED = "a read is the reply's first token, so thinking must be off"


def error_body(fault: Fault) -> Body:
    """OpenAI's object with a number as its code; a missing key has a body of its own."""
    if fault.status == 401:
        return {"error": "Unauthorized"}
    kind = TYPES.get(fault.status, "BadRequestError" if fault.status < 500 else "InternalServerError")
    if fault.code == errors.MalformedBody.code:
        kind = "Bad Request"
    param = parameter(fault.loc) if fault.loc else None
    return {"error": {"message": fault.message, "type": kind, "param": param, "code": fault.status}}


DIALECT = Dialect("vllm", error_body, {**STATUSES, errors.NotSupported: 501})
RULES = Rules(questions=(1, 64), options=(1, 26), levels=(2, 10), any_state=True)
LIMITS = Limits(questions=(1, 64), choices=(2, 26), null_names=False, parts=False)
FIELDS = frozenset(
    [
        "model",
        "state",
        "questions",
        "instructions",
        "images",
        "audio",
        "videos",
        "chat_template_kwargs",
        "joint",
        "cache_salt",
        "priority",
        "request_id",
    ]
)


def top_mass(reading: Reading) -> float:
    """The top probability times the labels' mass; a head's mass is 1."""
    return confidence.top_mass(reading.probabilities, reading.label_mass)


def parse(incoming: Incoming) -> Asked:
    """A map of questions; every unknown field is refused."""
    body = incoming.object()
    refuse_unknown(body, FIELDS)
    state = parse_state(body, RULES)
    raw = body.get("questions")
    for key, item in raw.items() if isinstance(raw, dict) else ():
        unknown = [name for name in item if name not in QUESTION_FIELDS] if isinstance(item, dict) else []
        if unknown:
            raise InvalidRequest(f"question {key!r}: unknown field(s) {unknown}", {"loc": ["questions", key]})
    questions = parse_map(raw, RULES)
    for name in ("audio", "videos"):
        if body.get(name):
            raise UnsupportedInput.at((name,), "is not supported")
    _shared_fields(body)
    if (priority := body.get("priority")) is not None and (isinstance(priority, bool) or not isinstance(priority, int)):
        raise InvalidRequest.at(("priority",), "must be an integer")
    check_text(incoming, state, raw)
    options = Options(
        system=text(body, "instructions") or None,
        chat_template_kwargs=template_arguments(body, THINKING_REFUSED),
    )
    return Asked(model_name(body), Decision(state, questions, read_images(body.get("images")), options), None, body)


def _shared_fields(body: Body) -> None:
    """joint is for diffusion models; a salt has nothing to salt here, one user's cache is not another's."""
    if flag(body, "joint"):
        raise UnsupportedInput.at(("joint",), "joint reads need a diffusion model")
    salt = text(body, "cache_salt")
    if salt is not None and not 1 <= len(salt) <= 1024:
        raise InvalidRequest.at(("cache_salt",), "must have 1 to 1024 characters")
    text(body, "request_id")


def extras(question: Question, reading: Reading) -> Body:
    """A yes-or-no answer reports like the others."""
    if question.kind != "noul":
        return {}
    yes, no = reading.probabilities
    return {"probabilities": {"yes": yes, "no": no}, "confidence": top_mass(reading)}


STYLE = Style(top_mass, top_mass, extras=extras)


def reads(result: Result) -> int:
    """One output token for each question that was read from labels; a head generates none."""
    return sum(reading.label_mass is not None for reading in result.readings.values())


def render(asked: Asked, result: Result) -> Body:
    """Answers, and diagnostics of how much of the vocabulary they are."""
    return {
        "id": f"decision-{asked.sent.get('request_id') or uuid.uuid4().hex}",
        "object": "structured_decision",
        "created": int(time.time()),
        "model": result.model,
        "answers": render_answers(asked, result, STYLE),
        "usage": {"input_tokens": result.input_tokens, "output_tokens": reads(result)},
        "diagnostics": {key: _diagnostics(reading_of(result, key)) for key in asked.decision.questions},
    }


def _diagnostics(reading: Reading) -> dict[str, Any]:
    head = reading.label_mass is None
    return {
        "label_mass": 1.0 if head else reading.label_mass,
        "argmax_is_label": True if head else bool(reading.argmax_is_label),
    }


def parse_decisions(incoming: Incoming) -> Asked:
    """OpenAI's list, text only."""
    body = incoming.object()
    refuse_unknown(body, frozenset({"model", "input", "questions", "joint", "cache_salt", "safety_identifier"}))
    _shared_fields(body)
    text(body, "safety_identifier")
    state, images = read_input(body.get("input"))
    if images:
        raise UnsupportedInput.at(("input",), "Decisions supports text input only; images are not supported")
    for index, item in enumerate(body["input"] if isinstance(body["input"], list) else ()):
        if item.get("type", "message") != "message" or item.get("role") != "user":
            raise UnsupportedInput.at(("input", index), "only user messages are supported")
    questions = parse_list(body.get("questions"), LIMITS)
    check_text(incoming, state, body["questions"])
    return Asked(model_name(body), Decision(state, questions), None, body)


def render_decisions(asked: Asked, result: Result) -> Body:
    """OpenAI's body with vLLM's confidence."""
    return {
        "model": result.model,
        "answers": render_list(asked, result, top_mass),
        "usage": render_usage(result, reads(result)),
    }


SYSTEMONE = Operation(DIALECT, ask(parse, render), "System One as vLLM serves it", schemas.VLLM_SYSTEMONE)
DECISIONS = Operation(DIALECT, ask(parse_decisions, render_decisions), "Decisions as vLLM serves them", schemas.OPENAI)
