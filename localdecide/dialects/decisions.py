"""`/v1/decisions` at the root: three contracts share the path, and the body's shape says which is meant.

Decided before validation and once: a body that is read as one contract is never tried as another.
"""

from __future__ import annotations

from typing import Any

from localdecide.core.errors import InvalidRequest
from localdecide.dialects import openai, sglang_decisions, typesafe
from localdecide.dialects.base import Body, Choose, Incoming, Operation

SHAPES = (
    "the request fits none of the three shapes served here: `state` with a map of questions (TypeSafe),"
    " `input` with a list of questions that have `id` and `question` (SGLang),"
    " or `input` with a list of questions that have `instructions` (OpenAI)"
)
SGLANG_FIELDS = ("temperature", "prompt_format_version", "return_prompt_token_ids", "chat_template_kwargs")
SGLANG_MARKS = ("id", "question", "options")
OPENAI_MARKS = ("name", "instructions", "choices")


def pick(incoming: Incoming) -> Operation:
    """The contract of a body. Raises InvalidRequest where it is none of the three."""
    body = incoming.object()
    questions = body.get("questions")
    if "state" in body and "input" in body:
        raise InvalidRequest(SHAPES)
    if "state" in body and isinstance(questions, dict):
        return typesafe.SYSTEMONE
    if not isinstance(questions, list) or "state" in body:
        raise InvalidRequest(SHAPES)
    kinds = {_kind(item) for item in questions}
    if kinds >= {"sglang", "openai"}:
        raise InvalidRequest(SHAPES)
    if questions and ("sglang" in kinds or _has_sglang_fields(body)):
        return sglang_decisions.DECISIONS
    return openai.DECISIONS


def _kind(item: Any) -> str | None:
    """Whose question this looks like; None where nothing in it says."""
    if not isinstance(item, dict):
        return None
    sglang = any(name in item for name in SGLANG_MARKS) or item.get("type") == "yes_no" or _bare_levels(item)
    openai_ = any(name in item for name in OPENAI_MARKS) or item.get("type") == "predicate"
    if sglang and openai_:
        raise InvalidRequest(SHAPES)
    return "sglang" if sglang else "openai" if openai_ else None


def _bare_levels(item: dict[str, Any]) -> bool:
    levels = item.get("levels")
    return isinstance(levels, list) and any(not (isinstance(level, dict) and "label" in level) for level in levels)


def _has_sglang_fields(body: Body) -> bool:
    return any(name in body for name in SGLANG_FIELDS)


CHOICE = Choose(openai.DIALECT, pick)
