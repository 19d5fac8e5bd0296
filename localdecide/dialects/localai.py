"""LocalAI's (and kev's) three routes: small bodies, two options at least, latency in the reply."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from localdecide.core import confidence
from localdecide.core.decision import Decision, Result
from localdecide.core.errors import InputTooLarge, InvalidRequest
from localdecide.dialects import schemas
from localdecide.dialects.base import Answer, Asked, Body, Decide, Dialect, Fault, Incoming, Operation, ask, decide_once
from localdecide.dialects.fields import check_text, model_name
from localdecide.dialects.images import read_images
from localdecide.dialects.permute import decide_separately, milliseconds, permute
from localdecide.dialects.systemone import (
    QUESTION_FIELDS,
    Rules,
    Style,
    of_distribution,
    parse_map,
    parse_state,
    render_answers,
    usage,
)
from localdecide.service import DecisionService


def error_body(fault: Fault) -> Body:
    """`{"error": {message, type}}`."""
    kind = "invalid_request" if fault.status < 500 else "server_error"
    return {"error": {"message": fault.message, "type": kind}}


DIALECT = Dialect("localai", error_body)
MAX_BODY = 64 * 1024
RULES = Rules(questions=(1, 64), options=(2, 255), levels=(2, 10), blank_state=False)
STYLE = Style(of_distribution(confidence.margin), of_distribution(confidence.range_dispersion))


def parse(incoming: Incoming) -> Asked:
    """A request of at most 64 KiB. Unknown fields are ignored, keep_alive too."""
    check_size(incoming)
    return parse_body(incoming.object(), incoming)


def check_size(incoming: Incoming) -> None:
    if len(incoming.body) > MAX_BODY:
        raise InputTooLarge("the request body must not exceed 64 KiB", {"limit": MAX_BODY})


def parse_body(body: Mapping[str, Any], incoming: Incoming) -> Asked:
    """The same from the JSON object, which `/permute` carries inside its own."""
    check_size(incoming)
    if not body.get("model"):
        raise InvalidRequest("model is required", {"loc": ["model"]})
    state = parse_state(body, RULES)
    raw = body.get("questions")
    if isinstance(raw, dict):
        raw = {key: _plain(item, ("questions", key)) for key, item in raw.items()}
    questions = parse_map(raw, RULES)
    check_text(incoming, state, raw)
    return Asked(model_name(body), Decision(state, questions, read_images(body.get("images"))), None, body)


def _plain(raw: Any, loc: tuple[str | int, ...]) -> Any:
    """A question with its fields by their own names and its words as text, which is all this contract has."""
    if not isinstance(raw, dict):
        return raw
    question = {name: raw[name] for name in QUESTION_FIELDS if name in raw}
    if question.get("instructions") is None and "instr" in raw:
        question["instructions"] = raw["instr"]
    criteria = question.get("criteria")
    described = criteria.values() if isinstance(criteria, dict) else criteria if isinstance(criteria, list) else ()
    for value in (question.get("instructions"), *described):
        if value is not None and not isinstance(value, str):
            raise InvalidRequest.at(loc, "instructions and descriptions must be strings")
    return question


def render(asked: Asked, result: Result) -> Body:
    """`{model, answers, usage}`; `timed` adds the latency."""
    return {"model": result.model, "answers": render_answers(asked, result, STYLE), "usage": usage(result)}


def timed(decide: Decide) -> Answer:
    """The operation with `latency_ms` from the request understood to the answer known."""
    once = ask(parse, render, decide=decide)

    async def answer(service: DecisionService, incoming: Incoming) -> Body:
        started = time.perf_counter()
        body = await once(service, incoming)
        return {**body, "latency_ms": milliseconds(started)}

    return answer


SYSTEMONE = Operation(DIALECT, timed(decide_once), "System One as LocalAI serves it", schemas.SYSTEMONE)
SEPARATE = Operation(DIALECT, timed(decide_separately), "Every question in its own pass", schemas.SYSTEMONE)
PERMUTE = Operation(DIALECT, permute(parse_body), "One choice under other orders of its options", schemas.PERMUTE)
