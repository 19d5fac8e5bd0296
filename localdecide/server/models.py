"""The model list in the shapes of three worlds: Ollama's tags, TypeSafe's models, OpenAI's data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from localdecide.service import LoadedModel, ModelCard

FOREVER = "9999-12-31T23:59:59Z"


def tag(card: ModelCard) -> dict[str, Any]:
    """One entry of `/api/tags`."""
    return {
        "name": card.name,
        "model": card.name,
        "modified_at": card.modified,
        "size": card.size,
        "digest": card.digest,
        "details": dict(card.details),
        "capabilities": list(card.capabilities),
    }


def process(loaded: LoadedModel) -> dict[str, Any]:
    """One entry of `/api/ps`. A model without an end gets the last second of year 9999 and `forever`."""
    return {
        **tag(loaded.card),
        "size": loaded.size,
        "size_vram": loaded.size_vram,
        "context_length": loaded.context_length,
        "expires_at": loaded.expires_at or FOREVER,
        "forever": loaded.expires_at is None,
        "state": loaded.state,
        **({"info": dict(loaded.info)} if loaded.info else {}),
    }


def by_expiry(models: Sequence[LoadedModel]) -> list[dict[str, Any]]:
    """`/api/ps`, longest remaining first."""
    return [process(item) for item in sorted(models, key=lambda item: item.expires_at or FOREVER, reverse=True)]


def openai_model(card: ModelCard) -> dict[str, Any]:
    """One model as OpenAI's clients read it."""
    return {"id": card.name, "object": "model", "created": _seconds(card.modified), "owned_by": "localdecide"}


def typesafe_model(card: ModelCard) -> dict[str, Any]:
    """One model as TypeSafe's clients read it."""
    family = card.details.get("family") or "decision"
    size = card.details.get("parameter_size") or ""
    return {
        "name": card.name,
        "description": f"{family} model {size}".strip(),
        "release_date": card.modified[:10],
    }


def merged(cards: Sequence[ModelCard]) -> dict[str, Any]:
    """A body that both OpenAI's and TypeSafe's clients parse."""
    return {**openai_list(cards), "models": [typesafe_model(card) for card in cards]}


def openai_list(cards: Sequence[ModelCard]) -> dict[str, Any]:
    """`/v1/models` for OpenAI alone."""
    return {"object": "list", "data": [openai_model(card) for card in cards]}


def _seconds(timestamp: str) -> int:
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return 0
