"""`create_app(service, settings)`: the whole HTTP face as one ASGI app, without a global."""

from __future__ import annotations

from typing import NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route

from localdecide.dialects import table
from localdecide.server import models, openapi
from localdecide.server.decide import Decide
from localdecide.server.edge import Edge
from localdecide.server.health import Health
from localdecide.server.lifecycle import Lifecycle
from localdecide.server.manage import Management
from localdecide.server.storage import Storage
from localdecide.service import DecisionService
from localdecide.settings import Settings


def create_app(service: DecisionService, settings: Settings, lifecycle: Lifecycle | None = None) -> Starlette:
    """The app that serves `service`. lifecycle: shared with whoever runs it, to end it in order."""
    lifecycle = lifecycle or Lifecycle()
    decisions = {path: Decide(found, service, settings) for path, found in table.OPERATIONS.items()}
    return Starlette(
        routes=[
            *(Route(path, decide, methods=["POST"]) for path, decide in decisions.items()),
            *models.routes(service),
            *Management(service, settings, lifecycle).routes(),
            *Storage(service, settings).routes(),
            *Health(service, lifecycle).routes(),
            *openapi.ROUTES,
        ],
        middleware=[
            Middleware(
                Edge,
                settings=settings,
                lifecycle=lifecycle,
                dialect_of=table.dialect_of,
                route_of=table.forced,
                posts=decisions,
            )
        ],
        # Starlette would answer these in plain text; the edge answers them in the path's dialect.
        exception_handlers={HTTPException: _raise},
    )


async def _raise(request: Request, error: Exception) -> NoReturn:
    raise error
