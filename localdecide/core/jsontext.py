"""Strict JSON in: what a request body may be, and nothing that two readers could read differently."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from localdecide.core.errors import MalformedBody

Json = None | bool | int | float | str | list[Any] | dict[str, Any]

MAX_DEPTH = 200

# UTF-8 holds no half of a surrogate pair; only an escape can bring one in.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def loads(body: bytes | str) -> Json:
    """The JSON value of `body`.

    Refuses what is ambiguous or not JSON: duplicate keys, NaN and Infinity, numbers that overflow,
    lone surrogates, text that is not UTF-8, nesting deeper than `MAX_DEPTH`. Raises MalformedBody.
    """
    try:
        text = body.decode("utf-8-sig") if isinstance(body, bytes) else body
    except UnicodeDecodeError as error:
        raise MalformedBody(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    if not text.strip():
        raise MalformedBody("missing request body")
    try:
        value: Json = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise MalformedBody(f"invalid JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise MalformedBody("invalid JSON: nested too deeply") from None
    if isinstance(body, str) or _HALF.search(text) or text.count("{") + text.count("[") > MAX_DEPTH:
        _check(value, 0)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise MalformedBody(f"invalid JSON: duplicate key {json.dumps(key)}")
            seen.add(key)
    return members


def _no_constant(name: str) -> NoReturn:
    raise MalformedBody(f"invalid JSON: {name} is not a JSON number")


def _finite(spelling: str) -> float:
    number = float(spelling)
    if math.isinf(number):
        raise MalformedBody(f"invalid JSON: the number {spelling[:40]} is too large")
    return number


def _integer(spelling: str) -> int:
    try:
        return int(spelling)
    except ValueError:  # over Python's digit limit
        raise MalformedBody(f"invalid JSON: an integer of {len(spelling)} digits is too long") from None


def _check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise MalformedBody(f"invalid JSON: nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        _no_surrogate(value)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            _no_surrogate(key)
            _check(item, depth + 1)


def _no_surrogate(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise MalformedBody("invalid JSON: a string holds half of a surrogate pair") from None


def is_blank(value: Any) -> bool:
    """True for what says nothing: null, white space, an empty object or array."""
    return not value.strip() if isinstance(value, str) else value is None or value == {} or value == []
