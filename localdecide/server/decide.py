"""The endpoint around a dialect's operation: body in, JSON out, cancelled when the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from localdecide.dialects.base import Choose, Incoming, Operation, offload
from localdecide.server import calls
from localdecide.server.body import read_body, unpack
from localdecide.server.disconnect import while_connected
from localdecide.server.output import JsonResponse
from localdecide.service import DecisionService
from localdecide.settings import Settings

Endpoint = Callable[[Request], Awaitable[Response]]


def endpoint(found: Operation | Choose, service: DecisionService, settings: Settings) -> Endpoint:
    """The endpoint of one operation, or of a path where the body says which."""

    async def handle(request: Request) -> Response:
        call = calls.current(request.scope)
        incoming = await read(request, settings)
        operation = found if isinstance(found, Operation) else await offload(incoming, found.pick)
        call.dialect = operation.dialect
        return JsonResponse(await while_connected(operation.answer(service, incoming), request.receive))

    return handle


async def read(request: Request, settings: Settings) -> Incoming:
    """The body, unpacked, and what a dialect needs of the head."""
    body = await read_body(request, settings.max_body)
    if encoding := request.headers.get("content-encoding"):
        body = await asyncio.to_thread(unpack, body, encoding, settings.max_body)
    return Incoming(
        body=body,
        content_type=request.headers.get("content-type", ""),
        max_text=settings.max_text,
        request_id=calls.current(request.scope).request_id,
    )
