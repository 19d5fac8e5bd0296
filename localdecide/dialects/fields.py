"""The fields that requests of several dialects share: model, keep_alive, the bound on text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from localdecide.core.errors import InputTooLarge, InvalidName, InvalidRequest, ModelNotFound, UnsupportedInput
from localdecide.dialects.base import Incoming
from localdecide.service import DecisionService

# Words that clients send when their user chose no model.
DEFAULT_NAMES = frozenset({"", "jev-latest"})


def model_name(body: Mapping[str, Any], *, required: bool = False) -> str | None:
    """The model asked for; None means the default. Raises InvalidRequest."""
    name = body.get("model")
    if name is None or name == "":
        if required:
            raise InvalidRequest.at(("model",), "is required")
        return None
    if not isinstance(name, str):
        raise InvalidRequest.at(("model",), "must be a string")
    return None if name.strip() in DEFAULT_NAMES else name.strip()


async def find_with_provider(service: DecisionService, name: str | None) -> str | None:
    """A model sent as `provider/name` or as it is called here. Raises ModelNotFound with the name as sent."""
    if name is None or "/" not in name:
        return name
    try:
        await service.resolve(name)
    except (ModelNotFound, InvalidName) as missing:
        bare = name.partition("/")[2]
        try:
            await service.resolve(None if bare in DEFAULT_NAMES else bare)
        except (ModelNotFound, InvalidName):
            raise missing from None
        return None if bare in DEFAULT_NAMES else bare
    return name


async def find_any(service: DecisionService, name: str | None) -> str | None:
    """A model by any name at all: contracts of one-model servers answer to every name with theirs."""
    try:
        await service.resolve(name)
    except (ModelNotFound, InvalidName):
        return None
    return name


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


def text(body: Mapping[str, Any], name: str, loc: tuple[str | int, ...] = ()) -> str | None:
    """An optional string; absent and null are None."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest.at((*loc, name), "must be a string")
    return value


def members(value: Any, loc: tuple[str | int, ...]) -> dict[str, Any]:
    """`value`, if it is an object."""
    if not isinstance(value, dict):
        raise InvalidRequest.at(loc, "must be an object")
    return value


def items(value: Any, loc: tuple[str | int, ...]) -> list[Any]:
    """`value`, if it is an array."""
    if not isinstance(value, list):
        raise InvalidRequest.at(loc, "must be an array")
    return value


def temperature(body: Mapping[str, Any]) -> float | None:
    """An optional finite number above 0."""
    value = body.get("temperature")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidRequest.at(("temperature",), "must be a number above 0")
    return float(value)


# What the chat templates of reasoning models call their switch.
THINKING = ("enable_thinking", "thinking")


def template_arguments(body: Mapping[str, Any], refusal: str) -> dict[str, Any]:
    """`chat_template_kwargs`; an answer is the first token, so a switch that turns thinking on is refused."""
    raw = body.get("chat_template_kwargs")
    if raw is None:
        return {}
    loc = ("chat_template_kwargs",)
    for switch in THINKING:
        if members(raw, loc).get(switch, False) is not False:
            raise UnsupportedInput.at((*loc, switch), refusal)
    return members(raw, loc)
