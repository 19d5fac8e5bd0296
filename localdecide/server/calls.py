"""What is known of the request in hand, kept in its ASGI scope: its id and its dialect."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from localdecide.dialects.base import Dialect

_ID = re.compile(r"[\x21-\x7e]{1,200}")
_KEY = "localdecide.call"


@dataclass(slots=True)
class Call:
    """One request on its way.

    head: its headers by lower-case name. dialect: whose error body it gets; an operation may narrow it.
    """

    head: Mapping[str, str]
    request_id: str
    dialect: Dialect


def read_head(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name, the first of several that are named alike. raw: as ASGI gives them."""
    head: dict[str, str] = {}
    for name, value in raw:
        head.setdefault(name.decode("latin-1"), value.decode("latin-1"))
    return head


def request_id(*offered: str | None) -> str:
    """The first id that the caller sent and that may stand in a header, else a new one."""
    return next((text for text in offered if text and _ID.fullmatch(text)), "") or f"req_{secrets.token_hex(16)}"


def attach(scope: MutableMapping[str, Any], call: Call) -> None:
    scope[_KEY] = call


def current(scope: MutableMapping[str, Any]) -> Call:
    """The call of this scope."""
    call = scope[_KEY]
    assert isinstance(call, Call)
    return call
