"""The outermost ring of the app: ids, guards, errors as JSON, one log line a request.

Nothing leaves here without a request id and, where something went wrong, an error body in the shape
that the path's clients read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localdecide.core.errors import Busy, InvalidRequest, LocaldecideError
from localdecide.dialects.base import Dialect, Reply
from localdecide.server import calls, guards
from localdecide.server.lifecycle import Lifecycle
from localdecide.server.output import respond
from localdecide.settings import Settings

log = logging.getLogger(__name__)
access = logging.getLogger("localdecide.access")

DIALECT_HEADER = "x-localdecide-dialect"
EXPOSED = "x-request-id, x-typesafe-request-id, request-id, x-localdecide-dialect, retry-after"
ALLOWED_HEADERS = (
    "authorization, content-type, content-encoding, accept, user-agent, x-api-key, x-request-id,"
    " x-typesafe-request-id, x-requested-with, x-localdecide-dialect, openai-beta, anthropic-version"
)


class Edge:
    """ASGI middleware. dialect_of: whose errors a path gives; route_of: a path in a forced dialect, or None.

    posts: what a POST to these paths is given to at once; routing through `app` comes to the same, later.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        lifecycle: Lifecycle,
        dialect_of: Callable[[str], Dialect],
        route_of: Callable[[str, str], str | None],
        posts: Mapping[str, ASGIApp],
    ) -> None:
        self.app = app
        self.origins: tuple[str, ...] = settings.origins
        self.api_key: str = settings.api_key
        self.lifecycle = lifecycle
        self.dialect_of = dialect_of
        self.route_of = route_of
        self.posts = posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        head = calls.read_head(scope["headers"])
        call = calls.Call(
            head,
            calls.request_id(head.get("x-request-id"), head.get("x-typesafe-request-id")),
            self.dialect_of(scope["path"]),
        )
        calls.attach(scope, call)
        started = time.perf_counter()
        status = 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(message, call)
            await send(message)

        with self.lifecycle.request():
            try:
                response = await self._guarded(scope, call, receive, send_on)
            except LocaldecideError as error:
                response = respond(call.dialect.refuse(error, call.request_id))
            except HTTPException as error:
                response = self._framework(error, scope, call)
            except Exception:
                log.exception("request %s failed", call.request_id)
                if status:  # half an answer is out; closing the connection is all that is left
                    raise
                response = respond(call.dialect.refuse(LocaldecideError(INTERNAL), call.request_id))
            if response is not None and not status:
                await response(scope, receive, send_on)
        self._log(scope, status, time.perf_counter() - started, call)

    async def _guarded(self, scope: Scope, call: calls.Call, receive: Receive, send: Send) -> Response | None:
        """Runs the app behind the guards; a response of its own where the app is not asked."""
        head = call.head
        host = head.get("host", "")
        guards.check_host(host, self.origins)
        guards.check_origin(head.get("origin"), host, self.origins)
        if scope["method"] == "OPTIONS" and "access-control-request-method" in head:
            return _preflight(head)
        path = scope["path"]
        guards.check_key(self.api_key, head.get("authorization"), head.get("x-api-key"), path)
        if self.lifecycle.closing and scope["method"] not in ("GET", "HEAD"):
            raise Busy("the daemon is shutting down", {"retry_after": 5})
        if forced := head.get(DIALECT_HEADER):
            if (route := self.route_of(path, forced)) is None:
                raise InvalidRequest(f"{DIALECT_HEADER}: {forced[:40]!r} does not serve {path}")
            scope = {**scope, "path": route, "raw_path": route.encode()}
            call.dialect = self.dialect_of(route)
        app = self.posts.get(scope["path"], self.app) if scope["method"] == "POST" else self.app
        await app(scope, receive, send)
        return None

    def _framework(self, error: HTTPException, scope: Scope, call: calls.Call) -> Response:
        where = f"{scope['method']} {scope['path']}"
        if error.status_code == 404:
            reply = call.dialect.refuse_status(404, f"no such route: {where}", "not_found", call.request_id)
        elif error.status_code == 405:
            found = call.dialect.refuse_status(405, f"wrong method: {where}", "method_not_allowed", call.request_id)
            reply = Reply(405, found.body, dict(error.headers or {}))
        else:
            reply = call.dialect.refuse_status(error.status_code, error.detail, "bad_request", call.request_id)
        return respond(reply)

    def _add_headers(self, message: Message, call: calls.Call) -> None:
        request_id, dialect = call.request_id.encode(), call.dialect.name.encode()
        message["headers"] = [
            *message["headers"],
            (b"x-request-id", request_id),
            (b"x-typesafe-request-id", request_id),
            (b"request-id", request_id),
            (DIALECT_HEADER.encode(), dialect),
            (b"x-content-type-options", b"nosniff"),
        ]
        if (origin := call.head.get("origin")) is not None:
            out = MutableHeaders(scope=message)
            out.add_vary_header("Origin")
            if guards.origin_allowed(origin, call.head.get("host", ""), self.origins):
                out["access-control-allow-origin"] = origin
                out["access-control-expose-headers"] = EXPOSED

    def _log(self, scope: Scope, status: int, seconds: float, call: calls.Call) -> None:
        client = scope.get("client") or ("-", 0)
        level = logging.INFO if status < 500 else logging.WARNING
        access.log(
            level,
            '%s "%s %s" %d %.1f ms %s',
            client[0],
            scope["method"],
            scope["path"].encode("unicode_escape").decode(),
            status,
            seconds * 1000,
            call.request_id,
        )


INTERNAL = "internal error; the daemon's log has the details under this reply's request id"


def _preflight(head: Mapping[str, str]) -> Response:
    """Says yes to a browser that asks first; the real request is checked again."""
    allowed = {
        "access-control-allow-methods": "GET, HEAD, POST, DELETE, OPTIONS",
        "access-control-allow-headers": head.get("access-control-request-headers", ALLOWED_HEADERS),
        "access-control-max-age": "600",
    }
    if head.get("access-control-request-private-network") == "true":
        allowed["access-control-allow-private-network"] = "true"
    return Response(status_code=204, headers=allowed)
