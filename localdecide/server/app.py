"""`create_app(service, settings)`: the whole HTTP face as one ASGI app, without a global."""

from __future__ import annotations

from typing import NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localdecide.core.errors import ModelNotFound
from localdecide.dialects import table
from localdecide.server import models
from localdecide.server.decide import endpoint
from localdecide.server.edge import Edge
from localdecide.server.health import Health
from localdecide.server.lifecycle import Lifecycle
from localdecide.server.manage import Management
from localdecide.server.output import JsonResponse
from localdecide.service import DecisionService
from localdecide.settings import Settings


def create_app(service: DecisionService, settings: Settings, lifecycle: Lifecycle | None = None) -> Starlette:
    """The app that serves `service`. lifecycle: shared with whoever runs it, to end it in order."""
    lifecycle = lifecycle or Lifecycle()
    return Starlette(
        routes=[
            *(
                Route(path, endpoint(found, service, settings), methods=["POST"])
                for path, found in table.OPERATIONS.items()
            ),
            *model_routes(service),
            *Management(service, settings, lifecycle).routes(),
            *Health(service, lifecycle).routes(),
        ],
        middleware=[
            Middleware(Edge, settings=settings, lifecycle=lifecycle, dialect_of=table.dialect_of, route_of=table.forced)
        ],
        # Starlette would answer these in plain text; the edge answers them in the path's dialect.
        exception_handlers={HTTPException: _raise},
    )


def model_routes(service: DecisionService) -> list[Route]:
    """`/v1/models` in the merged shape and one model by name."""

    async def list_all(request: Request) -> Response:
        return JsonResponse(models.merged(await service.models()))

    async def one(request: Request) -> Response:
        name = request.path_params["name"]
        served = await service.resolve(name)
        card = next((card for card in await service.models() if card.name == served), None)
        if card is None:
            raise ModelNotFound(f"model '{name}' not found", {"model": name})
        return JsonResponse(models.openai_model(card))

    return [Route("/v1/models", list_all), Route("/v1/models/{name:path}", one)]


async def _raise(request: Request, error: Exception) -> NoReturn:
    raise error
