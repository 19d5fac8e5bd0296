"""Routes that move models in and out of the store: push, export, import, verify, prune, du, search, blobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from localdecide.core import jsontext
from localdecide.core.errors import Cancelled, Forbidden, InvalidRequest
from localdecide.server.body import body_of
from localdecide.server.manage import boolean, is_remote, text
from localdecide.server.ndjson import progress
from localdecide.server.output import JsonResponse
from localdecide.service import DecisionService
from localdecide.settings import Settings

_NEEDS_MODEL = ("push", "export")
_NEEDS_FILE = ("export", "import")


class Storage:
    """The handlers; each hands its work to the service."""

    def __init__(self, service: DecisionService, settings: Settings) -> None:
        self.service = service
        self.settings = settings

    def routes(self) -> list[Route]:
        """Jobs answer with lines of progress, looks with one object."""
        jobs = [
            Route(f"/api/{kind}", self._job(kind), methods=["POST"])
            for kind in ("push", "export", "import", "verify", "prune")
        ]
        looks = [Route(f"/api/{kind}", self._look(kind)) for kind in ("du", "search", "ollama")]
        return [*jobs, *looks, Route("/api/blobs/{digest}", self.blob, methods=["HEAD", "POST"])]

    def _job(self, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            body = await self._body(request)
            if kind in _NEEDS_MODEL:
                body["model"] = text(body, "model" if body.get("model") or not body.get("name") else "name")
            if kind in _NEEDS_FILE:
                self._same_machine(request, kind)
                text(body, "file")
            return await progress(self.service.job(kind, body), stream=boolean(body, "stream", True))

        return handle

    def _look(self, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            return JsonResponse(await self.service.look(kind, dict(request.query_params)))

        return handle

    async def blob(self, request: Request) -> Response:
        """HEAD: 200 or 404. POST: 201 stored, 200 was there; a body with another digest is 400."""
        digest = request.path_params["digest"]
        there = await self.service.has_blob(digest)
        if request.method == "HEAD":
            return Response(status_code=200 if there else 404)
        if there:
            return Response(status_code=200)
        await self.service.add_blob(digest, self._chunks(request))
        return Response(status_code=201)

    async def _chunks(self, request: Request) -> AsyncIterator[bytes]:
        try:
            async for chunk in request.stream():
                yield chunk
        except ClientDisconnect:
            raise Cancelled("the client closed the connection while it sent the file") from None

    def _same_machine(self, request: Request, kind: str) -> None:
        """Files are named by their path on the daemon's machine: nobody else may name one."""
        if is_remote(request):
            raise Forbidden(f"only a program on this machine may ask for an {kind}: it names files of this machine")

    async def _body(self, request: Request) -> dict[str, Any]:
        data = await body_of(request, self.settings.max_body)
        value = jsontext.loads(data) if data.strip() else {}
        if not isinstance(value, dict):
            raise InvalidRequest.at((), "the request body must be a JSON object")
        return value
