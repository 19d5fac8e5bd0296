"""Dialects called as the server calls them, without a server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from localdecide.core.errors import LocaldecideError
from localdecide.dialects import table
from localdecide.dialects.base import Choose, Incoming, Reply
from localdecide.server.fake_service import FakeService

FIXED = {"Which team?": (0.9, 0.1), "Needs a reply today.": (0.8, 0.2), "How angry?": (0.3, 0.7)}


@dataclass
class Caller:
    """Posts a body to a path; keeps the service for questions about what reached it."""

    service: FakeService = field(default_factory=lambda: FakeService(readings=dict(FIXED)))

    def __call__(self, path: str, body: Any, content_type: str = "application/json", max_text: int = 2**20) -> Reply:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        incoming = Incoming(raw, content_type, max_text, "req_1")
        dialect = table.dialect_of(path)
        try:
            found = table.OPERATIONS[path]
            operation = found.pick(incoming) if isinstance(found, Choose) else found
            dialect = operation.dialect
            return Reply(200, asyncio.run(operation.answer(self.service, incoming)))
        except LocaldecideError as error:
            return dialect.refuse(error, "req_1")

    @property
    def decision(self) -> Any:
        """The last decision that reached the service."""
        return self.service.calls[-1][1]
