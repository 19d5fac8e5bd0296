"""Ollama's System One, as strict as its letter models: 26 candidates, 64 KiB, its own sentences."""

from __future__ import annotations

import re
from typing import Any

from localdecide.core import jsontext
from localdecide.core.decision import Decision, Result
from localdecide.core.duration import KeepAlive, parse_keep_alive
from localdecide.core.errors import InputTooLarge, InvalidRequest, UnsupportedInput
from localdecide.core.questions import MAX_LEVELS, Question, parse_question
from localdecide.dialects import schemas
from localdecide.dialects.base import Asked, Body, Dialect, Incoming, Operation, ask
from localdecide.dialects.images import decode_image
from localdecide.dialects.root import ENTROPY, error_body
from localdecide.dialects.systemone import Style, compact_json, render_answers, usage

DIALECT = Dialect("ollama", error_body)
STYLE = Style(ENTROPY, ENTROPY)
MAX_TEXT = 64 * 1024
CANDIDATES = range(2, 27)
_UNITLESS = re.compile(r"[+-]?[0-9.]*[1-9][0-9.]*")


def parse(incoming: Incoming) -> Asked:
    """A request, checked in the order in which Ollama does. Unknown fields are ignored at every level."""
    body = incoming.object()
    if len(compact_json({name: body[name] for name in body if name != "images"}).encode()) > MAX_TEXT:
        raise InputTooLarge("text and schema must not exceed 64 KiB")
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise InvalidRequest("model: must be a string")
    if not model or not model.strip():
        raise InvalidRequest("model is required")
    if model.endswith((":cloud", "-cloud")):
        raise InvalidRequest("System One requires a local decision model")
    if body.get("videos"):
        raise UnsupportedInput("video inputs are not supported")
    questions = body.get("questions")
    if not isinstance(questions, dict) or not 1 <= len(questions) <= 64:
        raise InvalidRequest("questions must contain 1–64 fields")
    images = tuple(_image(item, number) for number, item in enumerate(_list(body.get("images")), 1))
    state = body.get("state")
    if not isinstance(state, str | dict | list):
        raise InvalidRequest("state: must be a string, object, or array")
    if jsontext.is_blank(state):
        raise InvalidRequest("state must not be empty")
    parsed = {key: _question(key, raw) for key, raw in questions.items()}
    decision = Decision(state, parsed, images)
    name = None if model == "jev-latest" else model
    return Asked(name, decision, keep_alive(body.get("keep_alive")), body)


def keep_alive(value: Any) -> KeepAlive | None:
    """Seconds or a Go duration; unlike the root, a string needs its unit."""
    if isinstance(value, str) and _UNITLESS.fullmatch(value):
        raise InvalidRequest(f'time: missing unit in duration "{value}"')
    return parse_keep_alive(value)


def _question(key: str, raw: Any) -> Question:
    try:
        return _parse(key, raw)
    except InvalidRequest as error:
        problem = error.message.removeprefix(f"questions.{key}").removeprefix(".").removeprefix(": ")
        raise InvalidRequest(f'question "{key}": {problem}') from None


def _parse(key: str, raw: Any) -> Question:
    """One question by Ollama's narrower rules, then by the core's."""
    if not key.strip():
        raise InvalidRequest("field name must not be empty")
    if not isinstance(raw, dict):
        raise InvalidRequest("must be an object")
    instructions, criteria = raw.get("instructions"), raw.get("criteria")
    if not isinstance(instructions, str | dict | list) or jsontext.is_blank(instructions):
        raise InvalidRequest("instructions must be a nonempty string, object, or array")
    match raw.get("type"):
        case "noul":
            criteria = _noul(criteria, "criteria" in raw)
        case "choice":
            if not isinstance(criteria, dict) or not all(isinstance(text, str | None) for text in criteria.values()):
                raise InvalidRequest("choice criteria must map option keys to descriptions or null")
            if not all(name.strip() for name in criteria):
                raise InvalidRequest("choice keys must not be empty")
            _count(len(criteria))
        case "score":
            if not isinstance(criteria, list):
                raise InvalidRequest("score criteria must be an array of descriptions")
            if not all(isinstance(text, str) for text in criteria):
                raise InvalidRequest("score descriptions must be strings")
            _count(len(criteria))
            if len(criteria) > MAX_LEVELS:
                raise UnsupportedInput(f"{len(criteria)} levels: Ollama allows 26, this server reads {MAX_LEVELS}")
        case _:
            raise InvalidRequest("type must be choice, noul, or score")
    return parse_question({"type": raw["type"], "instructions": instructions, "criteria": criteria}, ("questions", key))


def _noul(criteria: Any, present: bool) -> dict[str, str]:
    if not present:
        return {}
    if not isinstance(criteria, dict):
        raise InvalidRequest("noul criteria must be an object of true/false descriptions")
    for side, text in criteria.items():
        if side not in ("true", "false"):
            raise InvalidRequest(f'unknown noul criterion "{side}"')
        if not isinstance(text, str):
            raise InvalidRequest("noul descriptions must be strings")
    return criteria


def _count(candidates: int) -> None:
    if candidates not in CANDIDATES:
        raise InvalidRequest("criteria must contain 2–26 candidates")


def _list(raw: Any) -> list[Any]:
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise InvalidRequest("images: must be an array of base64 strings")
    return raw


def _image(raw: Any, number: int) -> bytes:
    if raw == "":
        raise InvalidRequest(f"image {number} must not be empty")
    if not isinstance(raw, str):
        raise InvalidRequest(f"image {number} must be a base64 string")
    return decode_image(raw, ("images", number - 1))


def render(asked: Asked, result: Result) -> Body:
    """`{model, answers, usage}`; the model is the name as it was sent."""
    return {"model": asked.sent["model"], "answers": render_answers(asked, result, STYLE), "usage": usage(result)}


SYSTEMONE = Operation(DIALECT, ask(parse, render), "System One as Ollama serves it", schemas.SYSTEMONE)
