"""Requesty's `questions` format: decisions through chat completions, messages and responses.

The content to judge stands in the user messages, the questions in the response format, and the answers
come back as JSON text in each API's own envelope.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from localdecide.core.decision import Decision, Result
from localdecide.core.errors import InvalidRequest, UnsupportedInput
from localdecide.dialects import requesty, schemas
from localdecide.dialects.base import Asked, Body, Dialect, Fault, Incoming, Operation, ask
from localdecide.dialects.chat_content import read_messages
from localdecide.dialects.errors_openai import error_body
from localdecide.dialects.fields import check_text, find_with_provider, members, model_name
from localdecide.dialects.openai_decisions import render_usage
from localdecide.dialects.requesty import REQUESTY_STATUSES
from localdecide.dialects.systemone import Style, compact_json, parse_map, usage

ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def anthropic_error(fault: Fault) -> Body:
    """The Messages API's own error."""
    kind = ANTHROPIC_TYPES.get(fault.status, "invalid_request_error" if fault.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": fault.message}, "request_id": fault.request_id}


def operations(name: str, style: Style) -> dict[str, Operation]:
    """The three operations by the end of their path. name: the dialect that serves them."""
    openai_errors = Dialect(name, error_body, REQUESTY_STATUSES)
    anthropic_errors = Dialect(name, anthropic_error, REQUESTY_STATUSES)
    return {
        "chat/completions": Operation(
            openai_errors,
            ask(parse_chat, envelope(chat, style), find=find_with_provider),
            "Decisions through chat completions",
            schemas.CHAT,
        ),
        "messages": Operation(
            anthropic_errors,
            ask(parse_messages, envelope(message, style), find=find_with_provider),
            "Decisions through the Messages API",
            schemas.MESSAGES,
        ),
        "responses": Operation(
            openai_errors,
            ask(parse_responses, envelope(response, style), find=find_with_provider),
            "Decisions through the Responses API",
            schemas.RESPONSES,
        ),
    }


def parse_chat(incoming: Incoming) -> Asked:
    """`messages` and `response_format`."""
    body = incoming.object()
    refuse_generation(body)
    return _asked(incoming, body, *read_messages(body.get("messages"), ("messages",)), ("response_format",))


def parse_messages(incoming: Incoming) -> Asked:
    """`messages` and `output_config.format`."""
    body = incoming.object()
    refuse_generation(body)
    return _asked(incoming, body, *read_messages(body.get("messages"), ("messages",)), ("output_config", "format"))


def parse_responses(incoming: Incoming) -> Asked:
    """`input`, a string or messages, and `text.format`."""
    body = incoming.object()
    refuse_generation(body)
    raw = body.get("input")
    listed = [{"role": "user", "content": raw}] if isinstance(raw, str) else raw
    return _asked(incoming, body, *read_messages(listed, ("input",)), ("text", "format"))


def refuse_generation(body: Mapping[str, Any]) -> None:
    """Refuses what only a model that writes text could do; tuning that changes nothing here is ignored."""
    if body.get("stream"):
        raise InvalidRequest.at(("stream",), "answers are not streamed")
    for name in ("tools", "functions", "system", "instructions", "previous_response_id"):
        if body.get(name):
            raise UnsupportedInput.at((name,), "is not supported by decision models")


def _asked(incoming: Incoming, body: Body, state: str, images: tuple[bytes, ...], where: tuple[str, ...]) -> Asked:
    found: Any = body
    for depth, step in enumerate(where):
        found = members(found, where[:depth]).get(step)
        if found is None:
            raise InvalidRequest.at(where, QUESTIONS_ONLY)
    if members(found, where).get("type") != "questions":
        raise InvalidRequest.at((*where, "type"), QUESTIONS_ONLY)
    questions = parse_map(found.get("questions"), requesty.RULES, (*where, "questions"))
    check_text(incoming, state, found["questions"])
    return Asked(model_name(body, required=True), Decision(state, questions, images), None, body)


QUESTIONS_ONLY = (
    'must be {"type": "questions", "questions": {...}}: models here answer typed questions, they write no text'
)


def envelope(wrap: Callable[[Asked, Result, str], Body], style: Style) -> Callable[[Asked, Result], Body]:
    """A renderer that puts the answers' JSON text into an API's own body."""
    return lambda asked, result: wrap(asked, result, compact_json(requesty.answers(asked, result, style)))


def chat(asked: Asked, result: Result, text: str) -> Body:
    """A chat completion."""
    return {
        "id": f"req_{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": asked.sent["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {
            "prompt_tokens": result.input_tokens,
            "completion_tokens": 0,
            "total_tokens": result.input_tokens,
        },
    }


def message(asked: Asked, result: Result, text: str) -> Body:
    """A message."""
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": asked.sent["model"],
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage(result),
    }


def response(asked: Asked, result: Result, text: str) -> Body:
    """A response with one output message."""
    counted = render_usage(result)
    del counted["input_tokens_details"]["cache_write_tokens"]
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": asked.sent["model"],
        "output": [
            {
                "type": "message",
                "id": f"msg_{uuid.uuid4().hex}",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        ],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": counted,
    }
