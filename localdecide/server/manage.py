"""Ollama's management routes: what is installed, what is loaded, create, pull, copy, delete.

Every handler gets the service it works on; none knows where models lie.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from localdecide import __version__
from localdecide.core import jsontext
from localdecide.core.duration import parse_keep_alive
from localdecide.core.errors import Forbidden, InvalidRequest, NotSupported
from localdecide.server import guards, models
from localdecide.server.body import body_of
from localdecide.server.disconnect import while_connected
from localdecide.server.lifecycle import Lifecycle
from localdecide.server.ndjson import progress
from localdecide.server.output import JsonResponse
from localdecide.service import DecisionService
from localdecide.settings import Settings

Handler = Callable[[Request], Awaitable[Response]]


class Management:
    """The handlers; `routes` says where each is mounted."""

    def __init__(self, service: DecisionService, settings: Settings, lifecycle: Lifecycle) -> None:
        self.service = service
        self.settings = settings
        self.lifecycle = lifecycle

    def routes(self) -> list[Route]:
        """Paths as in Ollama, there under `/ollama` too, and `/api/shutdown`."""
        return [
            Route("/", self.alive),
            *self.api(""),
            *self.api("/ollama"),
            Route("/api/shutdown", self.shutdown, methods=["POST"]),
        ]

    def api(self, prefix: str) -> list[Route]:
        """Ollama's own routes."""
        return [
            Route(f"{prefix}/api/version", self.version),
            Route(f"{prefix}/api/tags", self.tags),
            Route(f"{prefix}/api/ps", self.ps),
            Route(f"{prefix}/api/show", self.show, methods=["POST"]),
            Route(f"{prefix}/api/create", self.create, methods=["POST"]),
            Route(f"{prefix}/api/pull", self.pull, methods=["POST"]),
            Route(f"{prefix}/api/copy", self.copy, methods=["POST"]),
            Route(f"{prefix}/api/delete", self.delete, methods=["DELETE"]),
            Route(f"{prefix}/api/generate", self.generate, methods=["POST"]),
            Route(f"{prefix}/api/chat", self.chat, methods=["POST"]),
        ]

    async def alive(self, request: Request) -> Response:
        return PlainTextResponse("localdecide is running")

    async def version(self, request: Request) -> Response:
        return JsonResponse({"version": __version__})

    async def tags(self, request: Request) -> Response:
        return JsonResponse({"models": [models.tag(card) for card in await self.service.models()]})

    async def ps(self, request: Request) -> Response:
        return JsonResponse({"models": models.by_expiry(await self.service.loaded())})

    async def show(self, request: Request) -> Response:
        body = await self.body(request)
        verbose, reading = boolean(body, "verbose", False), boolean(body, "reading", False)
        return JsonResponse(await self.service.show(name_of(body), verbose=verbose, reading=reading))

    async def create(self, request: Request) -> Response:
        body = await self.body(request)
        body["model"] = name_of(body)
        body["remote"] = is_remote(request)
        return await progress(self.service.create(body), stream=boolean(body, "stream", True))

    async def pull(self, request: Request) -> Response:
        body = await self.body(request)
        body["model"] = name_of(body)
        body["remote"] = is_remote(request)
        return await progress(self.service.pull(body), stream=boolean(body, "stream", True))

    async def copy(self, request: Request) -> Response:
        body = await self.body(request)
        await self.service.copy(text(body, "source"), text(body, "destination"))
        return Response(status_code=200)

    async def delete(self, request: Request) -> Response:
        body = await self.body(request)
        await self.service.delete(name_of(body))
        return Response(status_code=200)

    async def generate(self, request: Request) -> Response:
        body = await self.body(request)
        return await self.load_only(request, body, "generate", not body.get("prompt"), {"response": ""})

    async def chat(self, request: Request) -> Response:
        body = await self.body(request)
        message = {"message": {"role": "assistant", "content": ""}}
        return await self.load_only(request, body, "chat", not body.get("messages"), message)

    async def load_only(
        self, request: Request, body: Mapping[str, Any], verb: str, empty: bool, reply: dict[str, Any]
    ) -> Response:
        """An empty prompt loads a model, with keep_alive 0 it unloads it; anything else is refused."""
        name = name_of(body)
        if not empty:
            raise NotSupported(
                f"localdecide answers typed questions and does not support {verb}; POST them to /v1/systemone"
            )
        keep_alive = parse_keep_alive(body.get("keep_alive"))
        if keep_alive is not None and keep_alive.seconds == 0:
            served, reason = await self.service.resolve(name), "unload"
            await self.service.unload(name)
        else:
            loaded = await while_connected(self.service.load(name, keep_alive), request.receive)
            served, reason = loaded.card.name, "load"
        created = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return JsonResponse({"model": served, "created_at": created, **reply, "done": True, "done_reason": reason})

    async def shutdown(self, request: Request) -> Response:
        """Ends the daemon in order; only a program on this machine may ask."""
        if is_remote(request):
            raise Forbidden("only a program on this machine may shut the daemon down")
        asyncio.get_running_loop().call_soon(self.lifecycle.stop)
        return JsonResponse({"status": "shutting down"})

    async def body(self, request: Request) -> dict[str, Any]:
        """The JSON object of a management request."""
        value = jsontext.loads(await body_of(request, self.settings.max_body))
        if not isinstance(value, dict):
            raise InvalidRequest.at((), "the request body must be a JSON object")
        return value


def is_remote(request: Request) -> bool:
    """Whether another machine asks: it may name no file of this one and not end the daemon."""
    return request.client is not None and not guards.is_local_address(request.client.host)


def name_of(body: Mapping[str, Any]) -> str:
    """`model`, or its old alias `name`."""
    return text(body, "model" if body.get("model") or not body.get("name") else "name")


def text(body: Mapping[str, Any], field: str) -> str:
    """A required non-blank string."""
    value = body.get(field)
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest.at((field,), "is required" if value in (None, "") else "must be a non-empty string")
    return value.strip()


def boolean(body: Mapping[str, Any], field: str, default: bool) -> bool:
    """An optional true or false."""
    value = body.get(field)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidRequest.at((field,), "must be true or false")
    return value
