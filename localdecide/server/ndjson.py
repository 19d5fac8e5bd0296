"""Progress as lines of JSON, the way Ollama streams it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse

from localdecide.core.errors import LocaldecideError
from localdecide.server.output import JsonResponse, encode

log = logging.getLogger(__name__)


async def progress(events: AsyncIterator[dict[str, Any]], *, stream: bool) -> Response:
    """A stream of `events`, or only the last of them where `stream` is false.

    An error before the first event is raised, so that it gets a status of its own. One that comes later
    is the last line, `{"error": text}`: the 200 has been sent by then.
    """
    if not stream:
        last: dict[str, Any] = {}
        async for event in events:
            last = event
        return JsonResponse(last)
    try:
        first = await anext(events)
    except StopAsyncIteration:
        return JsonResponse({})
    return StreamingResponse(_lines(first, events), media_type="application/x-ndjson")


async def _lines(first: dict[str, Any], events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    yield encode(first) + b"\n"
    try:
        async for event in events:
            yield encode(event) + b"\n"
    except LocaldecideError as error:
        yield encode({"error": error.message}) + b"\n"
    except Exception:
        log.exception("a stream failed")
        yield encode({"error": "internal error; the daemon's log has the details"}) + b"\n"
