"""The fields that requests of several dialects share: model, keep_alive, the bound on text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from localdecide.core.errors import InputTooLarge, InvalidRequest
from localdecide.dialects.base import Incoming

# Words that clients send when their user chose no model.
DEFAULT_NAMES = frozenset({"", "jev-latest"})


def model_name(body: Mapping[str, Any], *, required: bool = False) -> str | None:
    """The model asked for; None means the default. Raises InvalidRequest."""
    name = body.get("model")
    if name is None or name == "":
        if required:
            raise InvalidRequest.at(("model",), "model is required")
        return None
    if not isinstance(name, str):
        raise InvalidRequest.at(("model",), "must be a string")
    return None if name.strip() in DEFAULT_NAMES else name.strip()


def without_provider(name: str | None) -> str | None:
    """`provider/name` as `name`, for the routers that put a provider in front. hf.co/... stays."""
    if name is None or "/" not in name or name.startswith(("hf.co/", "huggingface.co/")):
        return name
    bare = name.partition("/")[2]
    return None if bare in DEFAULT_NAMES else bare


def check_text(incoming: Incoming, *parts: Any) -> None:
    """Refuses `parts` whose JSON text is over the server's limit. Raises InputTooLarge.

    The whole body is an upper bound of the text, so small bodies cost nothing here.
    """
    if len(incoming.body) <= incoming.max_text:
        return
    size = sum(len(json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode()) for part in parts)
    if size > incoming.max_text:
        raise InputTooLarge(
            f"state and questions have {size} bytes of text; the limit is {incoming.max_text} (LOCALDECIDE_MAX_TEXT)",
            {"size": size, "limit": incoming.max_text},
        )


def refuse_unknown(body: Mapping[str, Any], known: frozenset[str], loc: tuple[str | int, ...] = ()) -> None:
    """Refuses the first field of `body` that is not in `known`."""
    for name in body:
        if name not in known:
            raise InvalidRequest.at((*loc, name), "is not a field of this request")


def flag(body: Mapping[str, Any], name: str, loc: tuple[str | int, ...] = ()) -> bool:
    """An optional true or false; absent and null are false."""
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidRequest.at((*loc, name), "must be true or false")
    return value
