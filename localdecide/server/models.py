"""The model list in the shapes of three worlds: Ollama's tags, TypeSafe's models, OpenAI's data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localdecide.core.errors import ModelNotFound
from localdecide.server.output import JsonResponse
from localdecide.service import DecisionService, LoadedModel, ModelCard

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
    """One model as OpenAI's clients read it, and what llama.cpp's tell decision models by: their modalities."""
    inputs = ["text", *(["image"] if "vision" in card.capabilities else [])]
    return {
        "id": card.name,
        "object": "model",
        "created": _seconds(card.modified),
        "owned_by": "localdecide",
        "architecture": {"input_modalities": inputs, "output_modalities": ["decisions"]},
    }


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


def typesafe_list(cards: Sequence[ModelCard]) -> dict[str, Any]:
    """`/v1/models` for TypeSafe alone."""
    return {"models": [typesafe_model(card) for card in cards]}


Shape = Callable[[Sequence[ModelCard]], dict[str, Any]]


def routes(service: DecisionService) -> list[Route]:
    """The lists: merged at the root, and under each prefix in its own shape. One model by its name."""

    def listing(shape: Shape) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            return JsonResponse(shape(await service.models()))

        return handle

    async def one(request: Request) -> Response:
        name = request.path_params["name"]
        served = await service.resolve(name)
        card = next((card for card in await service.models() if card.name == served), None)
        if card is None:
            raise ModelNotFound(f"model '{name}' not found", {"model": name})
        return JsonResponse(openai_model(card))

    return [
        Route("/v1/models", listing(merged)),
        Route("/v1/models/decision", listing(merged)),
        Route("/v1/models/{name:path}", one),
        Route("/typesafe/v1/models", listing(typesafe_list)),
        Route("/requesty/v1/models", listing(merged)),
        Route("/requesty/v1/models/decision", listing(merged)),
        Route("/api/v1/models", listing(openai_list)),
        *(Route(f"/{name}/v1/models", listing(openai_list)) for name in OPENAI_LISTS),
        *(Route(f"/{name}/v1/models/{{name:path}}", one) for name in OPENAI_LISTS),
    ]


# The contracts whose servers list their models as OpenAI does.
OPENAI_LISTS = ("openai", "ollama", "sglang", "vllm", "localai")


def _seconds(timestamp: str) -> int:
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return 0
