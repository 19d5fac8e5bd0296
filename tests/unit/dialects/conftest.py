"""Dialects called as the server calls them, without a server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

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


@pytest.fixture
def post() -> Caller:
    """A caller with the three fixed questions."""
    return Caller()


def system_one(**changes: Any) -> dict[str, Any]:
    """A request that every System One contract accepts."""
    return {
        "model": "m",
        "state": "Charged twice",
        "questions": {
            "team": {
                "type": "choice",
                "instructions": "Which team?",
                "criteria": {"billing": "money", "sales": None},
            },
            "urgent": {"type": "noul", "instructions": "Needs a reply today."},
            "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry"]},
        },
        **changes,
    }


@pytest.fixture
def body() -> dict[str, Any]:
    """A System One request."""
    return system_one()


@pytest.fixture
def openai_body() -> dict[str, Any]:
    """The same request as OpenAI's clients send it."""
    return {
        "model": "m",
        "input": "Charged twice",
        "questions": [
            {
                "type": "choice",
                "name": "team",
                "instructions": "Which team?",
                "choices": [{"value": "billing", "description": "money"}, {"value": "sales"}],
            },
            {"type": "predicate", "name": "urgent", "instructions": "Needs a reply today."},
            {
                "type": "score",
                "name": "anger",
                "instructions": "How angry?",
                "levels": [{"label": "calm"}, {"label": "angry"}],
            },
        ],
    }


@pytest.fixture
def sglang_body() -> dict[str, Any]:
    """The same request as SGLang's decisions route takes it."""
    return {
        "input": "Charged twice",
        "questions": [
            {
                "id": "team",
                "type": "choice",
                "question": "Which team?",
                "options": [{"name": "billing", "description": "money"}, {"name": "sales"}],
            },
            {"id": "urgent", "type": "yes_no", "question": "Needs a reply today."},
            {"id": "anger", "type": "score", "question": "How angry?", "levels": ["calm", "angry"]},
        ],
    }
