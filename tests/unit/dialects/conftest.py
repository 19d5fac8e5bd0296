"""The same three questions in three shapes, and somebody to ask them."""

from __future__ import annotations

from typing import Any

import pytest
from dialect_calls import Caller


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
