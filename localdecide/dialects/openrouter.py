"""OpenRouter's two paths: TypeSafe's map body, its own envelope and errors. The first is named decisions."""

from __future__ import annotations

import uuid
from typing import Any

from localdecide.core.decision import Decision, Result
from localdecide.core.errors import UnsupportedInput
from localdecide.core.jsontext import Json
from localdecide.dialects import schemas
from localdecide.dialects.assets import read_with_assets
from localdecide.dialects.base import Asked, Body, Dialect, Fault, Incoming, Operation, ask
from localdecide.dialects.fields import check_text, find_with_provider, model_name
from localdecide.dialects.images import read_image
from localdecide.dialects.requesty import provider
from localdecide.dialects.systemone import parse_map, parse_state, render_answers, usage
from localdecide.dialects.typesafe import RULES, STYLE


def error_body(fault: Fault) -> Body:
    """`{"error": {code, message}}`, the code being the status."""
    return {"error": {"code": fault.status, "message": fault.message}}


DIALECT = Dialect("openrouter", error_body)


def parse(incoming: Incoming) -> Asked:
    """A map of questions; a state may be a list of text and image parts."""
    body, images = read_with_assets(incoming)
    state, more = read_parts(parse_state(body, RULES))
    questions = parse_map(body.get("questions"), RULES)
    check_text(incoming, state, body.get("questions"))
    return Asked(model_name(body, required=True), Decision(state, questions, images + more), None, body)


def read_parts(state: Json) -> tuple[Json, tuple[bytes, ...]]:
    """Text and images of a state that is a list of typed parts; any other state as it is."""
    if not isinstance(state, list) or not any(_kind(part) == "image_url" for part in state):
        return state, ()
    texts: list[str] = []
    images: list[bytes] = []
    for index, part in enumerate(state):
        match _kind(part):
            case "image_url":
                images.append(read_image(part.get("image_url"), ("state", index, "image_url")))
            case "text" if isinstance(part.get("text"), str):
                texts.append(part["text"])
            case _:
                raise UnsupportedInput.at(("state", index), "must be a text or image_url part")
    return "\n\n".join(texts), tuple(images)


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def render(asked: Asked, result: Result) -> Body:
    """TypeSafe's answers with an id, the model as it was sent, and what it cost."""
    return {
        "id": f"gen-dec-{uuid.uuid4().hex}",
        "model": asked.sent["model"],
        "provider": provider(asked.sent),
        "answers": render_answers(asked, result, STYLE),
        "usage": {**usage(result), "cost": 0},
    }


DECISIONS = Operation(
    DIALECT,
    ask(parse, render, find=find_with_provider),
    "Decisions as OpenRouter serves them",
    schemas.TYPESAFE,
    multipart=True,
)
