"""The endpoint around a dialect's operation: body in, JSON out, cancelled when the client goes."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope, Send

from localdecide.dialects.base import Choose, Incoming, Operation, offload
from localdecide.server import calls
from localdecide.server.body import read_body, unpack
from localdecide.server.disconnect import while_connected
from localdecide.server.output import send_json
from localdecide.service import DecisionService
from localdecide.settings import Settings


class Decide:
    """The ASGI app of one operation, or of a path where the body says which."""

    def __init__(self, found: Operation | Choose, service: DecisionService, settings: Settings) -> None:
        self.found = found
        self.service = service
        self.max_body: int = settings.max_body
        self.max_text: int = settings.max_text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = calls.current(scope)
        incoming = await self._read(call, receive)
        found = self.found
        operation = found if isinstance(found, Operation) else await offload(incoming, found.pick)
        call.dialect = operation.dialect
        await send_json(send, await while_connected(operation.answer(self.service, incoming), receive))

    async def _read(self, call: calls.Call, receive: Receive) -> Incoming:
        """The body, unpacked, and what a dialect needs of the head."""
        head = call.head
        body = await read_body(receive, head.get("content-length"), self.max_body)
        if encoding := head.get("content-encoding"):
            body = await asyncio.to_thread(unpack, body, encoding, self.max_body)
        return Incoming(body, head.get("content-type", ""), self.max_text, call.request_id)
