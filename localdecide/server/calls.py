"""What is known of the request in hand, kept in its ASGI scope: its id and its dialect."""

from __future__ import annotations

import re
import uuid
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from localdecide.dialects.base import Dialect

_ID = re.compile(r"[\x21-\x7e]{1,200}")
_KEY = "localdecide.call"


@dataclass(slots=True)
class Call:
    """One request on its way. dialect: whose error body it gets; an operation may narrow it."""

    request_id: str
    dialect: Dialect


def request_id(*offered: str | None) -> str:
    """The first id that the caller sent and that may stand in a header, else a new one."""
    return next((text for text in offered if text and _ID.fullmatch(text)), "") or f"req_{uuid.uuid4().hex}"


def attach(scope: MutableMapping[str, Any], call: Call) -> None:
    scope[_KEY] = call


def current(scope: MutableMapping[str, Any]) -> Call:
    """The call of this scope."""
    call = scope[_KEY]
    assert isinstance(call, Call)
    return call
