"""JSON out: numbers in their shortest form that reads back to the same bits, non-ASCII kept."""

from __future__ import annotations

import json
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Send

from localdecide.dialects.base import Reply


def encode(value: Any) -> bytes:
    """JSON bytes of `value`."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer over 64 bits that a request asked to be echoed
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


class JsonResponse(Response):
    """A response whose body is JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


async def send_json(send: Send, value: Any) -> None:
    """What `JsonResponse(value)` sends, without the response."""
    body = encode(value)
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def respond(reply: Reply) -> JsonResponse:
    """A dialect's reply as a response."""
    return JsonResponse(reply.body, reply.status, dict(reply.headers))
